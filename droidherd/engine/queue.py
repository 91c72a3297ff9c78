"""A pool's queue, asked of its dispatcher; and the one way in which a dispatcher is started."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy

from droidherd.contracts import names
from droidherd.contracts.engine import Holders
from droidherd.contracts.names import Query, Signal, Update, Workflow
from droidherd.contracts.queue import (
    AccountsPage,
    AccountsQuery,
    AuditPage,
    AuditQuery,
    CommandResult,
    DisabledPage,
    DisabledQuery,
    DispatcherInput,
    EmulatorsPage,
    LaneView,
    OperatorCommand,
    PositionsQuery,
    QueuePage,
    QueuePosition,
    QueuePositions,
    QueueQuery,
    QueueSettings,
    StatsPage,
)
from droidherd.contracts.tasks import TaskView
from droidherd.domain.dispatch.audit import AuditEntry
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.connection import EngineConfig
from droidherd.engine.errors import RPC_S, EngineError, NotFoundError, limit_call
from droidherd.engine.rebuild import closed_holders
from droidherd.engine.workflow_calls import WorkflowCalls, cause_of, ended_unanswered

Page = TypeVar("Page")

LOOK_S = 30.0
"""For one look at all holders of a pool."""
SILENT_MAX = 1_000
AGAIN_S = 1.0
AGAIN_MAX_S = 30.0

log = logging.getLogger("droidherd.engine")


class QueueClient:
    """Asks dispatchers. The one of the process's own pool is started when it is missing; others are not."""

    def __init__(self, client: Client, config: EngineConfig) -> None:
        """`config.pool` is the pool of this process."""
        self._client = client
        self._config = config
        self._calls = WorkflowCalls(client, config)
        self._silent: dict[str, float] = {}
        """Pool → since when its dispatcher has not answered us."""

    # --- what a dispatcher knows ------------------------------------------------------------------------------

    async def page(self, pool: str, query: QueueQuery) -> QueuePage:
        return await self._ask(pool, Query.QUEUE, query, QueuePage)

    async def emulators(self, pool: str) -> EmulatorsPage:
        return await self._ask(pool, Query.EMULATORS, None, EmulatorsPage)

    async def stats(self, pool: str) -> StatsPage:
        return await self._ask(pool, Query.STATS, None, StatsPage)

    async def audit(self, pool: str, query: AuditQuery) -> AuditPage:
        return await self._ask(pool, Query.AUDIT, query, AuditPage)

    async def accounts(self, pool: str, accounts: tuple[str, ...]) -> AccountsPage:
        return await self._ask(pool, Query.ACCOUNTS, AccountsQuery(accounts=accounts), AccountsPage)

    async def disabled(self, pool: str, query: DisabledQuery) -> DisabledPage:
        return await self._ask(pool, Query.DISABLED, query, DisabledPage)

    async def exists(self, pool: str) -> bool:
        return pool == self._config.pool or await self._calls.exists(names.dispatcher_id(pool))

    async def ready(self) -> dict[str, str]:
        """Why no work can be taken on, by part; an empty text is good."""
        try:
            async with limit_call(RPC_S):
                await self._client.service_client.check_health()
        except EngineError as error:
            return {"engine": str(error), "dispatcher": "not known while Temporal does not answer"}
        # Before it is asked anything, which would take until nobody waits for this answer any more.
        dispatcher = names.dispatcher_id(self._config.pool)
        fault = await self._calls.find_fault(dispatcher)
        if fault.lacks_key:
            return {"engine": "", "dispatcher": fault.text}
        try:
            await self.page(self._config.pool, QueueQuery(limit=1))
        except EngineError as error:
            fault = await self._calls.find_fault(dispatcher)
            if fault.lacks_key:
                return {"engine": "", "dispatcher": fault.text}
            if not fault.text:
                return {"engine": "", "dispatcher": str(error)}
            log.warning("the dispatcher of %s: %s", self._config.pool, fault.text)  # whoever asks may have no key
            return {"engine": "", "dispatcher": f"{error}; its workflow tasks fail: see the log of the API"}
        return {"engine": "", "dispatcher": ""}

    async def with_position(self, view: TaskView) -> TaskView:
        """A queued task with its position now. The task itself knows only the position it was admitted with.

        One that waits for its dispatcher's answer, or for that of a dispatcher that is silent, says so.
        """
        if not _depends_on_dispatcher(view):
            return view
        try:
            position = await self._ask(view.pool, Query.PLACE, view.task_id, QueuePosition)
        except EngineError as error:
            position = self._silence(view.pool, error)
        return _with(view, position)

    async def with_positions(self, views: Sequence[TaskView]) -> list[TaskView]:
        """The same for a list, with one query per pool. Tasks of a pool that does not answer stay as they are."""
        queued: dict[str, list[str]] = {}
        for view in views:
            if _depends_on_dispatcher(view):
                queued.setdefault(view.pool, []).append(view.task_id)
        found = await asyncio.gather(*(self._positions(pool, tuple(ids)) for pool, ids in queued.items()))
        known = dict(zip(queued, found, strict=True))
        return [_with(one, known.get(one.pool, {}).get(one.task_id, QueuePosition())) for one in views]

    async def _positions(self, pool: str, tasks: tuple[str, ...]) -> dict[str, QueuePosition]:
        try:
            found = await self._ask(pool, Query.PLACES, PositionsQuery(tasks=tasks), QueuePositions)
        except EngineError as error:
            return dict.fromkeys(tasks, self._silence(pool, error))
        return found.places

    def _silence(self, pool: str, error: EngineError) -> QueuePosition:
        since = datetime.fromtimestamp(self._silent.get(pool, time.time()), UTC)
        return QueuePosition(
            why=f"the dispatcher of pool {pool} has not answered since {since:%Y-%m-%d %H:%M:%S} UTC: {error}"
        )

    # --- what a dispatcher is told ----------------------------------------------------------------------------

    async def command(self, pool: str, update: Update, command: OperatorCommand) -> CommandResult:
        """`done` is false when the dispatcher refuses. When it ends before it has answered, its successor is told."""
        try:
            try:
                return await self._send(pool, update, command)
            except NotFoundError:
                await self._wake(pool)
            except WorkflowUpdateFailedError as error:
                if not ended_unanswered(error):
                    raise
                if pool == self._config.pool:
                    await self._wake(pool)
            return await self._send(pool, update, command)
        except WorkflowUpdateFailedError as error:
            return CommandResult(done=False, detail=cause_of(error))

    async def _send(self, pool: str, update: Update, command: OperatorCommand) -> CommandResult:
        dispatcher = names.dispatcher_id(pool)
        return await self._calls.update(dispatcher, update, command, command.request_id, CommandResult)

    async def note(self, pool: str, entry: AuditEntry) -> None:
        """Add an entry to a pool's audit; to our own pool's if that pool is gone. Durable when this returns."""
        if pool not in ("", self._config.pool):
            with contextlib.suppress(NotFoundError):
                async with limit_call(RPC_S):
                    await self._calls.handle(names.dispatcher_id(pool)).signal(Signal.AUDIT_ENTRY.value, entry)
                return
        await self._start(Signal.AUDIT_ENTRY, entry)

    async def configure(self) -> None:
        """Hand the settings to our pool's dispatcher. One that does not run reads them when it starts."""
        settings = QueueSettings.model_validate(
            self._config.settings.model_dump(include=set(QueueSettings.model_fields))
        )
        with contextlib.suppress(NotFoundError):
            async with limit_call(RPC_S):
                await self._calls.handle(names.dispatcher_id(self._config.pool)).signal(Signal.CONFIGURE, settings)

    async def report_closed_holders(self, host: str, seen: Mapping[str, str]) -> dict[str, str]:
        """Tell our pool's dispatcher which of those it waits for are closed: they will never say so themselves.

        Who was not there at the look before (`seen`) is looked at the next time: most leases are short. Returns who is
        there now (task → run). A query leaves no event, so that a dispatcher whose leases last writes none.
        """
        dispatcher = names.dispatcher_id(self._config.pool)
        try:
            holders = (await self._calls.query(dispatcher, Query.HOLDERS, host, Holders)).holders
            lasting = {task: run for task, run in holders.items() if seen.get(task) == run}
            async with limit_call(LOOK_S):
                closed = await closed_holders(self._client, lasting)
                if closed:
                    log.warning("%d holders of pool %s are closed: %s", len(closed), self._config.pool, [*closed][:10])
                    await self._calls.handle(dispatcher).signal(Signal.CLOSED.value, Holders(holders=closed))
        except NotFoundError:
            return {}
        return holders

    async def keep_running(self) -> None:
        """Start our pool's dispatcher if it was terminated."""
        try:
            async with limit_call(RPC_S):
                found = await self._calls.handle(names.dispatcher_id(self._config.pool)).describe()
            if found.status is WorkflowExecutionStatus.RUNNING:
                return
        except NotFoundError:
            pass
        await self._start(Signal.WAKE)

    # --- how ---------------------------------------------------------------------------------------------------

    async def _ask(self, pool: str, query: Query, arg: object, kind: type[Page]) -> Page:
        dispatcher = names.dispatcher_id(pool)
        began_s = time.time()
        try:
            try:
                answer = await self._calls.query(dispatcher, query, arg, kind)
            except NotFoundError:
                await self._wake(pool)
                answer = await self._calls.query(dispatcher, query, arg, kind)
        except EngineError:
            if len(self._silent) < SILENT_MAX:
                self._silent.setdefault(pool, began_s)
            raise
        self._silent.pop(pool, None)
        return answer

    async def _wake(self, pool: str) -> None:
        if pool != self._config.pool:
            raise NotFoundError(f"no pool `{pool}`")
        await self._start(Signal.WAKE)

    async def _start(self, signal: Signal, *args: object) -> None:
        """Send a signal to our pool's dispatcher, which is started if it does not run. It reads its own settings."""
        async with limit_call(RPC_S):
            await self._client.start_workflow(
                Workflow.DISPATCHER.value,
                DispatcherInput(pool=self._config.pool),
                id=names.dispatcher_id(self._config.pool),
                task_queue=names.FLEET_QUEUE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                start_signal=signal.value,
                start_signal_args=args,
                task_timeout=timedelta(seconds=self._config.workflow_task_s),
                static_summary=f"dispatcher of pool {self._config.pool}",
            )


