"""Cleanups in Temporal: started by hand, listed, and the schedule that starts one every day."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleCalendarSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from droidherd.contracts import names
from droidherd.contracts.maintenance import CleanupInput, CleanupReport
from droidherd.contracts.names import Workflow
from droidherd.domain.dispatch.audit import AuditEntry
from droidherd.engine import memos
from droidherd.engine.errors import RPC_S, NotFoundError, RequestFailedError, ScheduleError, limit_call
from droidherd.engine.queue import QueueClient
from droidherd.engine.visibility import quote

RECENT = 10
CATCH_UP = timedelta(hours=20)
"""A cleanup that was due while Temporal was away is started late, but not later than this."""


@dataclass(frozen=True, slots=True)
class Cleanup:
    """One cleanup."""

    id: str
    run_id: str
    state: str
    """running, completed, failed, canceled, terminated, timed_out."""
    report: CleanupReport | None = None
    """What was removed. None: it is not over, or broke off, or its report cannot be read."""
    unreadable: str = ""
    """Why that cannot be read."""


@dataclass(frozen=True, slots=True)
class CleanupSchedule:
    """When the next cleanup comes."""

    next: tuple[datetime, ...] = ()
    paused: bool = False
    note: str = ""


class MaintenanceClient:
    """Starts cleanups and reads their reports."""

    def __init__(self, client: Client, queue: QueueClient) -> None:
        """`queue` holds the audit, where a request that joins a cleanup under way is noted."""
        self._client = client
        self._queue = queue

    async def cleanup(self, wanted: CleanupInput, seconds: float) -> Cleanup:
        """Start one and wait so long for its end. At most one real one and one dry run at a time: others join it."""
        name = f"{names.MAINTENANCE}/{'dry-run' if wanted.dry_run else 'by-hand'}"
        handle, run_id = await self._start(name, wanted)
        try:
            async with asyncio.timeout(seconds), limit_call(None):
                report = await handle.result()
        except TimeoutError:
            return Cleanup(name, run_id, "running")
        except WorkflowFailureError as error:
            raise RequestFailedError(f"the cleanup {name} failed: {error.cause}") from error
        return Cleanup(name, run_id, "completed", report)

    async def _start(self, name: str, wanted: CleanupInput) -> tuple["WorkflowHandle[Any, CleanupReport]", str]:
        try:
            async with limit_call(RPC_S):
                handle = await self._client.start_workflow(
                    Workflow.MAINTENANCE.value,
                    wanted,
                    id=name,
                    task_queue=names.FLEET_QUEUE,
                    id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                    static_summary=f"cleanup for {wanted.actor}",
                    result_type=CleanupReport,
                )
        except WorkflowAlreadyStartedError as error:
            detail = "dry run" if wanted.dry_run else ""
            joined = AuditEntry("cleanup_joined", wanted.actor, wanted.reason, detail=detail)
            await self._queue.note(wanted.pool, joined)
            run_id = error.run_id or ""
            return self._client.get_workflow_handle(name, run_id=run_id or None, result_type=CleanupReport), run_id
        return handle, handle.first_execution_run_id or ""

    async def recent(self) -> tuple[Cleanup, ...]:
        """The last ones, newest first, with those of the schedule."""
        query = f"WorkflowType = {quote(Workflow.MAINTENANCE)}"
        pages = self._client.list_workflows(query, page_size=RECENT)
        async with limit_call(RPC_S):
            await pages.fetch_next_page()
        found = sorted(pages.current_page or (), key=lambda one: one.start_time, reverse=True)
        return tuple([await _cleanup(one) for one in found])

    async def schedule(self) -> CleanupSchedule | None:
        """None: no worker has made the schedule yet."""
        try:
            async with limit_call(RPC_S):
                known = await self._client.get_schedule_handle(names.MAINTENANCE).describe()
        except NotFoundError:
            return None
        state = known.schedule.state
        return CleanupSchedule(tuple(known.info.next_action_times[:1]), paused=state.paused, note=state.note or "")


async def keep_schedule(client: Client, at: str, time_zone: str, pool: str = "default") -> None:
    """Make or update the schedule of the daily cleanup. A schedule that somebody paused stays paused.

    Each cleanup is noted in the audit of `pool`. Raises ScheduleError.
    """
    hour, minute = (int(part) for part in at.split(":"))
    spec = ScheduleSpec(
        calendars=[ScheduleCalendarSpec(hour=[ScheduleRange(hour)], minute=[ScheduleRange(minute)])],
        time_zone_name=time_zone,
    )
    action = ScheduleActionStartWorkflow(
        Workflow.MAINTENANCE.value,
        CleanupInput(actor="system:schedule", reason=f"every day at {at} {time_zone}", pool=pool),
        id=names.MAINTENANCE,
        task_queue=names.FLEET_QUEUE,
        static_summary="cleanup",
    )
    policy = SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=CATCH_UP)
    wanted = Schedule(action=action, spec=spec, policy=policy)

    def updated(present: ScheduleUpdateInput) -> ScheduleUpdate:
        wanted.state = present.description.schedule.state
        return ScheduleUpdate(wanted)

    try:
        await client.create_schedule(names.MAINTENANCE, wanted)
    except ScheduleAlreadyRunningError:
        await client.get_schedule_handle(names.MAINTENANCE).update(updated)
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        raise ScheduleError(f"Temporal refuses a cleanup every day at {at} {time_zone}: {error.message}") from error


async def _cleanup(known: WorkflowExecution) -> Cleanup:
    status = known.status or WorkflowExecutionStatus.RUNNING
    report, why = await memos.read_or_why(known, names.MEMO_REPORT, CleanupReport)
    return Cleanup(known.id, known.run_id, status.name.lower(), report, why)
