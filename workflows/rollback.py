"""Taking a task back: emulator by emulator, change by change, the last one first."""

from collections.abc import Callable

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts.plan import Plan, Stage
    from droidherd.contracts.tasks import Failure
    from droidherd.domain import messages as m
    from droidherd.domain.claim import Claim
    from droidherd.domain.errors import Verdict
    from droidherd.domain.lifecycle import TaskEvent
    from droidherd.domain.reaction import Next
    from workflows.errands import CONFLICT, Backward
    from workflows.intake import why_rejected
    from workflows.ledger import ENGINE, Ledger
    from workflows.line import spoken, wish
    from workflows.stages import Ended, Stages

GONE = "cannot_be_satisfied"
GOES_ON_WITHOUT = "forced-a-rollback-goes-on-without-what-is-gone"
KNOWN = True
"""Who takes something back was admitted long ago: never a duplicate."""


def bare(task_type: str) -> Plan:
    """For a task whose type cannot be resolved any more: values can still be restored."""
    return Plan(task_type=task_type, flow="", flow_hash="", stages=(Stage(name="rollback", steps=()),))


class RollingBack:
    """The states of the rollback, each a coroutine that ends in another state."""

    def __init__(self, ledger: Ledger, claim: Claim, plan: Callable[[], Plan], take_effect: Callable[[], None]) -> None:
        self._ledger = ledger
        self._claim = claim
        self._plan = plan
        self._take_effect = take_effect

    async def pending(self) -> None:
        """Wait for the emulator that was changed, and for no other."""
        ledger, claim = self._ledger, self._claim
        if ledger.next_undo() is None:
            why = "nothing is left" if self._skipped() else "nothing was changed"
            ledger.move(TaskEvent.ROLLBACK_STARTED, ENGINE, why)
            self._end()
            return
        if ledger.intent:
            claim.disclaim(ledger.key())
            self._take_effect()
            return
        claim.request(wish(ledger, self._plan(), claim.ticket, "", known=KNOWN))
        ledger.show()
        while not (claim.lease or claim.rejected or ledger.intent):
            await spoken(claim, lambda: bool(claim.lease or claim.rejected or claim.admitted or ledger.intent))
            self._note_place()
            if claim.admitted and not (claim.lease or claim.rejected or ledger.intent):
                await spoken(claim, lambda: bool(claim.lease or claim.rejected or ledger.intent))
        ledger.position, ledger.why = 0, ""
        if claim.lease:
            ledger.move(TaskEvent.ROLLBACK_STARTED, ENGINE)
        elif claim.rejected and self._skips(claim.rejected):
            ledger.move(TaskEvent.ROLLBACK_STARTED, ENGINE, f"{self._skipped()[-1]} is gone: goes on without it")
            ledger.move(TaskEvent.LEASE_LOST, ENGINE, "goes on with another emulator")
        elif claim.rejected:
            message = why_rejected(claim.rejected)
            ledger.move(TaskEvent.ROLLBACK_STARTED, ENGINE, "no emulator for it")
            self._broke(Failure(kind=claim.rejected.reason, verdict=Verdict.FINAL, message=message))
        else:
            claim.done()
            self._take_effect()

    def _note_place(self) -> None:
        ledger, admitted = self._ledger, self._claim.admitted
        if admitted is not None and self._claim.lease is None:
            ledger.position, ledger.why = admitted.position, admitted.why
            ledger.show()

    async def running(self) -> None:
        """One stay on one emulator."""
        ledger, claim = self._ledger, self._claim
        lease = claim.lease
        if lease is None:
            ledger.move(TaskEvent.LEASE_LOST, ENGINE, "its lease did not survive a continue-as-new")
            return
        ledger.attempt_began(lease)
        ended = await Stages(ledger, claim, self._plan(), lease, Backward(ledger)).run()
        if not ended.clean and not ended.abandoned and (ledger.spec.account or ledger.spec.mutex):
            await workflow.sleep(ledger.physics.lease_ttl_s + 1.0)
        outcome = "cancelled" if ended.stopped else "undone" if ended.next is None else "failed"
        ledger.attempt_ended("lost" if ended.next is Next.MOVE else outcome, ended.failure)
        claim.done("", clean=ended.clean, seconds=ended.seconds, abandoned=ended.abandoned)
        self._next(ended)

    def _next(self, ended: Ended) -> None:
        ledger = self._ledger
        reason = ended.failure.message if ended.failure else ""
        if ended.stopped and ledger.intent:
            self._take_effect()
        elif ended.stopped:
            ledger.move(TaskEvent.LEASE_LOST, ENGINE, "resumed at once")
        elif ended.next is Next.MOVE:
            ledger.moves += ended.counts
            ledger.move(TaskEvent.LEASE_LOST, ENGINE, reason)
        elif ended.next is not None:
            self._broke(self._located(ended.failure))
        elif ledger.next_undo() is not None:
            self._claim.renounce()
            ledger.move(TaskEvent.LEASE_LOST, ENGINE, "goes on with another emulator")
        else:
            self._end()

    def _end(self) -> None:
        """All that can be taken back is. What cannot is named, and stays to be asked for again."""
        ledger, skipped = self._ledger, self._skipped()
        if not skipped:
            ledger.error = None
            ledger.move(TaskEvent.ROLLBACK_DONE, ENGINE)
            return
        left = [f"stage {one.stage} on {one.emulator}" for one in ledger.undo if not one.undone]
        message = f"all is taken back but {', '.join(left)}: gone from the pool"
        remedy = "connect the emulator again, then roll back once more"
        self._broke(Failure(kind=GONE, verdict=Verdict.FINAL, message=message, remedy=remedy))

    def _skipped(self) -> tuple[str, ...]:
        return self._ledger.rollback.skipped if self._ledger.rollback else ()

    def _skips(self, rejected: m.Rejected) -> bool:
        """Forced, it goes on without an emulator that is not there any more."""
        rollback, entry = self._ledger.rollback, self._ledger.next_undo()
        if rollback is None or entry is None or not rollback.force or rejected.reason != GONE:
            return False
        if not workflow.patched(GOES_ON_WITHOUT):
            return False
        self._ledger.rollback = rollback.model_copy(update={"skipped": (*rollback.skipped, entry.emulator)})
        return True

    def _located(self, failure: Failure | None) -> Failure | None:
        """With the stage that could not be taken back."""
        entry = self._ledger.next_undo()
        if failure is None or entry is None or failure.kind == CONFLICT:
            return failure
        message = f"undo of stage {entry.stage} on {entry.emulator}: {failure.message}"
        return failure.model_copy(update={"message": message})

    def _broke(self, failure: Failure | None) -> None:
        self._ledger.error = failure
        self._ledger.move(TaskEvent.ROLLBACK_BROKE, ENGINE, failure.message if failure else "")