class LaneControl:
    """The lanes of our pool for the monitor of a host's disks. None and False: the dispatcher did not answer."""

    def __init__(self, queue: QueueClient) -> None:
        """`queue` bounds each call."""
        self._queue = queue

    async def lanes(self, pool: str) -> tuple[LaneView, ...] | None:
        """All lanes, and one without a name that stands for lanes to come."""
        try:
            page = await self._queue.page(pool, QueueQuery(limit=1))
        except EngineError as error:
            missing = isinstance(error, NotFoundError)
            log.log(logging.DEBUG if missing else logging.WARNING, "the lanes of %s are not known: %s", pool, error)
            return None
        whole = LaneView(
            name="", waiting=0, running=0, capacity=0, paused_by=page.paused_by, paused_why=page.paused_why
        )
        return (whole, *page.lanes)

    async def pause(self, pool: str, actor: str, reason: str) -> bool:
        return await self._command(pool, Update.PAUSE_LANE, OperatorCommand(actor=actor, reason=reason))

    async def resume(self, pool: str, lane: str, actor: str) -> bool:
        return await self._command(pool, Update.RESUME_LANE, OperatorCommand(actor=actor, lane=lane))

    async def _command(self, pool: str, update: Update, command: OperatorCommand) -> bool:
        try:
            return (await self._queue.command(pool, update, command)).done
        except EngineError as error:
            log.warning("pool %s did not answer %s: %s", pool, update, error)
            return False


@contextlib.asynccontextmanager
async def handing_over_settings(queue: QueueClient) -> AsyncGenerator[None]:
    """Meanwhile, hand this process's settings to the pool's dispatcher, which may have been started with others."""
    handing = asyncio.create_task(_hand_over(queue))
    try:
        yield
    finally:
        handing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await handing


async def _hand_over(queue: QueueClient) -> None:
    """Try until Temporal takes the settings: then they are durable."""
    wait_s = AGAIN_S
    while True:
        try:
            await queue.configure()
        except EngineError as error:
            log.info("the settings cannot be handed to the dispatcher yet: %s", error)
        else:
            return
        await asyncio.sleep(wait_s)
        wait_s = min(wait_s * 2, AGAIN_MAX_S)


def _depends_on_dispatcher(view: TaskView) -> bool:
    """Whether it stands in line, or waits for the answer to that and says nothing else."""
    return view.state is TaskStatus.QUEUED or (view.state is TaskStatus.PENDING and not view.why)


def _with(view: TaskView, position: QueuePosition) -> TaskView:
    known = position.model_dump(exclude=None if position.priority else {"priority", "prioritized"})
    if position.position:
        return view.model_copy(update=known)
    return view.model_copy(update={"why": position.why}) if position.why else view
