"""One dispatcher per pool: feeds the machine of `droidherd.domain.dispatcher` and sends what it says."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts import names
    from droidherd.contracts.engine import Closed, HoldersWork, PoolSettings, PoolWork, Predecessor
    from droidherd.contracts.post import Verdict
    from droidherd.contracts.queue import (
        AccountsPage,
        AccountsQuery,
        AccountView,
        AuditPage,
        AuditQuery,
        DisabledPage,
        DisabledQuery,
        DispatcherInput,
        EmulatorsPage,
        EventsPage,
        Order,
        Ordered,
        Place,
        Places,
        PlacesQuery,
        QueuePage,
        QueueQuery,
        QueueSettings,
        StatsPage,
    )
    from droidherd.domain import messages as m
    from droidherd.domain import snapshot
    from droidherd.domain.audit import Deed
    from droidherd.domain.dispatcher import Dispatcher
    from droidherd.domain.lane import LaneRules, Ordering
    from droidherd.domain.moves import Config
    from workflows import figures, options, report
    from workflows.handles import ignore, unless_cancelled, unless_ended
    from workflows.postman import Postman

REMEMBERED_REQUESTS = 256
AUDIT_LIMIT = 200
PRECEDENCE_IS_TOLD = "precedence-is-told"
WHICH_ACCOUNT = "say which account"
WHICH_LANE = "say which lane"
PageT = TypeVar("PageT", QueuePage, EmulatorsPage, AccountsPage, DisabledPage, StatsPage, AuditPage)
LATE_ARE_FORGOTTEN = "who-does-not-come-is-not-waited-for"
ALL_IS_KEPT = "precedence-and-keys-are-kept"


@workflow.defn(name=names.Workflow.DISPATCHER)
class DispatcherWorkflow:
    """FIFO hand-over of a pool's emulators to its tasks."""

    @workflow.init
    def __init__(self, start: DispatcherInput) -> None:
        """Restored here and not in `run`: messages are handled before `run` begins."""
        self._start = start
        self._machine = Dispatcher(start.pool, _config(start))
        self._ready = bool(start.snapshot)
        if start.snapshot:
            self._machine = snapshot.load(start.snapshot, start.pool, _config(start))
        self._machine.waits_no_longer = workflow.patched(LATE_ARE_FORGOTTEN)
        self._machine.strict = workflow.patched(ALL_IS_KEPT)
        self._early: list[Callable[[], object]] = []
        self._handled = list(start.handled)
        self._audited_ms: dict[str, int] = {}
        self._messages = 0

    @workflow.run
    async def run(self, start: DispatcherInput) -> None:  # noqa: ARG002 - taken by __init__
        if not self._ready:
            await self._rebuild()
        # What was said while the run before drained its outbox was heard there, but granted nothing any more.
        self._machine.assign(_now_ms())
        courier = Postman(self._machine.outbox, self._gone, lambda target: self._machine.delivered(target, _now_ms()))
        loops = [asyncio.create_task(courier.run()), asyncio.create_task(self._keep_time())]
        await unless_ended(self._should_continue, *loops)
        self._machine.held_back = True
        try:
            await workflow.wait_condition(
                lambda: courier.idle() and workflow.all_handlers_finished(), timeout=options.CONTINUE_DRAIN_S
            )
        except TimeoutError:
            workflow.logger.warning("continuing with %d messages undelivered", len(self._machine.outbox))
        for loop in loops:
            ignore(loop)
            loop.cancel()
        workflow.continue_as_new(self._next(), task_queue=names.FLEET_QUEUE)

    def _next(self) -> DispatcherInput:
        """Everything the next run needs; nothing is awaited between this and continuing."""
        return self._start.model_copy(
            update={"snapshot": snapshot.dump(self._machine), "handled": tuple(self._handled[-REMEMBERED_REQUESTS:])}
        )

    def _should_continue(self) -> bool:
        if self._start.continue_after and self._messages >= self._start.continue_after:
            return True
        return workflow.info().is_continue_as_new_suggested()

    # --- tasks and emulators ----------------------------------------------------------------------------------

    @workflow.signal
    def enqueue(self, message: m.Enqueue) -> None:
        self._take(lambda: self._machine.on_enqueue(message, _now_ms()))

    @workflow.update
    def ask(self, message: m.Enqueue) -> Verdict:
        """`enqueue`, answered in the same breath. Before the board is restored the answer comes as a signal."""
        self._messages += 1
        if not self._ready:
            self._early.append(lambda: self._machine.on_enqueue(message, _now_ms()))
            return Verdict()
        verdict = self._machine.ask(message, _now_ms())
        self._show()
        return Verdict(
            admitted=verdict if isinstance(verdict, m.Admitted) else None,
            rejected=verdict if isinstance(verdict, m.Rejected) else None,
            recall=verdict if isinstance(verdict, m.Recall) else None,
        )

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
    def wake(self) -> None:
        """Somebody makes sure that this dispatcher exists."""

    def _take(self, handle: Callable[[], object]) -> None:
        """Handlers change the board and return. Before the board is restored they wait in line."""
        self._messages += 1
        if self._ready:
            handle()
            self._show()
        else:
            self._early.append(handle)

    # --- people -----------------------------------------------------------------------------------------------

    @workflow.update
    def pause_lane(self, order: Order) -> Ordered:
        return self._set(order, lambda d: d.pause(order.lane, order.actor, order.reason, _now_ms()))

    @workflow.update
    def resume_lane(self, order: Order) -> Ordered:
        return self._set(order, lambda d: d.resume(order.lane, order.actor, _now_ms(), order.reason))

    @workflow.update
    def set_capacity(self, order: Order) -> Ordered:
        return self._set_one(
            order, lambda d: d.set_capacity(order.lane, order.capacity, order.actor, _now_ms(), order.reason)
        )

    @workflow.update
    def set_order(self, order: Order) -> Ordered:
        """Who goes first in a lane."""
        ordering = Ordering(order.order == "priority", order.ageing)
        return self._set_one(
            order, lambda d: d.set_ordering(order.lane, ordering, order.actor, _now_ms(), order.reason)
        )

    @workflow.update
    def reset_lane(self, order: Order) -> Ordered:
        """Take back what was set on a lane by hand. Nobody in it: it is forgotten."""
        if not order.lane:
            return Ordered(done=False, detail=WHICH_LANE)
        lane = self._machine.board.lanes.get(order.lane)
        was = self._ready and (lane is None or not self._machine.board.by_hand(lane))
        done = self._obey(order, lambda d: d.reset(order.lane, order.actor, _now_ms(), order.reason))
        return Ordered(done=True, detail=f"nothing was set by hand on lane {order.lane}") if was else done

    @workflow.update
    def prioritize(self, order: Order) -> Ordered:
        """More urgent, never less."""
        entry = self._machine.board.entries.get(order.task_id)
        if entry is None or entry.lease is not None:
            return Ordered(done=False, detail=f"task {order.task_id} does not wait in pool {self._start.pool}")
        before = entry.ask.priority
        task_id, priority, actor, reason = order.task_id, order.priority, order.actor, order.reason
        if not workflow.patched(PRECEDENCE_IS_TOLD):
            return self._obey(order, lambda d: d.prioritize_untold(task_id, priority, actor, _now_ms(), reason))
        if order.bulk:
            done = self._obey(order, lambda d: d.prioritize_in_bulk(task_id, priority, actor, _now_ms(), reason))
        else:
            done = self._obey(order, lambda d: d.prioritize(task_id, priority, actor, _now_ms(), reason))
        if done.detail or order.priority <= before:
            return done
        return Ordered(
            done=True, detail=f"in front of priority {before}, which it keeps: {order.priority} is less urgent"
        )

    @workflow.update
    def disable_account(self, order: Order) -> Ordered:
        """Grant nothing any more to an account; what runs goes on."""
        refused = self._machine.refusal_to_disable(order.account) if order.account else WHICH_ACCOUNT
        if refused:
            return Ordered(done=False, detail=refused)
        return self._obey(order, lambda d: d.disable(order.account, order.actor, order.reason, _now_ms()))

    @workflow.update
    def enable_account(self, order: Order) -> Ordered:
        if not order.account:
            return Ordered(done=False, detail=WHICH_ACCOUNT)
        was = self._ready and not self._machine.is_disabled(order.account)
        done = self._obey(order, lambda d: d.enable(order.account, order.actor, _now_ms(), order.reason))
        return Ordered(done=True, detail=f"account {order.account} was not disabled") if was else done

    @workflow.signal
    def configure(self, settings: QueueSettings) -> None:
        """A process that started says what the settings are now."""
        self._take(lambda: self._configure(settings))

    @workflow.signal
    def deed(self, deed: Deed) -> None:
        """Something was done elsewhere that belongs into this pool's audit."""
        if self._is_new(deed.once):
            self._take(lambda: self._machine.act(deed, _now_ms()))

    def _configure(self, settings: QueueSettings) -> None:
        self._start = self._start.model_copy(update=settings.model_dump())
        self._machine.configure(_config(self._start), _now_ms())

    def _set_one(self, order: Order, carry_out: Callable[[Dispatcher], object]) -> Ordered:
        if not order.lane:
            return Ordered(done=False, detail="say which lane: this is not set for all of them at once")
        return self._set(order, carry_out)

    def _set(self, order: Order, carry_out: Callable[[Dispatcher], object]) -> Ordered:
        """Something about a lane, or about all of them."""
        refused = self._machine.refusal(order.lane)
        if refused:
            return Ordered(done=False, detail=refused)
        known = list(self._machine.board.lanes)
        done = self._obey(order, carry_out)
        if done.detail or not self._ready or not order.lane or order.lane in known:
            return done
        others = ", ".join(known) or "none"
        return Ordered(done=True, detail=f"nobody is in lane {order.lane} yet; the others are: {others}")

    def _obey(self, order: Order, carry_out: Callable[[Dispatcher], object]) -> Ordered:
        """An operator's order, once: the engine de-duplicates per run only."""
        if not self._is_new(order.request_id):
            return Ordered(done=True, detail="done before")
        self._take(lambda: carry_out(self._machine))
        return Ordered(done=True)

    def _is_new(self, request_id: str) -> bool:
        """Whether a request was not heard before; from now on it was. One without an id is always new."""
        if request_id in self._handled:
            return False
        if request_id:
            self._handled = [*self._handled[-REMEMBERED_REQUESTS + 1 :], request_id]
        return True

    # --- questions --------------------------------------------------------------------------------------------

    @workflow.query
    def queue(self, query: QueueQuery) -> QueuePage:
        return self._as_known(report.queue(self._machine, query, _now_ms()))

    @workflow.query
    def emulators(self) -> EmulatorsPage:
        return self._as_known(report.emulators(self._machine))

    @workflow.query
    def account(self, account: str) -> AccountView:
        return report.account(self._machine, account)

    @workflow.query
    def accounts(self, query: AccountsQuery) -> AccountsPage:
        accounts = report.accounts(self._machine, query.accounts)
        return self._as_known(AccountsPage(pool=self._start.pool, accounts=accounts))

    @workflow.query
    def disabled(self, query: DisabledQuery) -> DisabledPage:
        """Accounts to which nothing is granted."""
        return self._as_known(report.disabled(self._machine, query))

    @workflow.query
    def events(self, after: int) -> EventsPage:
        newer = tuple(e for e in self._machine.events if e.cursor > after)
        return EventsPage(cursor=self._machine.cursor, events=newer)

    @workflow.query
    def place(self, task_id: str) -> Place:
        return report.place(self._machine, task_id)

    @workflow.query
    def places(self, query: PlacesQuery) -> Places:
        return report.places(self._machine, query.tasks)

    @workflow.query
    def stats(self) -> StatsPage:
        return self._as_known(figures.stats(self._machine))

    @workflow.query
    def audit(self, query: AuditQuery) -> AuditPage:
        """Who did what to this pool."""
        return self._as_known(figures.audit(self._machine, query))

    @workflow.query
    def snapshot(self) -> str:
        """For a successor that finds this run terminated."""
        return snapshot.dump(self._machine) if self._ready else ""

    def _as_known(self, page: PageT) -> PageT:
        """A page says so when it may not be all: a dispatcher that still looks for its predecessor knows nothing."""
        return page.model_copy(update={"rebuilding": not self._ready or self._machine.rebuilding})

    # --- inside -----------------------------------------------------------------------------------------------

    async def _rebuild(self) -> None:
        """Take over from a terminated predecessor; without one, ask every open task of the pool."""
        pool = await self._pool_settings()
        self._start = self._start.model_copy(update=pool.model_dump())
        before = await self._find_predecessor()
        self._machine = self._restored(before)
        self._ready = True
        self._machine.rebuild(
            before.open_tasks,
            _now_ms(),
            self._start.rebuild_s,
            blind=before.existed and not before.snapshot,
            emulators=before.emulators,
        )
        for handle in self._early:
            handle()
        self._early.clear()
        self._show()

    async def _pool_settings(self) -> PoolSettings:
        """What the operator set. Asked until it is answered: nothing else ends a dispatcher."""
        while True:
            try:
                return await workflow.execute_local_activity(
                    "read_pool",
                    PoolWork(pool=self._start.pool),
                    result_type=PoolSettings,
                    start_to_close_timeout=options.ENGINE_TIMEOUT,
                    retry_policy=options.PLANNING_RETRY,
                )
            except FailureError as error:
                workflow.logger.warning("the settings of the pool are not known yet: %s", error)
                await workflow.sleep(options.SENDING_BACKOFF_S)

    def _show(self) -> None:
        workflow.set_current_details(report.details(self._machine))

    async def _find_predecessor(self) -> Predecessor:
        """Nothing can be granted before this is known, so it is asked until it is answered."""
        while True:
            try:
                return await workflow.execute_activity(
                    "find_predecessor",
                    PoolWork(pool=self._start.pool, run_id=workflow.info().run_id),
                    result_type=Predecessor,
                    start_to_close_timeout=options.ENGINE_TIMEOUT,
                    schedule_to_close_timeout=options.ENGINE_TOTAL,
                    retry_policy=options.ENGINE_RETRY,
                )
            except ActivityError as error:
                workflow.logger.warning("the predecessor is not found yet: %s", error.cause)

    def _restored(self, before: Predecessor) -> Dispatcher:
        if before.snapshot:
            machine = snapshot.load(before.snapshot, self._start.pool, _config(self._start))
        else:
            machine = Dispatcher(self._start.pool, _config(self._start))
        machine.waits_no_longer = self._machine.waits_no_longer
        machine.strict = self._machine.strict
        for lane in self._start.capacities:
            machine.board.lane(lane)
        return machine

    def _gone(self, target: str, message: object) -> bool:
        """Nobody at this address: a task that is closed, or an emulator that must be started."""
        if target.startswith(names.emulator_id("")):
            return True
        self._machine.undeliverable(target, message, _now_ms())
        return False

    async def _keep_time(self) -> None:
        """Leases and fences run out; holders that fell silent are looked at. No timer runs while nothing is held."""
        while True:
            await workflow.wait_condition(lambda: self._machine.next_due_ms() is not None)
            due_s = (self._machine.next_due_ms() or 0) / 1000 - workflow.time()
            await workflow.sleep(min(max(due_s, options.TICK_MIN_S), options.TICK_S))
            self._machine.tick(_now_ms())
            await self._audit_holders()
            self._show()

    async def _audit_holders(self) -> None:
        """A holder whose workflow is closed will never say so itself."""
        now_ms, asked = _now_ms(), self._machine.to_audit()
        self._audited_ms = {task_id: self._audited_ms.get(task_id, now_ms) for task_id in asked}
        due = [t for t, at_ms in self._audited_ms.items() if now_ms - at_ms >= self._start.audit_s * 1000][:AUDIT_LIMIT]
        if not due:
            return
        self._audited_ms.update(dict.fromkeys(due, now_ms))
        try:
            closed = await self._closed_holders({task_id: asked[task_id] for task_id in due})
        except ActivityError as error:
            unless_cancelled(error)
            workflow.logger.warning("holders could not be looked at, again at the next tick: %s", error.cause)
            return
        for task_id, run in closed.holders.items():
            self._machine.on_closed(task_id, run, _now_ms())

    async def _closed_holders(self, holders: dict[str, str]) -> Closed:
        return await workflow.execute_activity(
            "closed_holders",
            HoldersWork(holders=holders),
            result_type=Closed,
            start_to_close_timeout=options.ENGINE_TIMEOUT,
            schedule_to_close_timeout=options.ENGINE_TOTAL,
            retry_policy=options.ENGINE_RETRY,
        )


def _config(start: DispatcherInput) -> Config:
    return Config(
        limit=start.limit,
        repeat_min_s=start.repeat_min_s,
        fence_s=start.fence_s,
        mutex_hold_s=start.mutex_hold_s,
        idle_stop_s=start.idle_stop_s,
        idle_keep=start.idle_keep,
        rules=LaneRules(start.capacities, start.by_priority, start.ageing),
    )


def _now_ms() -> int:
    return int(workflow.time() * 1000)
