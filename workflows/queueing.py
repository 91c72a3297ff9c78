"""Before an attempt: waiting for the time it may start, for the dispatcher's word, and in line."""

from collections.abc import Awaitable, Callable

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts.plan import Plan
    from droidherd.contracts.tasks import Failure
    from droidherd.domain import messages as m
    from droidherd.domain.claim import Claim
    from droidherd.domain.errors import Verdict
    from droidherd.domain.lifecycle import TaskEvent
    from workflows.intake import until_s, why_rejected
    from workflows.ledger import ENGINE, Ledger
    from workflows.line import patience_s, spoken, wish


class Queueing:
    """The states `pending` and `queued`, each a coroutine that ends in another state."""

    def __init__(
        self,
        ledger: Ledger,
        claim: Claim,
        plan: Callable[[], Plan],
        take_effect: Callable[[], None],
        idle: Callable[[float], Awaitable[bool]],
    ) -> None:
        self._ledger = ledger
        self._claim = claim
        self._plan = plan
        self._take_effect = take_effect
        self._idle = idle

    async def pending(self) -> None:
        """Wait for the time it may start, then ask for an emulator."""
        ledger = self._ledger
        if until_s(ledger.not_before) > 0:
            ledger.why = f"not before {ledger.not_before:%Y-%m-%d %H:%M:%S %Z}"
            ledger.show()
            if not await self._until_its_time():
                self._take_effect()
                return
        if ledger.intent:
            self._claim.disclaim(ledger.key())
            self._take_effect()
        elif self._too_late():
            self._claim.disclaim(ledger.key())
            self._expire()
        else:
            # A ticket once drawn is kept until a retry or a resume throws it away.
            self._claim.request(wish(ledger, self._plan(), self._claim.ticket, ledger.avoid, known=ledger.known()))
            await self._await_verdict()

    async def _until_its_time(self) -> bool:
        """False: somebody wants something else. Where emulators may be switched off the pool hears of it before."""
        ledger = self._ledger
        start_s = until_s(ledger.not_before)
        latest_s = start_s if ledger.attempts else until_s(ledger.spec.expires_at, far=start_s)
        lead_s = ledger.physics.startup_lead_s
        if not lead_s or latest_s < start_s or ledger.not_before is None:
            return await self._idle(min(start_s, latest_s))
        if start_s > lead_s and not await self._idle(start_s - lead_s):
            return False
        will = wish(ledger, self._plan(), self._claim.ticket, ledger.avoid, known=ledger.known())
        self._claim.soon(ledger.key(), int(ledger.not_before.timestamp() * 1000), will.requires, will.lane)
        return await self._idle(until_s(ledger.not_before))

    async def _await_verdict(self) -> None:
        """Admitted, granted or rejected; or somebody wants something else."""
        ledger, claim = self._ledger, self._claim
        while True:
            answered = await self._wait(lambda: bool(claim.rejected or claim.admitted or claim.lease or ledger.intent))
            if claim.rejected:
                self._rejected(claim.rejected)
            elif claim.lease or claim.admitted:
                ledger.position = claim.admitted.position if claim.admitted and not claim.lease else 0
                ledger.why = claim.admitted.why if claim.admitted and not claim.lease else ""
                ledger.move(TaskEvent.ADMITTED, ENGINE)
            elif ledger.intent:
                claim.done()
                self._take_effect()
            elif self._too_late():
                claim.done()
                self._expire()
            elif not answered:
                continue
            return

    async def queued(self) -> None:
        """In line, until an emulator is granted."""
        ledger, claim = self._ledger, self._claim
        if claim.lease is None:
            ledger.show()
        while not (claim.lease or ledger.intent or claim.rejected):
            if await self._wait(lambda: bool(claim.lease or ledger.intent or claim.rejected)):
                break
            if self._too_late():
                claim.done()
                self._expire()
                return
        if ledger.intent and claim.lease is None:
            claim.done()
            self._take_effect()
        elif claim.rejected:
            ledger.move(TaskEvent.LEASE_LOST, ENGINE, claim.rejected.reason)
        else:
            ledger.position, ledger.why = 0, ""
            ledger.move(TaskEvent.GRANTED, ENGINE)

    def _rejected(self, news: m.Rejected) -> None:
        message = why_rejected(news)
        failure = Failure(kind=news.reason, verdict=Verdict.FINAL, message=message)
        if news.reason == "cannot_be_satisfied" and (bound := self._bound()):
            message = f"account {self._ledger.spec.account} is bound to emulator {bound}, which its pool does not have"
            remedy = f"connect {bound}, or bind the account to another one: droidherd account set"
            failure = failure.model_copy(update={"message": message, "remedy": remedy})
        if self._ledger.known():
            self._ledger.fail(failure)  # it may have changed things: it can be tried again, and taken back
            return
        self._ledger.error = failure
        self._ledger.move(TaskEvent.REJECTED, ENGINE, message)

    def _bound(self) -> str:
        """The emulator its account is bound to, if that is what it waits for."""
        return "" if self._ledger.spec.emulator else self._plan().emulator

    def _too_late(self) -> bool:
        """`expires_at` says until when a start makes sense; who has started once may go on."""
        return not self._ledger.attempts and until_s(self._ledger.spec.expires_at, far=1.0) <= 0

    def _expire(self) -> None:
        moment = self._ledger.spec.expires_at
        self._ledger.fail(
            Failure(kind="expired", verdict=Verdict.FINAL, message=f"no emulator was free before {moment}")
        )

    async def _wait(self, condition: Callable[[], bool]) -> bool:
        """Wait for an answer of the dispatcher, no longer than a start makes sense."""
        return await spoken(self._claim, condition, patience_s(self._ledger))
