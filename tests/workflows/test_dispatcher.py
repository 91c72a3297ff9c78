"""The pool's dispatcher as a workflow: orders of people, holders that vanish, its own end and return."""

import asyncio
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError

from activities.delivery import DeliveryActivities
from activities.engine import EngineActivities
from droidherd.contracts import names
from droidherd.contracts.delivery import Batch, BatchResult
from droidherd.contracts.engine import PoolWork, Predecessor
from droidherd.contracts.fleet import DrainRequest
from droidherd.contracts.queue import (
    AccountsPage,
    AccountsQuery,
    AccountView,
    AuditPage,
    AuditQuery,
    DisabledPage,
    DisabledQuery,
    EmulatorsPage,
    EventsPage,
    OperatorCommand,
    QueuePage,
    QueuePosition,
    QueueQuery,
    StatsPage,
)
from droidherd.contracts.tasks import Rollback
from droidherd.domain.dispatch.audit import AuditEntry
from droidherd.domain.errors import BadParametersError, ScreenNotReachedError
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.connection import EngineConfig
from droidherd.engine.queue import QueueClient
from tests.workflows.plays import Deaf, Hold, completes, fails
from tests.workflows.world import POOL, World, until, wake, world

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def in_line(here: World, *tasks: str, **spec: Any) -> None:
    for name in tasks:
        await here.submit(name, **spec)
        await here.reached(name, TaskStatus.QUEUED)


async def all_ended(here: World, *tasks: str) -> list[TaskStatus]:
    return [view.state for view in await asyncio.gather(*map(here.ended, tasks))]


async def grants(here: World) -> list[str]:
    page = await here.dispatcher().query(names.Query.EVENTS, 0, result_type=EventsPage)
    return [event.task_id for event in page.events if event.kind == "granted"]


async def test_tasks_start_in_the_order_of_their_admission(here: World, task: str):
    tasks = [f"{task}-{n}" for n in range(5)]
    await here.order("pause_lane", actor="anna")
    await in_line(here, *tasks)
    assert [1, 2, 3, 4, 5] == [row.position for row in (await here.queue()).queue]
    await here.order("resume_lane", actor="anna")
    assert [TaskStatus.COMPLETED] * 5 == await all_ended(here, *tasks)
    assert tasks == [one for one in await grants(here) if one in tasks]


async def test_a_paused_lane_lets_its_neighbour_pass(here: World, task: str):
    await here.order("pause_lane", lane="account", actor="anna", reason="release")
    await in_line(here, task, account=task)
    await here.submit(f"{task}-b")
    assert [TaskStatus.COMPLETED] == await all_ended(here, f"{task}-b")
    (row,) = (await here.queue()).queue
    assert (task, "lane account is paused by anna: release") == (row.task_id, row.blocked_by)
    await here.order("resume_lane", lane="account", actor="anna")
    assert [TaskStatus.COMPLETED] == await all_ended(here, task)


async def test_a_lane_at_its_capacity_waits_and_a_larger_one_goes_on(here: World, task: str):
    await here.order("set_capacity", lane="anonymous", capacity=1, actor="anna")
    hold = Hold()
    await here.submit(f"{task}-first", hold)
    await hold.began.wait()
    await in_line(here, task)
    assert "lane anonymous is at its capacity of 1" == (await here.view(task)).why
    await here.order("set_capacity", lane="anonymous", capacity=10, actor="anna")
    assert [TaskStatus.COMPLETED] == await all_ended(here, task)
    hold.let_go.set()
    await all_ended(here, f"{task}-first")


async def test_an_order_sent_twice_is_carried_out_once(here: World, task: str):
    first = await here.order("pause_lane", lane="account", actor="anna", request_id=f"{task}-1")
    await here.order("resume_lane", lane="account", actor="ben", request_id=f"{task}-2")
    again = await here.order("pause_lane", lane="account", actor="anna", request_id=f"{task}-1")
    assert [(True, ""), (True, "done before")] == [(one.done, one.detail) for one in (first, again)]
    assert [""] == [lane.paused_by for lane in (await here.queue()).lanes if lane.name == "account"]


