"""Lists of tasks: queries for Temporal's visibility store, cursors of their pages, and how a task that closed ended."""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from temporalio.client import WorkflowExecution, WorkflowExecutionStatus

from droidherd.contracts import names
from droidherd.contracts.names import Attribute, Workflow
from droidherd.contracts.tasks import AttemptView, EventView, Failure, TaskView
from droidherd.domain.errors import Verdict
from droidherd.domain.task.lifecycle import FINAL, TaskEvent, TaskStatus
from droidherd.engine.errors import CursorError

_SAFE = re.compile(r"[A-Za-z0-9._/=:-]{1,160}", re.ASCII)
_MARK = 8
MESSAGE_MAX = 1_000


REPLACED, REPLACING = "its workflow failed", "system:replay"
"""How the reason begins for which we terminate a workflow that no worker can replay, and who does so."""


class ExecutionStatus(StrEnum):
    """The status of a workflow, as visibility queries spell it."""

    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELED = "Canceled"
    TERMINATED = "Terminated"
    TIMED_OUT = "TimedOut"
    CONTINUED_AS_NEW = "ContinuedAsNew"


TERMINATED, TIMED_OUT, WORKFLOW_FAILED = "terminated", "timed_out", "workflow_failed"
OPEN = {ExecutionStatus.RUNNING, ExecutionStatus.CONTINUED_AS_NEW}
BROKEN = {ExecutionStatus.TERMINATED, ExecutionStatus.TIMED_OUT}
"""A task that ends like this cannot write down its last state."""
ENDS = f"WorkflowType = '{Workflow.TASK}' AND ExecutionStatus != '{ExecutionStatus.CONTINUED_AS_NEW}'"
"""The condition for runs of tasks that are open or closed for good: a run that continued as new goes on in the next."""
BROKEN_QUERY = f"({', '.join(repr(str(one)) for one in ExecutionStatus if one in BROKEN)})"


@dataclass(frozen=True, slots=True)
class TaskFilters:
    """Which tasks to list."""

    types: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    account: str = ""
    lane: str = ""
    pool: str = ""
    emulator: str = ""
    subscription: str = ""
    labels: tuple[str, ...] = ()
    open: bool = False
    """Only tasks that have not ended, whatever state they wrote down last."""

    def describe(self) -> str:
        """The filters as `name=value`, for people."""
        many = {"type": self.types, "state": self.states, "label": self.labels}
        one = {name: getattr(self, name) for name in ("account", "lane", "pool", "emulator", "subscription")}
        pairs = [(name, value) for name, values in many.items() for value in values]
        return " ".join(f"{name}={value}" for name, value in (*pairs, *one.items()) if value)


def status_of(status: WorkflowExecutionStatus | None) -> ExecutionStatus:
    """What `describe` and `list` return, as visibility queries spell it."""
    known = ExecutionStatus.__members__
    return known.get(status.name, ExecutionStatus.RUNNING) if status else ExecutionStatus.RUNNING


# --- queries ------------------------------------------------------------------------------------------------------


def quote(value: str) -> str:
    """A value inside a query. Values that could end the quotes are refused, not escaped."""
    if _SAFE.fullmatch(value) is None:
        raise ValueError(f"{value[:40]!r} cannot be searched for")
    return f"'{value}'"


def running(kind: Workflow) -> str:
    """The query for all open workflows of a type."""
    return f"WorkflowType = {quote(kind)} AND ExecutionStatus = {quote(ExecutionStatus.RUNNING)}"


def with_ids(task_ids: Iterable[str]) -> str:
    """The condition for workflows with these ids. A foreign client may have given a task any id."""
    escaped = (one.replace("\\", "\\\\").replace("'", "\\'") for one in task_ids)
    return "WorkflowId IN (" + ", ".join(f"'{one}'" for one in escaped) + ")"


