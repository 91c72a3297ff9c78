"""The closed tasks that Temporal keeps, for cleanups. Implements `droidherd.domain.retention.Archive`."""

import base64
from collections.abc import Sequence
from datetime import UTC, datetime

from temporalio.api.common.v1 import WorkflowExecution as Execution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from droidherd.contracts import names
from droidherd.domain.ids import is_id
from droidherd.domain.retention import Cohort, Page, Run, TaskRuns
from droidherd.domain.task.lifecycle import FINAL, TaskStatus
from droidherd.engine.errors import limit_call
from droidherd.engine.task_options import KEYWORD
from droidherd.engine.visibility import BROKEN, BROKEN_QUERY, quote, running, status_of, with_ids

PAGE = 50
LIST_S = 30.0
_ENDED_AS = {
    WorkflowExecutionStatus.COMPLETED: TaskStatus.COMPLETED,
    WorkflowExecutionStatus.CANCELED: TaskStatus.CANCELLED,
}
"""How a task ended that did not write it down."""


class TaskArchive:
    """Finds tasks by visibility, which lags behind, and decides by what `describe` says of each task now."""

    def __init__(self, client: Client) -> None:
        """The client of the namespace the tasks live in."""
        self._client = client

    async def closed(self, cohort: Cohort, cursor: str) -> Page:
        token = base64.b64decode(cursor) if cursor else None
        pages = self._client.list_workflows(_query(cohort), page_size=PAGE, next_page_token=token)
        await pages.fetch_next_page()
        following = base64.b64encode(pages.next_page_token).decode() if pages.next_page_token else ""
        return Page(tuple(_run(one) for one in pages.current_page or ()), following)

    async def newest(self, task_id: str) -> Run | None:
        try:
            known = await self._client.get_workflow_handle(task_id).describe()
        except RPCError as error:
            # An id that cannot be one is not known either.
            if error.status in {RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT}:
                return None
            raise
        return _run(known)

    async def earlier(self, task_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
        query = f"{_tasks()} AND {with_ids(task_ids)}"
        found: dict[str, list[tuple[datetime, str]]] = {}
        async for run in self._client.list_workflows(query, page_size=1000):
            if run.close_time is not None:
                found.setdefault(run.id, []).append((run.close_time, run.run_id))
        return {task_id: tuple(run_id for _, run_id in sorted(runs)) for task_id, runs in found.items()}

    async def runs(self, task_ids: Sequence[str]) -> dict[str, TaskRuns]:
        """What there is of each of these tasks. Raises EngineError."""
        found = dict.fromkeys(task_ids, TaskRuns.GONE)
        if not found:
            return found
        query = f"WorkflowType = '{names.Workflow.TASK}' AND {with_ids(found)}"
        async with limit_call(LIST_S):
            async for run in self._client.list_workflows(query, page_size=1000):
                is_open = run.close_time is None or found.get(run.id) is TaskRuns.OPEN
                found[run.id] = TaskRuns.OPEN if is_open else TaskRuns.CLOSED
        return found

    async def delete(self, task_id: str, run_id: str) -> None:
        request = DeleteWorkflowExecutionRequest(
            namespace=self._client.namespace, workflow_execution=Execution(workflow_id=task_id, run_id=run_id)
        )
        try:
            await self._client.workflow_service.delete_workflow_execution(request, retry=True)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise

    async def hosts(self) -> tuple[str, ...]:
        """Every host that Temporal knows. Anybody may start a workflow under an id that can be none of a host."""
        hosts = self._client.list_workflows(running(names.Workflow.HOST), page_size=1000)
        found = [one.id.removeprefix(names.host_id("")) async for one in hosts]
        return tuple(sorted(filter(is_id, found)))


def _tasks() -> str:
    return f"WorkflowType = '{names.Workflow.TASK}' AND ExecutionStatus != 'Running'"


def _query(cohort: Cohort) -> str:
    """Last runs only: a run that continued as new is not an end."""
    before = datetime.fromtimestamp(cohort.before_ms / 1000, UTC).isoformat(timespec="milliseconds")
    state = names.Attribute.TASK_STATE
    listed = ", ".join(quote(one) for one in cohort.states)
    if cohort.others:
        which = f"({state} IS NULL OR {state} NOT IN ({listed}) OR ExecutionStatus IN {BROKEN_QUERY})"
    else:
        which = f"{state} IN ({listed}) AND ExecutionStatus NOT IN {BROKEN_QUERY}"
    return f"{_tasks()} AND ExecutionStatus != 'ContinuedAsNew' AND CloseTime <= '{before}' AND {which}"


def _run(known: WorkflowExecution) -> Run:
    written = known.typed_search_attributes.get(KEYWORD[names.Attribute.TASK_STATE]) or ""
    ended = _ENDED_AS.get(known.status) if known.status and written not in FINAL else None
    closed_ms = int(known.close_time.timestamp() * 1000) if known.close_time else 0
    return Run(known.id, known.run_id, ended or written, closed_ms, broken=status_of(known.status) in BROKEN)