async def test_a_prioritized_task_goes_first(here: World, task: str):
    await here.order("pause_lane", actor="anna")
    await in_line(here, f"{task}-a", f"{task}-b")
    await here.order("prioritize", task_id=f"{task}-b", priority=1, actor="anna")
    assert [f"{task}-b", f"{task}-a"] == [row.task_id for row in (await here.queue()).queue]
    refused = await here.order("prioritize", task_id="nobody", actor="anna")
    assert (False, "task nobody does not wait in pool default") == (refused.done, refused.detail)
    await here.order("resume_lane", actor="anna")
    await all_ended(here, f"{task}-a", f"{task}-b")


async def test_the_queue_is_read_in_pages(here: World, task: str):
    tasks = [f"{task}-{n}" for n in range(3)]
    await here.order("pause_lane", actor="anna")
    await in_line(here, *tasks)
    page = await here.queue(limit=2)
    rest = await here.queue(limit=2, after=page.next_after or 0)
    assert [tasks[:2], tasks[2:]] == [[row.task_id for row in one.queue] for one in (page, rest)]
    assert ([1, 2, 3], None) == ([row.position for row in (*page.queue, *rest.queue)], rest.next_after)
    await here.order("resume_lane", actor="anna")
    await all_ended(here, *tasks)


async def test_an_account_is_shown_where_it_waits_and_runs(here: World, task: str):
    hold = Hold()
    await here.submit(f"{task}-first", hold, account=task)
    await hold.began.wait()
    await in_line(here, task, account=task, on_busy="queue")
    view = await here.dispatcher().query(names.Query.ACCOUNT, task, result_type=AccountView)
    expected = (True, True, f"{task}-first", (task,))
    assert expected == (view.is_queued, view.is_running, view.running_task, view.queued_tasks)
    place = await here.dispatcher().query(names.Query.PLACE, task, result_type=QueuePosition)
    assert QueuePosition(position=1, why=f"account {task} is busy with task {task}-first", priority=2) == place
    hold.let_go.set()
    await all_ended(here, task, f"{task}-first")


async def test_a_terminated_holder_is_fenced_before_its_emulator_is_granted_again(here: World, task: str):
    hold = Hold()
    await here.submit(f"{task}-first", hold, account=task)
    await hold.began.wait()
    dead = here.stages.of(f"{task}-first")[0]
    await in_line(here, task, account=task, on_busy="queue")
    await here.task(f"{task}-first").terminate("test")
    hold.let_go.set()
    assert [TaskStatus.COMPLETED] == await all_ended(here, task)
    fences = [(gate.emulator_id, gate.fence) for gate in here.gates.seen]
    assert (dead.emulator_id, dead.lease) in fences
    assert dead.lease < here.stages.of(task)[0].lease


async def test_a_task_terminated_in_line_does_not_hold_up_the_others(here: World, task: str):
    await here.order("pause_lane", actor="anna")
    await in_line(here, f"{task}-a", f"{task}-b")
    await here.task(f"{task}-a").terminate("test")
    await here.order("resume_lane", actor="anna")
    assert [TaskStatus.COMPLETED] == await all_ended(here, f"{task}-b")


async def test_a_terminated_dispatcher_hands_over_priority_switches_and_leases(here: World, task: str):
    hold = Hold()
    await here.submit(f"{task}-held", hold)
    await hold.began.wait()
    await here.order("pause_lane", lane="account", actor="anna", reason="release")
    waiting = [f"{task}-{n}" for n in range(3)]
    for name in waiting:
        await in_line(here, name, account=name)
    await here.dispatcher().terminate("test")
    await wake(here)

    async def rebuilt() -> QueuePage | None:
        page = await here.queue()
        return None if page.rebuilding else page

    page = await until(rebuilt, "the successor to be ready")
    assert waiting == [row.task_id for row in page.queue]
    assert [f"{task}-held"] == [row.task_id for row in page.runs]
    assert ["release"] == [lane.paused_why for lane in page.lanes if lane.name == "account"]
    hold.let_go.set()
    await here.order("resume_lane", actor="anna")
    assert [TaskStatus.COMPLETED] * 4 == await all_ended(here, f"{task}-held", *waiting)
    assert 1 == len(here.stages.of(f"{task}-held"))


