"""What a dispatcher that lost its memory finds in Temporal: its predecessor's snapshot, and the pool's open tasks."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from temporalio.api.common.v1 import Payloads
from temporalio.api.history.v1 import (
    ActivityTaskCompletedEventAttributes,
    HistoryEvent,
    WorkflowExecutionSignaledEventAttributes,
)
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle, WorkflowQueryFailedError
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from droidherd.contracts import names
from droidherd.contracts.engine import PoolSettings, Predecessor
from droidherd.contracts.names import Attribute, Workflow
from droidherd.contracts.queue import DispatcherInput, OperatorCommand, QueueSettings
from droidherd.domain import messages as m
from droidherd.domain.dispatch.audit import AuditEntry
from droidherd.domain.dispatch.commands import COMMANDS, Command, CommandRecord, recovered
from droidherd.domain.dispatch.state import DispatcherState, PoolConfig
from droidherd.domain.fleet.emulator import StandingOrders
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine import memos
from droidherd.engine.errors import MissingKeyError
from droidherd.engine.visibility import is_foreign, quote, running

T = TypeVar("T")

AT_ONCE = 16
RUNS_READ = 10
"""Runs that cannot be asked, one before the other, of which histories or memos are read at most."""
ADMITTED = (TaskStatus.QUEUED, TaskStatus.RUNNING, TaskStatus.RETRY_PENDING, TaskStatus.WAITING, TaskStatus.COMPLETED)
"""States that a task reaches only after some dispatcher admitted it."""

OPEN_OR_CONTINUED = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW)

log = logging.getLogger("droidherd.engine")


async def find_predecessor(client: Client, pool: str, run_id: str) -> Predecessor:
    """The snapshot of the run before `run_id`, if that can still be queried, and all open tasks of the pool."""
    workflow_id = names.dispatcher_id(pool)
    snapshot, existed = "", False
    silent: list[str] = []
    async for run in client.list_workflows(f"WorkflowId = '{workflow_id}'", page_size=10):
        if run.run_id == run_id or run.status is WorkflowExecutionStatus.CONTINUED_AS_NEW:
            continue
        if is_foreign(run, Workflow.DISPATCHER):
            continue
        existed = True
        if run.status is WorkflowExecutionStatus.FAILED:
            continue  # it was reset, and knows only what was true at that point; or its input could not be read
        # A run that was terminated before it found its own predecessor knows nothing: ask the run before it. If a run
        # knew more and cannot be asked, what the run before it knew is out of date, but for what people set.
        known = None if silent else await _snapshot(client, workflow_id, run.run_id)
        if known == "":
            continue
        snapshot = known or ""
        if known is not None:
            break
        silent.append(run.run_id)
        if len(silent) == RUNS_READ:
            break
    kept = await _kept(client, pool, silent) if silent else ""
    ours = f"({Attribute.POOL_ID} = '{pool}' OR {Attribute.POOL_ID} IS NULL)"
    tasks = client.list_workflows(f"{running(Workflow.TASK)} AND {ours}", page_size=1000)
    open_tasks = {task.id: task.run_id async for task in tasks}
    emulators = [one.id async for one in client.list_workflows(running(Workflow.EMULATOR), page_size=1000)]
    return Predecessor(
        existed=existed or await _admitted_any(client, pool),
        snapshot=snapshot,
        kept=kept,
        open_tasks=_but_waiting(open_tasks, snapshot),
        emulators=tuple(one.removeprefix(names.emulator_id("")) for one in emulators),
    )


async def find_orders(client: Client, emulator_id: str, run_id: str) -> StandingOrders:
    """What people had ordered for this emulator, as the newest of the closed runs says that wrote it down."""
    workflow_id = names.emulator_id(emulator_id)
    read = 0
    async for run in client.list_workflows(f"WorkflowId = '{workflow_id}'", page_size=10):
        # A run fails when it is reset, and its memo is as old as that point.
        if run.run_id == run_id or run.status in (*OPEN_OR_CONTINUED, WorkflowExecutionStatus.FAILED):
            continue
        if is_foreign(run, Workflow.EMULATOR):
            continue
        described = await client.get_workflow_handle(workflow_id, run_id=run.run_id).describe()
        orders = await memos.read(described, names.MEMO_ORDERS, StandingOrders)
        read += 1
        if orders is not None or read == RUNS_READ:
            return orders or StandingOrders()
    return StandingOrders()


def _but_waiting(tasks: dict[str, str], snapshot: str) -> dict[str, str]:
    """Those that do not stand in line by the snapshot: nobody asks the others, and both are to fit into one message."""
    if not snapshot:
        return tasks
    entries = DispatcherState.load(snapshot, PoolConfig()).board.entries
    waiting = {task_id: entry.key.run for task_id, entry in entries.items() if entry.lease is None}
    return {task_id: run for task_id, run in tasks.items() if waiting.get(task_id) != run}


async def closed_holders(client: Client, holders: Mapping[str, str]) -> dict[str, str]:
    """Which of these tasks (id → first run id) are closed, in just that run."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def closed(task_id: str, run: str) -> bool:
        async with gate:
            return await _is_closed(client, task_id, run)

    found = await asyncio.gather(*(closed(task_id, run) for task_id, run in holders.items()))
    return {task_id: run for (task_id, run), over in zip(holders.items(), found, strict=True) if over}