def query_for(filters: TaskFilters) -> str:
    """The query of a list of tasks. It finds every run of a task that did not continue as new."""
    parts = [ENDS]
    if filters.open:
        parts.append(f"ExecutionStatus = {quote(ExecutionStatus.RUNNING)}")
    if filters.types:
        parts.append(f"{Attribute.TASK_TYPE} IN ({', '.join(quote(one) for one in filters.types)})")
    if filters.states:
        parts.append(f"({' OR '.join(_in_state(TaskStatus(one)) for one in filters.states)})")
    single = (
        (Attribute.ACCOUNT_ID, filters.account),
        (Attribute.LANE, filters.lane),
        (Attribute.POOL_ID, filters.pool),
        (Attribute.EMULATOR_ID, filters.emulator),
        (Attribute.SUBSCRIPTION_ID, filters.subscription),
    )
    parts += [f"{name} = {quote(value)}" for name, value in single if value]
    parts += [f"{Attribute.TAGS} = {quote(label)}" for label in filters.labels]
    return " AND ".join(parts)


def reruns_of(filters: TaskFilters) -> str:
    """The query for the reruns of tasks that pass these filters, or passed them in an earlier run.

    Only the state and the emulator of a task differ between its runs.
    """
    constant = replace(filters, states=(), emulator="", open=False)
    return f"{query_for(constant)} AND {Attribute.TAGS} = {quote(names.RERUN_TAG)}"


def broken_off_in(pool: str) -> str:
    """The query for runs of tasks that were terminated or timed out, and by their attributes go on."""
    ends = ", ".join(quote(one) for one in TaskStatus if one in FINAL)
    return (
        f"{ENDS} AND ExecutionStatus IN {BROKEN_QUERY} AND {Attribute.POOL_ID} = {quote(pool)} "
        f"AND {Attribute.TASK_STATE} NOT IN ({ends})"
    )


def last_run_of(account: str) -> str:
    """The query for the closed tasks of an account that were admitted; the one that ended last comes first."""
    return (
        f"{ENDS} AND {Attribute.ACCOUNT_ID} = {quote(account)} "
        f"AND ExecutionStatus != {quote(ExecutionStatus.RUNNING)} "
        f"AND {Attribute.TASK_STATE} != {quote(TaskStatus.REJECTED)}"
    )


SERVICES = {
    Workflow.DISPATCHER: names.dispatcher_id(""),
    Workflow.EMULATOR: names.emulator_id(""),
    Workflow.HOST: names.host_id(""),
    Workflow.ACCOUNT: names.account_id(""),
}
"""Kinds of workflows that go on for ever, and how their ids begin. Nothing else has such an id."""


def foreigners(later: datetime) -> str:
    """The query for open runs with ids of services: of another type, on another queue, or to begin after `later`.

    `later` is a time of this machine, whose clock may be wrong: only `was_delayed` says whether a run waits on purpose.
    """
    kinds = " OR ".join(
        f"(WorkflowId STARTS_WITH '{prefix}' AND (WorkflowType != {quote(kind)} OR {_ELSEWHERE} "
        f"OR ExecutionTime > '{later:%Y-%m-%dT%H:%M:%SZ}'))"
        for kind, prefix in SERVICES.items()
    )
    return f"ExecutionStatus = 'Running' AND ({kinds})"


_ELSEWHERE = f"TaskQueue != '{names.FLEET_QUEUE}'"


DELAYED = timedelta(minutes=1)
"""Nothing of ours is started with a delay. Temporal itself delays a run that continues as new quickly, by a second."""


def was_delayed(run: WorkflowExecution) -> bool:
    """Whether somebody started it to begin later. Both times are those of one event, so that no clock has a say."""
    return run.execution_time is not None and run.execution_time - run.start_time > DELAYED


def kind_of(workflow_id: str) -> Workflow:
    """The service whose ids begin like this one, which `foreigners` found."""
    return next(kind for kind, prefix in SERVICES.items() if workflow_id.startswith(prefix))


def is_foreign(run: WorkflowExecution, kind: Workflow) -> bool:
    """Whether somebody else started it under the id of a service: what it says was never ours."""
    closed_before = run.execution_time and run.close_time and run.execution_time > run.close_time
    never_began = bool(closed_before) and was_delayed(run)
    return run.workflow_type != kind or run.task_queue != names.FLEET_QUEUE or never_began


def _in_state(state: TaskStatus) -> str:
    """A terminated task cannot write its last state, so its status decides."""
    written = f"{Attribute.TASK_STATE} = {quote(state)}"
    if state == TaskStatus.FAILED:
        return f"({written} OR ExecutionStatus IN {BROKEN_QUERY})"
    if state in FINAL:
        return f"({written} AND ExecutionStatus NOT IN {BROKEN_QUERY})"
    return f"({written} AND ExecutionStatus = 'Running')"