async def test_a_dispatcher_that_continues_as_new_loses_nobody(client: Client):
    pool = POOL.model_copy(update={"continue_after": 10})
    async with world(client, "e1", "e2", pool=pool) as here:
        hold = Hold()
        await here.submit("held", hold)
        await hold.began.wait()
        tasks = [f"t{n}" for n in range(12)]
        await asyncio.gather(*map(here.submit, tasks))
        assert [TaskStatus.COMPLETED] * 12 == await all_ended(here, *tasks)
        hold.let_go.set()
        assert [TaskStatus.COMPLETED] == await all_ended(here, "held")
        assert [1] * 13 == [len(here.stages.of(name)) for name in (*tasks, "held")]

        async def continued() -> bool | None:
            query = f"WorkflowId = '{names.dispatcher_id('default')}'"
            runs = [run.status async for run in client.list_workflows(query)]
            return True if WorkflowExecutionStatus.CONTINUED_AS_NEW in runs else None

        await until(continued, "the dispatcher to continue as new")


async def test_priority_counts_for_a_successor_that_heard_an_older_request_first(temporal_client: Client):
    async with world(temporal_client, "e1", joined=False) as here:
        await in_line(here, "first", "second", "urgent")
        await here.order("prioritize", task_id="urgent", priority=1, actor="anna")
        await here.is_prioritized("urgent")
        await here.loses_its_dispatcher()
        await here.takes_over(await here.asked_at_first("urgent"))
        await here.is_prioritized("urgent")
        await here.serve_host()
        await here.serve("e1")
        await here.join()
        await all_ended(here, "first", "second", "urgent")
        page = await here.dispatcher().query(names.Query.EVENTS, 0, result_type=EventsPage)
        granted = [event.task_id for event in page.events if event.kind == "granted"]
        assert ["urgent", "first", "second"] == granted


async def this_run(here: World) -> "WorkflowHandle[Any, Any]":
    here_and_now = await here.dispatcher().describe()
    return here.client.get_workflow_handle(here_and_now.id, run_id=here_and_now.run_id)


async def continued_as_new(run: "WorkflowHandle[Any, Any]") -> None:
    async def continued() -> bool | None:
        return True if (await run.describe()).status is WorkflowExecutionStatus.CONTINUED_AS_NEW else None

    await until(continued, "the dispatcher to continue as new")


async def kinds_of_events(run: "WorkflowHandle[Any, Any]") -> list[str]:
    return [str(event.WhichOneof("attributes")) for event in (await run.fetch_history()).events]


