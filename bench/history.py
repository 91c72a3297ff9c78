"""What a task adds to the dispatcher's history, when few wait and when very many wait."""

import asyncio
import statistics
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.api.enums.v1 import EventType
from temporalio.common import WorkflowIDConflictPolicy

from bench.figures import Figure, Watch
from bench.stand import POOL, Stand
from droidherd.contracts.queue import DispatcherInput, PoolSettings
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.state import DispatcherState, PoolConfig
from droidherd.domain.messages import Enqueue, Key
from tests.support.handing_over import hand_over

TASKS = 40
AT_ONCE = 4
KIND = "tap_once"
FEW, MANY = 100, 9_990
LIMIT = 10_000
"""The most a pool takes; those who wait leave room for those who are measured."""
NEEDS = 20
"""Those who wait differ in what they require, and no emulator offers it: they stay."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Per task."""

    events: float
    bytes: float
    carried: int
    """Bytes of the snapshot a run begins with."""


async def measure(stand: Stand, rounds: int, watch: Watch) -> list[Figure]:
    few: list[Cost] = []
    many: list[Cost] = []
    watch("a dispatcher to start from", 0.0)
    text = await stand.dispatcher().query("snapshot", result_type=str)
    await _round(stand, "history-warm", text, FEW)
    for turn in range(rounds):
        watch(f"{FEW} waiting", turn / rounds)
        few.append(await _round(stand, f"history-few-{turn}", text, FEW))
        watch(f"{MANY} waiting", (turn + 0.5) / rounds)
        many.append(await _round(stand, f"history-many-{turn}", text, MANY))
    events, size = _middle([one.events for one in few]), _middle([one.bytes for one in few])
    events_many, size_many = _middle([one.events for one in many]), _middle([one.bytes for one in many])
    return [
        Figure("events_per_task_100_waiting", events, parts=tuple(one.events for one in few)),
        Figure("events_per_task_9990_waiting", events_many, parts=tuple(one.events for one in many)),
        Figure("events_per_task_growth", events_many / events, at_most=1.1),
        Figure("bytes_per_task_100_waiting", size, "B", parts=tuple(one.bytes for one in few)),
        Figure("bytes_per_task_9990_waiting", size_many, "B", parts=tuple(one.bytes for one in many)),
        Figure("bytes_per_task_growth", size_many / size, at_most=1.1),
        Figure("snapshot_9990_waiting", many[0].carried, "B", note="carried over when the dispatcher continues"),
    ]


def _middle(values: list[float]) -> float:
    return statistics.median(values)


async def _round(stand: Stand, prefix: str, text: str, waiting: int) -> Cost:
    """Replace the dispatcher by one that remembers so many waiting tasks, and send some tasks past them."""
    filled = prefilled(text, waiting)
    start = DispatcherInput(pool=POOL, snapshot=filled, settings=PoolSettings(limit=LIMIT))
    run_id = await hand_over(stand.client, start, id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING)
    for first in range(0, TASKS, AT_ONCE):
        batch = f"{prefix}-{first:03}"
        await stand.start_tasks(batch, AT_ONCE, KIND)
        await stand.all_ended(batch, AT_ONCE, lambda _: None)
    await asyncio.sleep(1.0)  # the last `done` is delivered before a task ends; let its answer be written
    run = stand.dispatcher(run_id)
    events = [event async for event in run.fetch_history_events()]
    began = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED
    own = [event for event in events if event.event_type != began]
    return Cost(len(own) / TASKS, sum(event.ByteSize() for event in own) / TASKS, len(filled))


def prefilled(text: str, waiting: int) -> str:
    """The same dispatcher, with so many tasks more in line, in the lane the next tasks will use."""
    config = PoolConfig(limit=LIMIT)
    machine = Dispatcher(state=DispatcherState.load(text, config))
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    machine.state.joined_ms = now_ms  # so soon after an emulator joined nobody is refused for what none offers
    fill(machine, waiting, now_ms)
    machine.outbox.lines.clear()  # those who wait do not exist: nobody is told
    return machine.state.dump()


def fill(machine: Dispatcher, waiting: int, now_ms: int) -> None:
    for number in range(waiting):
        ask = Enqueue(
            key=Key(f"fill-{number:05}", f"{number:08x}-0000-0000-0000-000000000000", 1),
            seq=1,
            lane="anonymous",
            task_type=KIND,
            requires=(f"place=nowhere-{number % NEEDS}",),
        )
        machine.on_enqueue(ask, now_ms)
