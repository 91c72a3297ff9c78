"""Another run of a task that ended, under the same id."""

from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import WorkflowAlreadyStartedError

from api import engine as e
from api.asking import asking
from api.starting import House, again_options
from droidherd.contracts.names import Workflow
from droidherd.contracts.tasks import Again, TaskInput, TaskSpec
from droidherd.domain.lifecycle import TaskEvent, may

ENGINE_S = 3.0


def event_of(again: Again) -> TaskEvent:
    return TaskEvent.ROLLBACK_ASKED if again.rollback else TaskEvent.MANUAL_RETRY


def refuse_illegal(again: Again, now: e.Reading) -> None:
    """Before anything is started: the table decides."""
    event = event_of(again)
    if not may(now.view.state, event):
        raise e.IllegalError(f"{event} is not possible while {now.view.state}", now)


class Runs:
    """Starts them."""

    def __init__(self, client: Client, house: House) -> None:
        """`house`: how tasks are started here."""
        self._client = client
        self._house = house

    async def start(self, again: Again, now: e.Reading) -> None:
        """One of two callers wins; the other is told what the task is by now."""
        task_id = again.past.task_id
        async with asking(ENGINE_S):
            spec = await self._spec(self._client.get_workflow_handle(task_id))
        try:
            async with asking(ENGINE_S):
                await self._client.start_workflow(
                    Workflow.TASK.value, TaskInput(spec=spec, again=again), **again_options(again, spec, self._house)
                )
        except WorkflowAlreadyStartedError as error:
            raise e.IllegalError(f"{event_of(again)} is not possible: somebody was faster", now) from error

    async def _spec(self, handle: WorkflowHandle[Any, Any]) -> TaskSpec:
        """What was submitted: it stands at the beginning of the history."""
        async for event in handle.fetch_history_events(page_size=1):
            told = event.workflow_execution_started_event_attributes.input
            [start] = await self._client.data_converter.decode(list(told.payloads), [TaskInput])
            if isinstance(start, TaskInput):
                return start.spec
            break
        raise e.BrokenError("the task's history does not begin with what was submitted")