async def _admitted_any(client: Client, pool: str) -> bool:
    """Whether some dispatcher admitted tasks of this pool. All its runs may have been deleted since."""
    states = ", ".join(f"'{state}'" for state in ADMITTED)
    tasks = f"WorkflowType = {quote(Workflow.TASK)} AND {Attribute.POOL_ID} = '{pool}'"
    return (await client.count_workflows(f"{tasks} AND {Attribute.TASK_STATE} IN ({states})")).count > 0


async def _snapshot(client: Client, workflow_id: str, run_id: str) -> str | None:
    """Empty: that run never knew anything. None: it cannot be asked what it knew."""
    run = client.get_workflow_handle(workflow_id, run_id=run_id)
    try:
        return await run.query("snapshot", result_type=str)
    except (RPCError, WorkflowQueryFailedError) as error:
        unready = isinstance(error, RPCError) and error.status is RPCStatusCode.FAILED_PRECONDITION
        if unready and not await _completed_a_task(run):
            return ""  # otherwise its last workflow tasks failed one after the other
        log.warning("the predecessor of %s cannot be asked: %s", workflow_id, error)
        return None


# --- what a run heard that cannot be asked ---------------------------------------------------------------------------


class _Story:
    """What stands in the history of a dispatcher's run, as far as it concerns people."""

    def __init__(self, converter: DataConverter) -> None:
        self.before: str | None = None
        """The state it began with, as text. None: it did not learn it."""
        self.settings: PoolSettings | None = None
        self.heard: list[CommandRecord] = []
        self._converter = converter
        self._asked: dict[int, str] = {}
        """Its activities, by the event that scheduled them."""

    async def read(self, event: HistoryEvent) -> None:
        match event.WhichOneof("attributes"):
            case "workflow_execution_started_event_attributes":
                start = await self._decode(event.workflow_execution_started_event_attributes.input, DispatcherInput)
                if start.snapshot:
                    self.before, self.settings = start.snapshot, start.settings
            case "activity_task_scheduled_event_attributes":
                self._asked[event.event_id] = event.activity_task_scheduled_event_attributes.activity_type.name
            case "activity_task_completed_event_attributes":
                await self._learn(event.activity_task_completed_event_attributes)
            case "workflow_execution_update_accepted_event_attributes":
                update = event.workflow_execution_update_accepted_event_attributes.accepted_request.input
                if update.name in COMMANDS:
                    self._add(event, await self._decode(update.args, OperatorCommand), update.name)
            case "workflow_execution_signaled_event_attributes":
                await self._hear(event, event.workflow_execution_signaled_event_attributes)
            case _:
                pass

    async def _learn(self, done: ActivityTaskCompletedEventAttributes) -> None:
        kind = self._asked.get(done.scheduled_event_id, "")
        if kind == "find_predecessor":
            found = await self._decode(done.result, Predecessor)
            self.before = found.snapshot or found.kept
        elif kind == "read_pool":
            self.settings = await self._decode(done.result, PoolSettings)

    async def _hear(self, event: HistoryEvent, signal: WorkflowExecutionSignaledEventAttributes) -> None:
        if signal.signal_name == "announce":
            self._add(event, await self._decode(signal.input, m.Announce))
        elif signal.signal_name == names.Signal.AUDIT_ENTRY:
            self._add(event, await self._decode(signal.input, AuditEntry))
        elif signal.signal_name == names.Signal.CONFIGURE and self.settings:
            new = await self._decode(signal.input, QueueSettings)
            self.settings = self.settings.model_copy(update=new.model_dump())
            self._add(event, self.settings.pool_config())

    def _add(
        self, event: HistoryEvent, what: Command | AuditEntry | m.Announce | PoolConfig, command: str = ""
    ) -> None:
        self.heard.append(CommandRecord(event.event_time.ToMilliseconds(), what, command))

    async def _decode(self, payloads: Payloads, kind: type[T]) -> T:
        (value,) = await self._converter.decode(list(payloads.payloads)[:1], [kind])
        return value


