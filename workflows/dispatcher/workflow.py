"""One dispatcher per pool: feeds the machine of `droidherd.domain.dispatch.dispatcher` and delivers what it says."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

from droidherd.contracts import names
from droidherd.contracts.delivery import DeliveryResult, DispatcherAnswer
from droidherd.contracts.engine import Holders, PoolWork, Predecessor
from droidherd.contracts.queue import (
    AccountsPage,
    AccountsQuery,
    AccountView,
    AuditPage,
    AuditQuery,
    CommandResult,
    DisabledPage,
    DisabledQuery,
    DispatcherInput,
    EmulatorsPage,
    EventsPage,
    OperatorCommand,
    PoolSettings,
    PositionsQuery,
    QueuePage,
    QueuePosition,
    QueuePositions,
    QueueQuery,
    QueueSettings,
    StatsPage,
)
from droidherd.domain import messages as m
from droidherd.domain.dispatch.audit import AuditEntry
from droidherd.domain.dispatch.commands import COMMANDS
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.state import DispatcherState
from workflows import calls, options
from workflows.delivery import Delivery
from workflows.dispatcher import views
from workflows.handles import start_timer
from workflows.inbound import call_or_log, protected, waits_when

PageT = TypeVar("PageT", QueuePage, EmulatorsPage, AccountsPage, DisabledPage, StatsPage, AuditPage)


class DueTimer:
    """One timer at a time. It only says that it rang; the loop does what is due, and sets it again."""

    def __init__(self) -> None:
        self.rang = False
        self._due_ms = 0
        self._timer: asyncio.Task[None] | None = None

    def follow(self, due_ms: int | None) -> None:
        """Ring at this time, or earlier: a timer that is set for an earlier time stays, since replacing it costs more.

        So a pool whose leases come and go sets a timer once per time that a lease may last.
        """
        if due_ms is None or (self._timer is not None and self._due_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(due_ms / 1000 - workflow.time(), options.TICK_MIN_S)
        self._due_ms = due_ms
        self._timer = asyncio.create_task(workflow.sleep(delay_s, summary="the next lease, mutex or rebuild runs out"))
        self._timer.add_done_callback(self._ring)

    def _ring(self, timer: "asyncio.Task[None]") -> None:
        if timer is self._timer:
            self.rang, self._timer = True, None


def _has_no_board(dispatcher: "DispatcherWorkflow", _command: OperatorCommand) -> bool:
    return not dispatcher._ready  # noqa: SLF001 (its handlers ask)


@protected(own=("snapshot", "settings"), cancellable=False)
@workflow.defn(name=names.Workflow.DISPATCHER)
class DispatcherWorkflow:
    """FIFO hand-over of a pool's emulators to its tasks.

    Handlers, ends of activities and the clock only change state. One loop issues the commands: deliveries first, then
    what is due by time (docs/adr/0041-dispatcher-by-composition.md).
    """

    @workflow.init
    def __init__(self, start: DispatcherInput) -> None:
        """Restored here and not in `run`: messages are handled before `run` begins."""
        self._pool, self._settings = start.pool, start.settings
        self._use(start.snapshot)
        self._ready = bool(start.snapshot)
        self._early: list[Callable[[], object]] = []
        self._timer = DueTimer()
        self._messages = 0
        self._timed_messages = -1
        """How many had been handled when the timer was set last; -1: it was not set yet."""
        self._drained = False

    def _use(self, text: str) -> None:
        """Go on with this snapshot; empty: with nothing."""
        config = self._settings.pool_config()
        state = DispatcherState.load(text, config) if text else None
        self._machine = Dispatcher(self._pool, config, state)
        self._delivery = Delivery(self._machine.outbox, batched=True)

    @workflow.run
    async def run(self, start: DispatcherInput) -> None:  # noqa: ARG002 - taken by __init__
        if not self._ready:
            await self._take_over()
        # What was said while the run before drained its outbox was heard there, but granted nothing any more.
        self._machine.assign(_now_ms())
        while not self._should_continue():
            await workflow.wait_condition(lambda: self._has_work() or self._should_continue())
            await self._work()
        self._machine.held_back = True
        start_timer(options.CONTINUE_DRAIN_S, self._end_drain, options.CONTINUE_SUMMARY)
        while not self._may_continue():
            await workflow.wait_condition(lambda: self._has_work() or self._may_continue())
            await self._work()
        if not self._delivery.is_idle():
            workflow.logger.warning("continuing with %d messages undelivered", len(self._machine.outbox))
        workflow.continue_as_new(self._next(), task_queue=names.FLEET_QUEUE)

    def _should_continue(self) -> bool:
        limit = self._settings.continue_after
        return bool(limit and self._messages >= limit) or workflow.info().is_continue_as_new_suggested()

    def _end_drain(self) -> None:
        self._drained = True

    def _may_continue(self) -> bool:
        if self._drained:
            return True
        return self._delivery.is_idle() and workflow.all_handlers_finished()

    def _next(self) -> DispatcherInput:
        """Everything the next run needs; nothing is awaited between this and continuing."""
        text = self._machine.state.dump()
        return DispatcherInput(pool=self._pool, snapshot=text, settings=self._settings)

    # --- the loop ---------------------------------------------------------------------------------------------

    def _has_work(self) -> bool:
        return self._delivery.is_due() or self._timer.rang or self._timed_messages != self._messages

    async def _work(self) -> None:
        """The only place that issues commands, always in this order."""
        self._hear()
        await self._delivery.send()
        if self._timer.rang:
            self._timer.rang = False
            self._machine.tick(_now_ms())
        self._timed_messages = self._messages
        self._timer.follow(self._machine.next_due_ms())
        self._show()
        await asyncio.sleep(0)  # the timer's command stands before whatever comes next

    def _hear(self) -> None:
        """What ended since the last time."""
        for outcome in self._delivery.settle():
            if outcome.result is DeliveryResult.NOT_FOUND:
                self._machine.undeliverable(outcome.target, outcome.message, _now_ms())
            else:
                self._machine.on_delivered(outcome.target, _now_ms())

    # --- tasks and emulators ----------------------------------------------------------------------------------

    @workflow.signal
    def enqueue(self, message: m.Enqueue) -> None:
        self._take(lambda: self._machine.on_enqueue(message, _now_ms()))

    @workflow.update
    def ask(self, message: m.Enqueue) -> DispatcherAnswer:
        """`enqueue`, answered in the same breath. Before the board is restored the answer comes as a signal."""
        self._messages += 1
        if not self._ready:
            self._early.append(lambda: self._machine.on_enqueue(message, _now_ms()))
            return DispatcherAnswer()
        answer = self._machine.ask(message, _now_ms())
        return DispatcherAnswer(message=answer)

    @workflow.signal
    def ending(self, message: m.Ending) -> None:
        self._take(lambda: self._machine.on_ending(message, _now_ms()))

    @workflow.signal
    def soon(self, message: m.Soon) -> None:
        self._take(lambda: self._machine.on_soon(message, _now_ms()))

    @workflow.signal
    def done(self, message: m.Done) -> None:
        self._take(lambda: self._machine.on_done(message, _now_ms()))

    @workflow.signal
    def announce(self, message: m.Announce) -> None:
        self._take(lambda: self._machine.on_announce(message, _now_ms()))

    @workflow.signal
    def closed(self, closed: Holders) -> None:
        """A worker looked at those we wait for, and found these closed: they will never say so themselves."""
        for task_id, run in closed.holders.items():
            self._take(lambda task_id=task_id, run=run: self._machine.on_closed(task_id, run, _now_ms()))

    @workflow.signal
    def wake(self) -> None:
        """Somebody makes sure that this dispatcher exists."""

    def _take(self, handle: Callable[[], object]) -> None:
        """Handlers change the board and return. Before the board is restored they wait in line."""
        self._messages += 1
        if self._ready:
            handle()
        else:
            self._early.append(handle)

    # --- people -----------------------------------------------------------------------------------------------

    @workflow.update
    @waits_when(_has_no_board)
    async def pause_lane(self, command: OperatorCommand) -> CommandResult:
        """Grant nothing any more in a lane, or in all; what runs goes on."""
        return await self._in_turn(lambda: self._of_lane("pause_lane", command))

    @workflow.update
    @waits_when(_has_no_board)
    async def resume_lane(self, command: OperatorCommand) -> CommandResult:
        """Take back a pause."""
        return await self._in_turn(lambda: self._of_lane("resume_lane", command))

    @workflow.update
    @waits_when(_has_no_board)
    async def set_capacity(self, command: OperatorCommand) -> CommandResult:
        """How many tasks of a lane may hold an emulator at once."""
        return await self._in_turn(lambda: self._of_lane("set_capacity", command))

    @workflow.update
    @waits_when(_has_no_board)
    async def set_order(self, command: OperatorCommand) -> CommandResult:
        """Who goes first in a lane."""
        return await self._in_turn(lambda: self._of_lane("set_order", command))

    @workflow.update
    @waits_when(_has_no_board)
    async def reset_lane(self, command: OperatorCommand) -> CommandResult:
        """Take back what was set on a lane by hand. Nobody in it: it is forgotten."""
        return await self._in_turn(lambda: self._reset_lane(command))

    @workflow.update
    @waits_when(_has_no_board)
    async def prioritize(self, command: OperatorCommand) -> CommandResult:
        """More urgent, never less."""
        return await self._in_turn(lambda: self._prioritize(command))

    @workflow.update
    @waits_when(_has_no_board)
    async def disable_account(self, command: OperatorCommand) -> CommandResult:
        """Grant nothing any more to an account; what runs goes on."""
        return await self._in_turn(lambda: self._obey("disable_account", command))

    @workflow.update
    @waits_when(_has_no_board)
    async def enable_account(self, command: OperatorCommand) -> CommandResult:
        """Grant emulators to an account again."""
        return await self._in_turn(lambda: self._enable_account(command))

    @workflow.signal
    def configure(self, settings: QueueSettings) -> None:
        """A process that started says what the settings are now."""
        self._take(lambda: self._configure(settings))

    @workflow.signal
    def audit_entry(self, entry: AuditEntry) -> None:
        """Something was done elsewhere that belongs into this pool's audit."""
        self._take(lambda: self._record(entry))

    def _record(self, entry: AuditEntry) -> None:
        if self._machine.state.handled.is_new(entry.once):
            self._machine.audit_recorder.record(entry, _now_ms())

    def _configure(self, settings: QueueSettings) -> None:
        self._settings = self._settings.model_copy(update=settings.model_dump())
        self._machine.configure(self._settings.pool_config(), _now_ms())

    async def _in_turn(self, decide: Callable[[], CommandResult]) -> CommandResult:
        """A command is judged and remembered by what the dispatcher before this one knew, so it waits for that."""
        answers: list[CommandResult] = []
        turns: list[bool] = []

        def turn() -> None:
            turns.append(True)
            answers.append(decide())

        self._take(turn)
        if not turns:
            await workflow.wait_condition(lambda: bool(turns))
        if not answers:
            raise ApplicationError("the command failed by a fault of the dispatcher: see the worker's log")
        return answers[0]

    def _of_lane(self, name: str, command: OperatorCommand) -> CommandResult:
        """Something about a lane, or about all of them."""
        known = list(self._machine.board.lanes)
        done = self._obey(name, command)
        if not command.lane or command.lane in known:
            return done
        return done.adding(f"nobody is in lane {command.lane} yet; the others are: {', '.join(known) or 'none'}")

    def _reset_lane(self, command: OperatorCommand) -> CommandResult:
        lane = self._machine.board.lanes.get(command.lane)
        was = lane is None or not self._machine.board.by_hand(lane)
        done = self._obey("reset_lane", command)
        return done.adding(f"nothing was set by hand on lane {command.lane}" if was else "")

    def _prioritize(self, command: OperatorCommand) -> CommandResult:
        entry = self._machine.board.entries.get(command.task_id)
        before = entry.ask.priority if entry is not None else 0
        done = self._obey("prioritize", command)
        less = f"in front of priority {before}, which it keeps: {command.priority} is less urgent"
        return done.adding(less if command.priority > before else "")

    def _enable_account(self, command: OperatorCommand) -> CommandResult:
        was = not self._machine.accounts.is_disabled(command.account)
        done = self._obey("enable_account", command)
        return done.adding(f"account {command.account} was not disabled" if was else "")

    def _obey(self, name: str, command: OperatorCommand) -> CommandResult:
        """An operator's order, once: the engine de-duplicates per run only."""
        kind, handled = COMMANDS[name], self._machine.state.handled
        if handled.knows(command.request_id):
            return CommandResult(done=True, detail="done before")
        refused = kind.refusal(self._machine, command)
        if refused:
            return CommandResult(done=False, detail=refused)
        handled.is_new(command.request_id)
        kind.apply(self._machine, command, _now_ms())
        return CommandResult(done=True)

    # --- questions --------------------------------------------------------------------------------------------

    @workflow.query
    def queue(self, query: QueueQuery) -> QueuePage:
        """Who waits and why, who runs where, the lanes and their limits."""
        return self._as_known(views.queue(self._machine, query, _now_ms()))

    @workflow.query
    def emulators(self) -> EmulatorsPage:
        """Every emulator of the pool."""
        return self._as_known(views.emulators(self._machine))

    @workflow.query
    def account(self, account: str) -> AccountView:
        """Whether an account waits or runs, and where."""
        return views.account(self._machine, account)

    @workflow.query
    def accounts(self, query: AccountsQuery) -> AccountsPage:
        """The same of many."""
        accounts = views.accounts(self._machine, query.accounts)
        return self._as_known(AccountsPage(pool=self._pool, accounts=accounts))

    @workflow.query
    def disabled(self, query: DisabledQuery) -> DisabledPage:
        """Accounts to which nothing is granted."""
        return self._as_known(views.disabled_accounts(self._machine, query))

    @workflow.query
    def events(self, after: int = 0) -> EventsPage:
        """The last live events behind a cursor."""
        ring = self._machine.state.events
        return EventsPage(cursor=ring.cursor, events=views.events(ring.since(after)))

    @workflow.query
    def place(self, task_id: str) -> QueuePosition:
        """Where a task stands in line now, and why it waits."""
        return views.place(self._machine, task_id) if self._ready else QueuePosition(why=self._why_unready())

    @workflow.query
    def places(self, query: PositionsQuery) -> QueuePositions:
        """The same of many. Who does not wait is not in the answer."""
        if not self._ready:
            return QueuePositions(places=dict.fromkeys(query.tasks, QueuePosition(why=self._why_unready())))
        return views.places(self._machine, query.tasks)

    @workflow.query
    def stats(self) -> StatsPage:
        """Attempts by type and outcome, run times, waits."""
        return self._as_known(views.stats(self._machine))

    @workflow.query
    def audit(self, query: AuditQuery) -> AuditPage:
        """Who did what to this pool."""
        return self._as_known(views.audit(self._machine, query))

    @workflow.query
    def holders(self, host_id: str) -> Holders:
        """Those we wait for, of whom a worker of this host is to look whether they are closed. Empty: all of them."""
        return Holders(holders=self._machine.to_audit(host_id))

    @workflow.query
    def snapshot(self) -> str:
        """For a successor that finds this run terminated."""
        return self._machine.state.dump() if self._ready else ""

    def _as_known(self, page: PageT) -> PageT:
        """A page says so when it may not be all: a dispatcher that still looks for its predecessor knows nothing."""
        return page.model_copy(update={"rebuilding": not self._ready or self._machine.state.rebuild.active})

    def _why_unready(self) -> str:
        return f"the dispatcher of pool {self._pool} has just begun and looks for what the one before it knew"

    # --- inside -----------------------------------------------------------------------------------------------

    async def _take_over(self) -> None:
        """Take over from a terminated predecessor; without one, ask every open task of the pool."""
        self._settings = await self._read_settings()
        before = await self._find_predecessor()
        for lane in self._settings.capacities:
            self._machine.board.lane(lane)
        self._ready = True
        self._machine.held_back = True  # what was heard meanwhile counts before the first grant
        self._machine.take_over(
            before.open_tasks,
            _now_ms(),
            self._settings.rebuild_s,
            blind=before.existed and not before.snapshot,
            emulators=before.emulators,
        )
        for handle in self._early:
            call_or_log(handle, f"what the dispatcher of {self._pool} heard before it began")
        self._early.clear()
        self._machine.held_back = False
        self._show()

    async def _read_settings(self) -> PoolSettings:
        """What the operator set. Asked until it is answered: nothing else ends a dispatcher."""
        while True:
            try:
                return await calls.execute_activity(
                    "read_pool",
                    PoolWork(pool=self._pool),
                    PoolSettings,
                    summary=f"reads the settings of pool {self._pool}",
                    start_to_close_timeout=options.ENGINE_TIMEOUT,
                    schedule_to_close_timeout=options.ENGINE_TOTAL,
                    retry_policy=options.ENGINE_RETRY,
                )
            except FailureError as error:
                workflow.logger.warning("the settings of the pool are not known yet: %s", error)

    async def _find_predecessor(self) -> Predecessor:
        """Nothing can be granted before this is known and used, so it is asked until it is answered."""
        while True:
            try:
                found = await calls.execute_activity(
                    "find_predecessor",
                    PoolWork(pool=self._pool, run_id=workflow.info().run_id),
                    Predecessor,
                    summary="looks for what the dispatcher before it knew",
                    start_to_close_timeout=options.ENGINE_TIMEOUT,
                    schedule_to_close_timeout=options.ENGINE_TOTAL,
                    retry_policy=options.ENGINE_RETRY,
                )
            except ActivityError as error:
                workflow.logger.warning("the predecessor is not found yet: %s", error.cause)
                continue
            try:
                self._use(found.snapshot or found.kept)
            except ValueError as error:  # its activity had looked: this is the answer of somebody else
                workflow.logger.error("what the predecessor knew cannot be read, and is asked again: %s", error)
                await workflow.sleep(options.PRESENCE_BACKOFF_S, summary="asks again what its predecessor knew")
            else:
                return found

    def _show(self) -> None:
        workflow.set_current_details(views.details(self._machine))


def _now_ms() -> int:
    return int(workflow.time() * 1000)
