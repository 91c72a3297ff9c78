"""Another run of a task that ended, under the same id."""

from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.converter import decode_typed_search_attributes
from temporalio.exceptions import WorkflowAlreadyStartedError

from api import engine as e
from api.asking import asking
from api.starting import KEYWORD, House, again_options
from droidherd.contracts.names import Attribute, Workflow
from droidherd.contracts.tasks import Again, TaskInput, TaskSpec, TaskView
from droidherd.domain.lifecycle import FINAL, Wish, possible, refusal

ENGINE_S = 3.0


def wish_of(again: Again) -> Wish:
    return Wish.ROLLBACK if again.rollback else Wish.RETRY


def not_possible(wish: str, now: TaskView) -> str:
    """That it is not, and what is."""
    return refusal(wish, now.state, now.intent, possible(now.state, now.intent))


def refuse_illegal(again: Again, now: e.Reading) -> None:
    """Before anything is started: the table decides."""
    wish, view = wish_of(again), now.view
    if view.state not in FINAL or wish not in possible(view.state):
        raise e.IllegalError(not_possible(wish, view), now)


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
            spec, subscription = await self._submitted(self._client.get_workflow_handle(task_id))
        options = again_options(again, spec, self._house, subscription)
        try:
            async with asking(ENGINE_S):
                await self._client.start_workflow(Workflow.TASK.value, TaskInput(spec=spec, again=again), **options)
        except WorkflowAlreadyStartedError as error:
            raise e.IllegalError(f"{wish_of(again)} is not possible: somebody was faster", now) from error

    async def _submitted(self, handle: WorkflowHandle[Any, Any]) -> tuple[TaskSpec, str]:
        """What was submitted, and by which subscription: it stands at the beginning of the history."""
        async for event in handle.fetch_history_events(page_size=1):
            told = event.workflow_execution_started_event_attributes
            [start] = await self._client.data_converter.decode(list(told.input.payloads), [TaskInput])
            if isinstance(start, TaskInput):
                known = decode_typed_search_attributes(told.search_attributes)
                return start.spec, known.get(KEYWORD[Attribute.SUBSCRIPTION_ID]) or ""
            break
        raise e.BrokenError("the task's history does not begin with what was submitted")
