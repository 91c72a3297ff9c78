"""What comes in from outside and from the dispatcher, read for a task. Small and pure, but for the workflow's clock."""

from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import Field, ValidationError
from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts.base import readable
    from droidherd.contracts.tasks import Again, TaskInput, TaskSpec
    from droidherd.domain import ids
    from droidherd.domain import messages as m
    from droidherd.domain.lifecycle import Intent, TaskEvent, Wish, may, possible, refusal

IDS_NAME_FOLDERS = "ids-name-folders"
Given = Annotated[TaskInput | Any, Field(union_mode="left_to_right")]
"""A foreign client may start a task with anything."""


def understood(given: Any) -> tuple[TaskInput, str]:
    """The input, or a stand-in and why it cannot be read."""
    if isinstance(given, TaskInput):
        return _possible(given)
    try:
        TaskInput.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the input"
        return TaskInput(spec=TaskSpec(type="unreadable")), f"{where}: {readable(first)}"
    return _possible(TaskInput.model_validate(given))


def _possible(start: TaskInput) -> tuple[TaskInput, str]:
    """A new run of a task that ended must be one that the table allows."""
    again = start.again
    if again is None or may(again.past.state, event_of(again)):
        return start, ""
    wish, past = (Wish.ROLLBACK if again.rollback else Wish.RETRY), again.past
    refused = f"again: {refusal(wish, past.state, Intent.NONE, possible(past.state))}"
    return start.model_copy(update={"again": None}), refused


def event_of(again: Again) -> TaskEvent:
    """What a new run of a task begins with."""
    return TaskEvent.ROLLBACK_ASKED if again.rollback else TaskEvent.MANUAL_RETRY


def id_problem(task_id: str) -> str:
    """Why this cannot be a task's id; an empty text when it can."""
    problem = ids.id_problem(task_id)
    if not problem or (ids.is_id(task_id) and not workflow.patched(IDS_NAME_FOLDERS)):
        return ""
    return f"a task id {problem}; not {task_id!r}"


def why_rejected(news: m.Rejected) -> str:
    """A refusal of the dispatcher, for people."""
    held_by = f" by task {news.holder}" if news.holder else ""
    return {
        "queue_full": "the queue is full",
        "duplicate": f"the same account and type is queued already{held_by}",
        "account_running": f"the account is in use already{held_by}",
        "cannot_be_satisfied": "no emulator of the pool can run it",
    }.get(news.reason, news.reason)


def until_s(moment: datetime | None, *, far: float = 0.0) -> float:
    """Seconds from now; `far` when no moment was named."""
    if moment is None:
        return far
    return (moment - workflow.now()) / timedelta(seconds=1)