# --- cursors ------------------------------------------------------------------------------------------------------


def as_cursor(token: bytes | None, query: str) -> str:
    """A page token of Temporal, marked with the list it belongs to."""
    return base64.urlsafe_b64encode(_mark(query) + token).decode() if token else ""


def from_cursor(cursor: str, query: str) -> bytes | None:
    """The page token inside. CursorError when the cursor was made for another list, or not by droidherd."""
    if not cursor:
        return None
    try:
        raw = base64.b64decode(cursor.encode("ascii", "strict"), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise CursorError("not a valid cursor: pass the `cursor` of the page before, unchanged") from error
    if raw[:_MARK] != _mark(query):
        raise CursorError("the cursor belongs to another list: keep the filters while you page")
    return raw[_MARK:]


def _mark(query: str) -> bytes:
    return hashlib.sha256(query.encode()).digest()[:_MARK]


# --- how a task that closed ended ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Termination:
    """Who terminated a task's workflow, and why."""

    actor: str
    reason: str


def settle_view(
    view: TaskView, status: ExecutionStatus, closed_at: datetime | None, ended_by: Termination | None = None
) -> TaskView:
    """A task's last view, corrected by how its workflow really ended."""
    if status in OPEN:
        return view
    if view.state in FINAL and status not in BROKEN:
        return view
    ended = {"ended_at": view.ended_at or closed_at, "updated_at": closed_at or view.updated_at, "why": ""}
    if status in {ExecutionStatus.COMPLETED, ExecutionStatus.CANCELED}:
        state = TaskStatus.COMPLETED if status == ExecutionStatus.COMPLETED else TaskStatus.CANCELLED
        return view.model_copy(update={**ended, "state": state})
    failure = _failure(status)
    if ended_by is not None:
        failure = failure.model_copy(update={"message": f"{failure.message}: {ended_by.reason}"[:MESSAGE_MAX]})
    attempts = tuple(_broken_off(one, failure, closed_at) for one in view.attempts)
    stages = tuple(one.model_copy(update={"state": "failed"}) if one.state == "running" else one for one in view.stages)
    news = {"state": TaskStatus.FAILED, "error": failure, "attempts": attempts, "stages": stages, "emulator": ""}
    return view.model_copy(update={**ended, **news})


def was_refused(view: TaskView, status: ExecutionStatus) -> bool:
    """Whether whoever submitted it was refused: it never stood in line and did nothing, so that its id is free."""
    if status is not ExecutionStatus.FAILED or view.attempts or view.error is None:
        return False
    if view.state is TaskStatus.REJECTED:
        return view.error.kind != names.ALREADY_RUN
    return view.state is TaskStatus.FAILED and not view.stages and view.error.kind != WORKFLOW_FAILED


def with_termination(view: TaskView, ended_by: Termination | None) -> TaskView:
    """With a last line in its audit, which the task could not write itself."""
    if ended_by is None or view.ended_at is None:
        return view
    before = view.events[-1].after if view.events else TaskStatus.PENDING
    line = EventView(
        at=view.ended_at,
        before=before,
        event=TaskEvent.FAILED,
        after=TaskStatus.FAILED,
        actor=ended_by.actor,
        reason=ended_by.reason,
    )
    return view.model_copy(update={"events": (*view.events, line)})


def _failure(status: ExecutionStatus) -> Failure:
    kind, message = {
        ExecutionStatus.TERMINATED: (TERMINATED, "the task's workflow was terminated in Temporal"),
        ExecutionStatus.TIMED_OUT: (TIMED_OUT, "Temporal closed the task's workflow at its time limit"),
    }.get(status, (WORKFLOW_FAILED, "the task's workflow failed before it wrote down why"))
    return Failure(kind=kind, verdict=Verdict.FINAL, message=message, remedy="submit the task again")


def _broken_off(attempt: AttemptView, failure: Failure, closed_at: datetime | None) -> AttemptView:
    if attempt.ended is not None:
        return attempt
    outcome = failure.kind if failure.kind in (TERMINATED, TIMED_OUT) else TaskStatus.FAILED
    return attempt.model_copy(update={"ended": closed_at, "outcome": outcome, "error": failure})
