"""One account as an entity: its record. What it does and whether it may, its pool's dispatcher knows."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts import names
    from droidherd.contracts.accounts import AccountInput, AccountRecord, AccountWish
    from droidherd.contracts.tasks import Ask


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

    @workflow.run
    async def run(self, start: AccountInput | None = None) -> AccountRecord:  # noqa: ARG002 - taken by __init__
        """Ends when it is removed: a `set` that came after all keeps it."""
        await workflow.wait_condition(
            lambda: (self._removed or self._changes >= self._start.continue_after) and workflow.all_handlers_finished()
        )
        if not self._removed:
            workflow.continue_as_new(
                self._start.model_copy(update={"record": self._record}),
                task_queue=names.FLEET_QUEUE,
                memo={names.MEMO_ACCOUNT: self._written()},
            )
        return self._record

    @workflow.update
    def set(self, wish: AccountWish) -> AccountRecord:
        """What it is from now on."""
        self._removed = False
        self._change(wish, wish.ask)
        return self._record

    @workflow.update
    def remove(self, ask: Ask) -> AccountRecord:
        """Forget it. What its tasks do goes on; they are bound to nothing any more."""
        self._removed = True
        self._change(AccountWish(), ask)
        return self._record

    @workflow.query
    def view(self) -> AccountRecord:
        return self._record

    def _change(self, wish: AccountWish, ask: Ask) -> None:
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
        workflow.upsert_memo({names.MEMO_ACCOUNT: self._written()})
        workflow.set_current_details(self._details())

    def _written(self) -> dict[str, object]:
        return self._record.model_dump(mode="json", exclude_defaults=True)

    def _details(self) -> str:
        record = self._record
        bound = f"bound to {record.emulator}" if record.emulator else "bound to no emulator"
        return f"**{record.account}**: {bound}; credentials: {', '.join(sorted(record.credentials)) or 'none'}"
