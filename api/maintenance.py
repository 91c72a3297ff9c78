"""Cleanups, asked of the engine: the adapter of the port `api.engine.Maintenance`."""

import asyncio
from typing import Any

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from api import engine as e
from api.asking import asking
from droidherd.contracts import names
from droidherd.contracts.maintenance import CleanupInput, CleanupReport
from droidherd.domain.audit import Deed

ENGINE_S = 3.0
RECENT = 10


class Upkeep:
    """Starts cleanups and reads what became of them."""

    def __init__(self, client: Client, book: e.Book) -> None:
        """The same client as the gateway's. `book`: where those stand who joined a cleanup under way."""
        self._client = client
        self._book = book

    async def cleanup(self, wanted: CleanupInput, seconds: float) -> e.Cleanup:
        """A real one and a dry one at a time: who asks meanwhile gets the one under way."""
        name = f"{names.MAINTENANCE}/{'dry-run' if wanted.dry_run else 'by-hand'}"
        handle, run_id = await self._started(name, wanted)
        try:
            async with asyncio.timeout(seconds), asking(None):
                report = await handle.result()
        except TimeoutError:
            return e.Cleanup(name, run_id, "running")
        except WorkflowFailureError as error:
            raise e.BrokenError(f"the cleanup {name} failed: {error.cause}") from error
        return e.Cleanup(name, run_id, "completed", report)

    async def _started(self, name: str, wanted: CleanupInput) -> tuple["WorkflowHandle[Any, CleanupReport]", str]:
        """The one that was started; or the one under way, and in the audit that somebody else wished for it, too."""
        try:
            async with asking(ENGINE_S):
                handle = await self._client.start_workflow(
                    names.Workflow.MAINTENANCE.value,
                    wanted,
                    id=name,
                    task_queue=names.FLEET_QUEUE,
                    id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                    static_summary=f"cleanup for {wanted.actor}",
                    result_type=CleanupReport,
                )
        except WorkflowAlreadyStartedError as error:
            detail = "dry run" if wanted.dry_run else ""
            await self._book.note(wanted.pool, Deed("cleanup_joined", wanted.actor, wanted.reason, detail=detail))
            run_id = error.run_id or ""
            return self._client.get_workflow_handle(name, run_id=run_id or None, result_type=CleanupReport), run_id
        return handle, handle.first_execution_run_id or ""

    async def recent(self) -> tuple[e.Cleanup, ...]:
        """The last ones, newest first, those of the schedule among them."""
        pages = self._client.list_workflows(f"WorkflowType = '{names.Workflow.MAINTENANCE}'", page_size=RECENT)
        async with asking(ENGINE_S):
            await pages.fetch_next_page()
        found = sorted(pages.current_page or (), key=lambda one: one.start_time, reverse=True)
        return tuple([await _written(one) for one in found])

    async def timetable(self) -> e.Timetable | None:
        """None: no worker has made the schedule yet."""
        try:
            async with asking(ENGINE_S):
                known = await self._client.get_schedule_handle(names.MAINTENANCE).describe()
        except e.MissingError:
            return None
        state = known.schedule.state
        return e.Timetable(tuple(known.info.next_action_times[:1]), paused=state.paused, note=state.note or "")


async def _written(known: WorkflowExecution) -> e.Cleanup:
    """With the counts it wrote down at its end."""
    status = known.status or WorkflowExecutionStatus.RUNNING
    report: CleanupReport | None = None
    if names.MEMO_REPORT in await known.memo():
        report = await known.memo_value(names.MEMO_REPORT, type_hint=CleanupReport)
    return e.Cleanup(known.id, known.run_id, status.name.lower(), report)
