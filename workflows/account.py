"""One account as an entity: its record. What it does and whether it may, its pool's dispatcher knows."""

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from droidherd.contracts import names
from droidherd.contracts.accounts import AccountActionRequest, AccountInput, AccountRecord, AccountState, SetAccount
from droidherd.domain.dispatch.audit import AuditEntry
from droidherd.domain.outbox import Outbox
from workflows.delivery import Delivery
from workflows.inbound import continues, protected

UNHEARD = "UnheardError"
UNHEARD_MAX = 100
"""Changes that the audit of a pool has yet to hear of."""


@protected(cancellable=False)
@workflow.defn(name=names.Workflow.ACCOUNT)
class AccountWorkflow:
    """Waits for changes, for ever. Its memo holds the record, so that nobody needs a worker to read it.

    Only the loop in `run` issues commands.
    """

    @workflow.init
    def __init__(self, start: AccountInput | None = None) -> None:
        """A client starts it with nothing, and `set`."""
        name = workflow.info().workflow_id.removeprefix(names.account_id(""))
        self._start = start or AccountInput()
        self._state = _state_of(name, self._start.state)
        self._outbox = Outbox(self._state.outbox)
        self._delivery = Delivery(self._outbox)
        self._updates = 0
        """Those that change nothing count too: Temporal bounds how many one run takes."""
        self._stored = self._state.record
        """What the memo says."""

    @workflow.run
    async def run(self, start: AccountInput | None = None) -> AccountRecord:  # noqa: ARG002 - taken by __init__
        """Ends when it is removed and the audit knows: a `set` that came after all keeps it."""
        while not (self._should_continue() or self._is_over()):
            await workflow.wait_condition(lambda: self._is_due() or self._should_continue() or self._is_over())
            await self._delivery.send()
            self._store()
        if not self._is_over():
            await self._delivery.drain()
            self._store()
        if not self._is_over():
            workflow.continue_as_new(
                self._start.model_copy(update={"state": self._state}),
                task_queue=names.FLEET_QUEUE,
                memo={names.MEMO_ACCOUNT: None if self._state.removed else self._memo()},
            )
        return self._state.record

    @workflow.update
    def set(self, request: SetAccount) -> AccountRecord:
        """What it is from now on. What it is already changes nothing."""
        self._updates += 1
        if self._is_set_to(request):
            return self._state.record
        self._state.removed = False
        self._change(request, request)
        self._audit("account_set", request, f": {self._describe()}")
        return self._state.record

    @set.validator  # noqa: A003 - the name of the update
    def _check_set(self, request: SetAccount) -> None:  # noqa: ARG002
        self._check_heard()

    @workflow.update
    def remove(self, request: AccountActionRequest) -> AccountRecord:
        """Forget it. What its tasks do goes on; they are bound to nothing any more."""
        self._updates += 1
        self._state.removed = True
        self._change(SetAccount(), request)
        self._audit("account_removed", request)
        return self._state.record

    @remove.validator
    def _check_remove(self, request: AccountActionRequest) -> None:  # noqa: ARG002
        self._check_heard()

    def _check_heard(self) -> None:
        """No change goes unnoticed by the audit, and what the audit has yet to hear is bounded."""
        if len(self._outbox) >= UNHEARD_MAX:
            late = next(iter(self._outbox.lines))
            text = f"{late} has not heard of the last {UNHEARD_MAX} changes: see `droidherd status`, and try again"
            raise ApplicationError(text, type=UNHEARD, non_retryable=True)

    @workflow.query
    def view(self) -> AccountRecord:
        """The record of the account."""
        return self._state.record

    @workflow.query
    def state(self) -> AccountState:
        """Everything that is known of it."""
        return self._state

    # --- the loop ---------------------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        return self._delivery.is_due() or self._stored is not self._state.record

    def _should_continue(self) -> bool:
        many = self._updates >= self._start.continue_after or workflow.info().is_continue_as_new_suggested()
        return many and self._stored is self._state.record

    def _is_over(self) -> bool:
        """Whether it is removed, and the audit knows."""
        return self._state.removed and self._delivery.is_idle() and self._stored is self._state.record

    def _store(self) -> None:
        if self._stored is self._state.record:
            return
        self._stored = self._state.record
        workflow.upsert_memo({names.MEMO_ACCOUNT: None if self._state.removed else self._memo()})
        workflow.set_current_details(f"**{self._state.record.account}**: {self._describe()}{self._changed()}")

    # --- changes ----------------------------------------------------------------------------------------------

    def _is_set_to(self, request: SetAccount) -> bool:
        """Whether this is what is written down already."""
        record = self._state.record
        known = record.changed_at is not None and not self._state.removed
        return known and (record.emulator, record.credentials, record.note) == (
            request.emulator,
            request.credentials,
            request.note,
        )

    def _change(self, to: SetAccount, request: AccountActionRequest) -> None:
        self._state.record = AccountRecord(
            account=self._state.record.account,
            emulator=to.emulator,
            credentials=to.credentials,
            note=to.note,
            changed_at=workflow.now(),
            changed_by=request.actor,
            reason=request.reason,
        )

    def _audit(self, what: str, request: AccountActionRequest, more: str = "") -> None:
        """For the pool's audit, which stays when the record is gone."""
        detail = f"{self._state.record.account}{more}"
        self._outbox.put(
            names.dispatcher_id(request.pool), AuditEntry(what, request.actor, request.reason, detail=detail)
        )

    def _memo(self) -> dict[str, object]:
        return self._state.record.model_dump(mode="json", exclude_defaults=True)

    def _changed(self) -> str:
        record = self._state.record
        if record.changed_at is None:
            return ""
        reason = f": {record.reason}" if record.reason else ""
        return f"\n\nchanged {record.changed_at:%Y-%m-%d %H:%M:%S} UTC by {record.changed_by}{reason}"

    def _describe(self) -> str:
        record = self._state.record
        bound = f"bound to {record.emulator}" if record.emulator else "bound to no emulator"
        return f"{bound}; credentials: {', '.join(sorted(record.credentials)) or 'none'}"


def _state_of(name: str, given: AccountState | None) -> AccountState:
    """The state of the run before. Of a client's, which may be anything, the record, if it is that of this account."""
    if given is not None and continues():
        return given
    record = given.record if given is not None and given.record.account == name else AccountRecord(account=name)
    return AccountState(record=record)