class LateDelivery(DeliveryActivities):
    """Batches wait until they are let go."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.taken, self.let_go = asyncio.Event(), asyncio.Event()
        self.let_go.set()

    @activity.defn
    async def deliver(self, batch: Batch) -> BatchResult:
        self.taken.set()
        await self.let_go.wait()
        return await super().deliver(batch)


async def test_a_dispatcher_continues_as_new_with_a_batch_in_flight_and_loses_none(client: Client):
    late, pool = LateDelivery(client), POOL.model_copy(update={"continue_after": 20})
    async with world(client, "e1", "e2", pool=pool, delivery=late) as here:
        first = await this_run(here)
        late.let_go.clear()
        late.taken.clear()
        tasks = [f"t{n}" for n in range(20)]
        await asyncio.gather(*map(here.submit, tasks))
        await late.taken.wait()
        await continued_as_new(first)
        late.let_go.set()
        assert [TaskStatus.COMPLETED] * 20 == await all_ended(here, *tasks)
        assert [1] * 20 == [len(here.stages.of(name)) for name in tasks]


async def test_a_pause_survives_two_terminations_in_a_row(temporal_client: Client):
    async with world(temporal_client, "e1") as here:
        await here.order("pause_lane", lane="account", actor="anna", reason="release")
        for _ in range(2):
            await here.dispatcher().terminate("struck down by a test")
            await wake(here)

        async def rebuilt() -> QueuePage | None:
            page = await here.queue()
            return page if page.lanes and not page.rebuilding else None

        page = await until(rebuilt, "the third dispatcher to know its lanes")
        assert ["anna"] == [lane.paused_by for lane in page.lanes if lane.name == "account"]


async def test_orders_nobody_can_execute_are_refused(here: World, task: str):
    hold = Hold()
    await here.submit(task, hold)
    await hold.began.wait()
    assert not (await here.order("prioritize", task_id=task)).done
    for word in ("set_capacity", "set_order"):
        refused = await here.order(word, actor="anna")
        assert (False, "say which lane: this is not set for all of them at once") == (refused.done, refused.detail)
    hold.let_go.set()
    await here.ended(task)


async def test_pausing_an_unused_lane_names_the_lanes_in_use(here: World, task: str):
    paused = await here.order("pause_lane", lane="acount", actor="anna")
    assert (True, True) == (paused.done, "nobody is in lane acount yet; the others are: account" in paused.detail)
    await in_line(here, task, lane="acount")
    await here.order("resume_lane", lane="acount", actor="anna")
    assert [TaskStatus.COMPLETED] == await all_ended(here, task)


async def stats(here: World) -> StatsPage:
    return await here.dispatcher().query(names.Query.STATS, result_type=StatsPage)


async def audit(here: World, **query: Any) -> list[tuple[str, str, str]]:
    page = await here.dispatcher().query(names.Query.AUDIT, AuditQuery(**query), result_type=AuditPage)
    return [(event.kind, event.actor, event.reason) for event in page.events]


async def configure(here: World, **settings: Any) -> None:
    """As a worker does when it starts."""
    pool = POOL.model_copy(update=settings)
    await QueueClient(here.client, EngineConfig(pool=here.pool, settings=pool)).configure()

    async def heard() -> bool | None:
        page = await here.queue()
        wanted = settings.get("limit", POOL.limit)
        return True if page.limit == wanted else None

    await until(heard, "the dispatcher to hear the settings")


async def test_stats_and_audit_survive_continue_as_new_and_a_termination(client: Client):
    pool = POOL.model_copy(update={"continue_after": 8})
    retried = {"policy": {"retries": 1, "backoff_s": 0.01}}
    async with world(client, "e1", "e2", pool=pool) as here:
        await here.order("set_capacity", lane="account", capacity=3, actor="anna", reason="slow hosts")
        tasks = [f"t{n}" for n in range(9)]
        await asyncio.gather(*map(here.submit, tasks))
        await here.submit("again", fails(ScreenNotReachedError("late")), completes, params=retried)
        await here.submit("never", fails(BadParametersError("no")), type_="other-sample")
        await all_ended(here, *tasks, "again", "never")
        await here.idle()
        before = await stats(here)
        await here.dispatcher().terminate("struck down by a test")
        await wake(here)

        async def rebuilt() -> StatsPage | None:
            page = await here.queue()
            return None if page.rebuilding or not page.lanes else await stats(here)

        after = await until(rebuilt, "the successor to be ready")
        assert before == after
        found = {one.type: (one.completed, one.failed, one.retries, one.cancelled) for one in after.types}
        assert {"sample": (10, 0, 1, 0), "other-sample": (0, 1, 0, 0)} == found
        assert (12, 12, 10 / 11) == (after.total.count, after.total.wait.count, after.total.success_rate)
        sample = after.types[0]
        assert sample.run.p50_s == pytest.approx(0.5, rel=0.1)
        assert ("lane_capacity", "anna", "slow hosts") in await audit(here, actor="anna")
        assert ("rebuilt", "system:rebuild", "with what its predecessor knew") in await audit(here)


async def test_changed_settings_reach_a_dispatcher_and_leave_what_was_set_by_hand(client: Client):
    async with world(client, "e1") as here:
        await here.order("set_capacity", lane="account", capacity=3, actor="anna")
        await configure(here, limit=7, capacities={"account": 5, "anonymous": 5}, by_priority=("anonymous",))
        lanes = {one.name: (one.capacity, one.order) for one in (await here.queue()).lanes}
        assert {"account": (3, "arrival"), "anonymous": (5, "priority")} == lanes
        entries = await audit(here, action="configured")
        await configure(here, limit=7, capacities={"account": 5, "anonymous": 5}, by_priority=("anonymous",))
        assert (1, entries) == (len(entries), await audit(here, action="configured"))


async def test_settings_for_a_dispatcher_that_does_not_run_are_not_its_start(client: Client):
    await QueueClient(client, EngineConfig(pool="nobody", settings=POOL)).configure()
    with pytest.raises(RPCError, match="not found"):
        await client.get_workflow_handle(names.dispatcher_id("nobody")).describe()


async def test_a_mutex_held_for_too_long_is_fenced_then_broken_and_handed_on(client: Client):
    pool = POOL.model_copy(update={"mutex_hold_s": 0.5})
    async with world(client, "e1", "e2", pool=pool) as here:
        deaf = Deaf()
        await here.submit("deaf", deaf, mutex=["shop"])
        await deaf.began.wait()
        await here.submit("other", mutex=["shop"])
        assert [TaskStatus.COMPLETED] == await all_ended(here, "other")
        (held,) = here.stages.of("deaf")
        fences = [(gate.emulator_id, gate.fence) for gate in here.gates.seen]
        assert (held.emulator_id, held.lease) in fences
        kinds = [kind for kind, actor, _ in await audit(here) if actor == "system:mutex_hold"]
        assert ["mutex_broken", "mutex_overdue"] == kinds
        deaf.let_go.set()
        await all_ended(here, "deaf")


async def test_who_drained_an_emulator_stands_in_the_audit(client: Client):
    async with world(client, "e1") as here:
        await here.emulator("e1").signal(names.Signal.DRAIN, DrainRequest(actor="anna", reason="new image"))
        await here.emulator_is("e1", "draining")
        await here.emulator("e1").signal(names.Signal.UNDRAIN, DrainRequest(actor="ben"))
        await here.emulator_is("e1", "up")
        expected = [("emulator_undrain", "ben", ""), ("emulator_drain", "anna", "new image")]
        assert expected == await audit(here)


async def test_who_was_paused_and_finds_the_queue_full_fails_and_can_be_taken_back(client: Client):
    async with world(client, "e1") as here:
        change = {"name": "set", "changes": [{"step": "1", "thing": "setting", "name": "global/x"}]}
        hold = Hold()
        await here.submit("t", here.stages.sets("1"), hold, params={"stages": [change, {"name": "look"}]})
        await hold.began.wait()
        await here.control("t", "pause")
        await here.reached("t", TaskStatus.PAUSED)
        await here.order("pause_lane", lane="anonymous", actor="anna")
        await configure(here, limit=1)
        await here.submit("waits")
        await here.reached("waits", TaskStatus.QUEUED)
        await here.control("t", "resume")
        view = await here.ended("t")
        assert (TaskStatus.FAILED, "queue_full") == (view.state, view.error and view.error.kind)
        await here.order("resume_lane", lane="anonymous", actor="anna")
        await here.ended("waits")
        await here.again("t", Rollback())
        assert TaskStatus.ROLLBACK_COMPLETED is (await here.ended("t")).state
        assert "" == here.stages.things["e1", "global/x"]


async def test_a_dispatcher_that_looks_for_its_predecessor_says_so_on_every_page(temporal_client: Client):
    found = asyncio.Event()

    @activity.defn(name="find_predecessor")
    async def hidden(work: PoolWork) -> Predecessor:
        await found.wait()
        return Predecessor(existed=False)

    questions: list[tuple[names.Query, object, type[Any]]] = [
        (names.Query.QUEUE, QueueQuery(), QueuePage),
        (names.Query.EMULATORS, None, EmulatorsPage),
        (names.Query.STATS, None, StatsPage),
        (names.Query.AUDIT, AuditQuery(), AuditPage),
        (names.Query.ACCOUNTS, AccountsQuery(accounts=("ann",)), AccountsPage),
        (names.Query.DISABLED, DisabledQuery(), DisabledPage),
    ]
    async with world(temporal_client, joined=False, find_predecessor=hidden) as here:
        await wake(here)

        async def rebuilding_flags() -> list[bool]:
            asked = [
                here.dispatcher().query(question, *([] if argument is None else [argument]), result_type=page)
                for question, argument, page in questions
            ]
            return [page.rebuilding for page in await asyncio.gather(*asked)]

        assert [True] * len(questions) == await rebuilding_flags()
        found.set()

        async def known() -> bool | None:
            return True if not any(await rebuilding_flags()) else None

        await until(known, "the dispatcher to know its board")


class SlowSearch:
    """The real search for a predecessor, which ends when the test says so."""

    def __init__(self, client: Client) -> None:
        self._real = EngineActivities(client, POOL)
        self.begun, self.may_end = asyncio.Semaphore(0), asyncio.Event()

    @activity.defn(name="find_predecessor")
    async def find_predecessor(self, work: PoolWork) -> Predecessor:
        self.begun.release()
        await self.may_end.wait()
        return await self._real.find_predecessor(work)


async def begun_anew(here: World, search: SlowSearch) -> None:
    """A dispatcher that has begun, and does not know yet what the one before it knew."""
    search.may_end.clear()
    await here.dispatcher().terminate("struck down by a test")
    await wake(here)
    await search.begun.acquire()


async def test_commands_to_a_dispatcher_that_begins_wait_for_what_was_known(temporal_client: Client):
    search = SlowSearch(temporal_client)
    search.may_end.set()
    async with world(temporal_client, joined=False, find_predecessor=search.find_predecessor) as here:
        await wake(here)
        await here.order("pause_lane", lane="account", actor="anna", request_id="r1")
        await here.order("resume_lane", lane="account", actor="ben", request_id="r2")
        await in_line(here, "t1")
        await search.begun.acquire()
        await begun_anew(here, search)
        orders = [
            here.order("pause_lane", lane="account", actor="anna", request_id="r1"),
            here.order("prioritize", task_id="t1", priority=1, actor="anna", request_id="r3"),
            here.order("pause_lane", lane="other", actor="anna", request_id="r4"),
            here.order("enable_account", account="ann", actor="anna", request_id="r5"),
        ]
        asked = [asyncio.ensure_future(one) for one in orders]
        entry = AuditEntry("account_set", "anna", "twice", once="e1")
        for _ in range(2):
            await here.dispatcher().signal(names.Signal.AUDIT_ENTRY, entry)
        search.may_end.set()
        again, preferred, paused, enabled = await asyncio.gather(*asked)
        assert [(True, "done before"), (True, "")] == [(one.done, one.detail) for one in (again, preferred)]
        assert [True, "account ann was not disabled"] == [paused.done, enabled.detail]
        repeated = [
            await here.order("pause_lane", lane="other", actor="anna", request_id="r4"),
            await here.order("prioritize", task_id="gone", actor="anna", request_id="r3"),
        ]
        assert [(True, "done before")] * 2 == [(one.done, one.detail) for one in repeated]
        lanes = {lane.name: lane.paused_by for lane in (await here.queue()).lanes}
        assert {"account": "", "other": "anna"} == {name: lanes[name] for name in ("account", "other")}
        assert [("account_set", "anna", "twice")] == await audit(here, action="account_set")


async def test_a_command_that_waits_reaches_the_successor_of_its_dispatcher(temporal_client: Client):
    search = SlowSearch(temporal_client)
    async with world(temporal_client, joined=False, find_predecessor=search.find_predecessor) as here:
        await wake(here)
        await search.begun.acquire()
        queue = QueueClient(here.client, EngineConfig(pool=here.pool, settings=POOL))
        command = OperatorCommand(lane="account", actor="anna", request_id="r1")
        order = asyncio.ensure_future(queue.command(here.pool, names.Update.PAUSE_LANE, command))

        async def accepted() -> bool | None:
            events = (await here.dispatcher().fetch_history()).events
            return any(one.HasField("workflow_execution_update_accepted_event_attributes") for one in events) or None

        await until(accepted, "the dispatcher to hear the command")
        await begun_anew(here, search)
        search.may_end.set()
        assert (True, "") == ((await order).done, (await order).detail)
        assert ["anna"] == [lane.paused_by for lane in (await here.queue()).lanes if lane.name == "account"]
