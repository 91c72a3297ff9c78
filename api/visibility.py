"""Lists of tasks: queries for the engine's visibility store, and what its rows mean."""

import base64
import binascii
import hashlib
import re
from datetime import datetime
from enum import StrEnum

from api.engine import CursorError, Filters
from droidherd.contracts.names import Attribute, Workflow
from droidherd.contracts.tasks import AttemptView, Failure, TaskView
from droidherd.domain.errors import Verdict
from droidherd.domain.lifecycle import FINAL, TaskState

_SAFE = re.compile(r"[A-Za-z0-9._/=-]{1,160}", re.ASCII)
_MARK = 8


class Status(StrEnum):
    """How a workflow stands, in the engine's words."""

    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"
    TERMINATED = "Terminated"
    TIMED_OUT = "TimedOut"
    CONTINUED = "ContinuedAsNew"


def quoted(value: str) -> str:
    """A value inside a query. What could end the quotes is refused, not escaped."""
    if _SAFE.fullmatch(value) is None:
        raise ValueError(f"{value[:40]!r} cannot be searched for")
    return f"'{value}'"


def query_for(filters: Filters) -> str:
    """The visibility query of a list of tasks."""
    parts = [f"WorkflowType = {quoted(Workflow.TASK)}"]
    if filters.open:
        parts.append(f"ExecutionStatus = {quoted(Status.RUNNING)}")
    if filters.types:
        parts.append(f"{Attribute.TASK_TYPE} IN ({', '.join(quoted(one) for one in filters.types)})")
    if filters.states:
        parts.append(f"({' OR '.join(_in_state(TaskState(one)) for one in filters.states)})")
    single = (
        (Attribute.ACCOUNT_ID, filters.account),
        (Attribute.LANE, filters.lane),
        (Attribute.POOL_ID, filters.pool),
        (Attribute.EMULATOR_ID, filters.emulator),
        (Attribute.SUBSCRIPTION_ID, filters.subscription),
    )
    parts += [f"{name} = {quoted(value)}" for name, value in single if value]
    parts += [f"{Attribute.TAGS} = {quoted(label)}" for label in filters.labels]
    return " AND ".join(parts)


def last_run_of(account: str) -> str:
    """The query for the closed tasks of an account that were let in; the newest start comes first."""
    return (
        f"WorkflowType = {quoted(Workflow.TASK)} AND {Attribute.ACCOUNT_ID} = {quoted(account)} "
        f"AND ExecutionStatus != {quoted(Status.RUNNING)} AND {Attribute.TASK_STATE} != {quoted(TaskState.REJECTED)}"
    )


def _in_state(state: TaskState) -> str:
    """A terminated task cannot write its last state: its status tells."""
    wanted = f"{Attribute.TASK_STATE} = {quoted(state)}"
    if state == TaskState.FAILED:
        return f"({wanted} OR ExecutionStatus IN ('Terminated', 'TimedOut'))"
    if state in FINAL:
        return f"({wanted} AND ExecutionStatus NOT IN ('Terminated', 'TimedOut'))"
    return f"({wanted} AND ExecutionStatus = 'Running')"


def as_cursor(token: bytes | None, query: str) -> str:
    """A page token of the engine, marked with the list it belongs to."""
    return base64.urlsafe_b64encode(_mark(query) + token).decode() if token else ""


def from_cursor(cursor: str, query: str) -> bytes | None:
    """The page token inside. CursorError when it was made for another list, or by nobody."""
    if not cursor:
        return None
    try:
        raw = base64.b64decode(cursor.encode("ascii", "strict"), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise CursorError("the cursor is not one of ours") from error
    if raw[:_MARK] != _mark(query):
        raise CursorError("the cursor belongs to another list: keep the filters while you page")
    return raw[_MARK:]


def _mark(query: str) -> bytes:
    return hashlib.sha256(query.encode()).digest()[:_MARK]


def settled(view: TaskView, status: Status, closed_at: datetime | None) -> TaskView:
    """What a task wrote down last, put right by how its workflow really ended."""
    if status in {Status.RUNNING, Status.CONTINUED}:
        return view
    broken = status in {Status.TERMINATED, Status.TIMED_OUT}
    if view.state in FINAL and not broken:
        return view
    ended = {"ended_at": view.ended_at or closed_at, "updated_at": closed_at or view.updated_at, "why": ""}
    if status in {Status.COMPLETED, Status.CANCELED}:
        state = TaskState.COMPLETED if status == Status.COMPLETED else TaskState.CANCELLED
        return view.model_copy(update={**ended, "state": state})
    failure = _failure(status)
    attempts = tuple(_broken_off(one, failure, closed_at) for one in view.attempts)
    return view.model_copy(
        update={**ended, "state": TaskState.FAILED, "error": failure, "attempts": attempts, "emulator": ""}
    )


def _failure(status: Status) -> Failure:
    kind, message = {
        Status.TERMINATED: ("terminated", "the task's workflow was terminated on the engine"),
        Status.TIMED_OUT: ("timed_out", "the engine closed the task's workflow at its time limit"),
    }.get(status, ("workflow_failed", "the task's workflow failed before it wrote down why"))
    return Failure(kind=kind, verdict=Verdict.FINAL, message=message, remedy="submit the task again")


def _broken_off(attempt: AttemptView, failure: Failure, closed_at: datetime | None) -> AttemptView:
    if attempt.ended is not None:
        return attempt
    return attempt.model_copy(update={"ended": closed_at, "outcome": "failed", "error": failure})
