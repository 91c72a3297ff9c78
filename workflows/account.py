"""One account as an entity: its record. What it does and whether it may, its pool's dispatcher knows."""

import asyncio

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts import names
    from droidherd.contracts.accounts import AccountAsk, AccountInput, AccountRecord, AccountWish
    from droidherd.domain.audit import Deed
    from droidherd.domain.outbox import Outbox
    from workflows.courier import Courier
    from workflows.handles import ignore, unless_ended

NO_NEWS = "what-it-is-already-is-no-news"


@workflow.defn(name=names.Workflow.ACCOUNT)
class AccountWorkflow:
    """Waits for changes, for ever; its memo says what it knows, so that nobody needs a worker to read it."""

    @workflow.init
    def __init__(self, start: AccountInput | None = None) -> None:
        """A client starts it with nothing, and `set`."""
        name = workflow.info().workflow_id.removeprefix(names.account_id(""))
        self._start = start or AccountInput()
        self._record = self._start.record or AccountRecord.model_construct(account=name)
        self._changes = 0
        self._removed = False
        self._outbox: Outbox[Deed] = Outbox()

    @workflow.run
    async def run(self, start: AccountInput | None = None) -> AccountRecord:  # noqa: ARG002 - taken by __init__
        """Ends when it is removed and the audit knows: a `set` that came after all keeps it."""
        courier = Courier(self._outbox)
        telling = asyncio.create_task(courier.run())
        await unless_ended(lambda: self._is_over() and courier.idle(), telling)
        ignore(telling)
        telling.cancel()
        if not self._removed:
            workflow.continue_as_new(
                self._start.model_copy(update={"record": self._record}),
                task_queue=names.FLEET_QUEUE,
                memo={names.MEMO_ACCOUNT: self._written()},
            )
        return self._record

    @workflow.update
    def set(self, wish: AccountWish) -> AccountRecord:
        """What it is from now on. What it is already is no news."""
        if self._is(wish) and workflow.patched(NO_NEWS):
            return self._record
        self._removed = False
        self._change(wish, wish.ask)
        self._tell("account_set", wish.ask, f": {self._said()}")
        return self._record

    @workflow.update
    def remove(self, ask: AccountAsk) -> AccountRecord:
        """Forget it. What its tasks do goes on; they are bound to nothing any more."""
        self._removed = True
        self._change(AccountWish(), ask)
        self._tell("account_removed", ask)
        return self._record

    @workflow.query
    def view(self) -> AccountRecord:
        return self._record

    def _is(self, wish: AccountWish) -> bool:
        """Whether this is what is written down already."""
        record = self._record
        known = record.changed_at is not None and not self._removed
        return known and (record.emulator, record.credentials, record.note) == (
            wish.emulator,
            wish.credentials,
            wish.note,
        )

    def _is_over(self) -> bool:
        """Whether this run has nothing more to do."""
        over = self._removed or self._changes >= self._start.continue_after
        return over and workflow.all_handlers_finished()

    def _tell(self, what: str, ask: AccountAsk, more: str = "") -> None:
        """For the pool's audit, which stays when the record is gone."""
        deed = Deed(what, ask.actor, ask.reason, detail=f"{self._record.account}{more}")
        self._outbox.put(names.dispatcher_id(ask.pool), deed)

    def _change(self, wish: AccountWish, ask: AccountAsk) -> None:
        self._changes += 1
        self._record = AccountRecord(
            account=self._record.account,
            emulator=wish.emulator,
            credentials=wish.credentials,
            note=wish.note,
            changed_at=workflow.now(),
            changed_by=ask.actor,
            reason=ask.reason,
        )
        workflow.upsert_memo({names.MEMO_ACCOUNT: None if self._removed else self._written()})
        workflow.set_current_details(self._details())

    def _written(self) -> dict[str, object]:
        return self._record.model_dump(mode="json", exclude_defaults=True)

    def _details(self) -> str:
        return f"**{self._record.account}**: {self._said()}"

    def _said(self) -> str:
        record = self._record
        bound = f"bound to {record.emulator}" if record.emulator else "bound to no emulator"
        return f"{bound}; credentials: {', '.join(sorted(record.credentials)) or 'none'}"