async def _kept(client: Client, pool: str, runs: Sequence[str]) -> str:
    """What people set in the newest of these runs, by its history: no replay is needed to read that.

    A run that did not learn with what it began goes on from the run before it.
    """
    stories: list[_Story] = []
    for run_id in runs:
        stories.insert(0, await _read(client, client.get_workflow_handle(names.dispatcher_id(pool), run_id=run_id)))
        if stories[0].before is not None:
            break
    config = next((one.settings for one in reversed(stories) if one.settings), PoolSettings()).pool_config()
    state = _loaded(stories[0].before or "", pool, config)
    heard = [record for story in stories for record in story.heard]
    kept = recovered(state, heard)
    log.warning("what people set in pool %s is read from the history of its dispatcher: %d events", pool, len(heard))
    return kept.dump_short()


def _loaded(text: str, pool: str, config: PoolConfig) -> DispatcherState:
    if text:
        try:
            return DispatcherState.load(text, config)
        except ValueError as error:
            log.error("the state of the dispatcher of pool %s cannot be read: %s", pool, error)  # noqa: TRY400
    state = DispatcherState(pool)
    state.apply(config)
    return state


async def _read(client: Client, run: WorkflowHandle[Any, Any]) -> _Story:
    """What can be read of it. What it heard in a form of another version is left out.

    MissingKeyError: it is there, and is to be read when its key is back. Not for a signal, which anybody may have sent
    with any key.
    """
    story = _Story(client.data_converter)
    async for event in run.fetch_history_events():
        try:
            await story.read(event)
        except MissingKeyError as error:
            if not event.HasField("workflow_execution_signaled_event_attributes"):
                raise
            log.warning("event %d of %s is left out: %s", event.event_id, run.id, error)
        except (ValueError, TypeError, RuntimeError) as error:
            log.warning("event %d of %s is left out: %s", event.event_id, run.id, error)
    return story


async def _completed_a_task(run: WorkflowHandle[Any, Any]) -> bool:
    """Whether it ever completed a workflow task."""
    async for event in run.fetch_history_events():
        if event.HasField("workflow_task_completed_event_attributes"):
            return True
    return False


async def _is_closed(client: Client, task_id: str, run: str) -> bool:
    try:
        described = await client.get_workflow_handle(task_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return True
        raise
    first = described.raw_description.workflow_execution_info.first_run_id or described.run_id
    same = run in (first, described.run_id)
    return not same or described.status is not WorkflowExecutionStatus.RUNNING
