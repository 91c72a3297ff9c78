"""What the routes of tasks do: check and submit, change, stream events, describe task types."""

import asyncio
import hashlib
import re
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pydantic_core import to_json
from starlette.concurrency import run_in_threadpool

from api.bodies import parse_body, refuse_odd_numbers, with_actor
from api.errors import Kind, ProblemError, invalid
from api.state import AppState
from api.tasks.schemas import ParamOut, SubmissionOut, SubmitRequest, TaskEvents, TaskTypeOut, TaskTypes
from droidherd.contracts.names import Update
from droidherd.contracts.queue import CommandResult, OperatorCommand
from droidherd.contracts.tasks import Admission, Control, OperatorRequest, RollbackRequest, TaskSpec
from droidherd.domain import ids
from droidherd.domain.errors import BadParametersError, FlowError
from droidherd.domain.task.lifecycle import FINAL, TaskAction, TaskStatus, possible
from droidherd.engine.errors import EngineError
from droidherd.engine.task_options import NewTask
from droidherd.engine.tasks import IllegalStateError, SubmitResult, TaskReading, TasksClient, not_possible
from droidherd.flows.catalogue import Catalogue
from droidherd.flows.model.params import ACCOUNT

KEY_MAX = 255
START_WITHIN = timedelta(days=366)
POLL_S = 0.3
POLL_MAX_S = 2.0
POLL_GROWTH = 1.5
BEAT_S = 15.0
LAST_EVENTS_S = 60.0
"""How long a stream waits for a worker that knows the last events of a task that has ended."""
EVENT_ID = re.compile(r"\d{16}-\d{3}", re.ASCII)

REASONS: Mapping[str, Kind] = {"queue_full": Kind.QUEUE_FULL, "cannot_be_satisfied": Kind.UNSATISFIABLE}
"""Why a dispatcher rejects a task. Every other reason names a task that is in the way."""
REMEDIES: Mapping[str, str] = {
    "queue_full": "the pool's queue is full; try again when some of its tasks have run",
    "cannot_be_satisfied": "no emulator of the pool meets the task's requirements: `GET /api/emulators` lists them",
    "duplicate": "a task of this type is already queued for the account; wait for it, or use `on_busy: queue`",
    "account_running": "a task of this account is running; wait for it, or use `on_busy: queue`",
}

# --- submitting ---------------------------------------------------------------------------------------------------


async def submit(app: AppState, raw: bytes, key: str, caller: str) -> SubmissionOut:
    """Start a task. ProblemError: the body is invalid, or the dispatcher rejected it."""
    new = await _new_task(app, raw, key)
    return _answer_of(await app.tasks.submit(replace(new, spec=with_actor(new.spec, caller))))


async def _new_task(app: AppState, raw: bytes, key: str) -> NewTask:
    """Check a submission by everything that is known before it is started."""
    body = parse_body(SubmitRequest, raw)
    refuse_odd_numbers(body.params, "params")
    if "pool" not in body.model_fields_set:
        body = body.model_copy(update={"pool": app.pool})
    # The worker plans with the same operation; here it only refuses early.
    await run_in_threadpool(app.catalogue.plan, body.type, body.params, body.policy, body.account)
    _check_times(body, datetime.now(UTC), repeatable=bool(key))
    task_id, key_digest = _identity(body, key)
    await run_in_threadpool(_check_chain, body, task_id, app.catalogue)
    if body.pool != app.pool and not await app.queue.exists(body.pool):
        raise invalid("pool", f"no pool `{body.pool}`")
    if body.emulator and not await app.emulators.exists(body.emulator):
        raise invalid("emulator", f"no emulator `{body.emulator}`")
    digest = hashlib.sha256(body.model_dump_json().encode()).hexdigest()[:32]
    update_id = f"{key_digest}-{digest}" if key_digest else secrets.token_hex(16)
    # Without `id`: the task refuses fields that its contract does not have.
    named = {name: getattr(body, name) for name in TaskSpec.model_fields}
    spec = TaskSpec.model_construct(body.model_fields_set - {"id"}, **named)
    return NewTask(task_id=task_id, spec=spec, digest=digest, key=key_digest, update_id=update_id)


def _answer_of(result: SubmitResult) -> SubmissionOut:
    admission = result.admission
    if admission is None:
        return SubmissionOut(id=result.task_id, state=TaskStatus.PENDING, admission="pending")
    if admission.state == TaskStatus.REJECTED:
        raise _rejection(admission)
    if admission.state == TaskStatus.FAILED:
        raise ProblemError(Kind.REFUSED, admission.reason or "the task failed at once", task=admission.task_id)
    return SubmissionOut(id=result.task_id, state=admission.state, position=admission.position, why=admission.reason)


def _rejection(admission: Admission) -> ProblemError:
    kind = REASONS.get(admission.reason, Kind.CONFLICT)
    problem = ProblemError(kind, REMEDIES.get(admission.reason, ""))
    problem.more = {"task": admission.task_id, "reason": admission.reason}
    if admission.holder:
        problem.more["holder"] = admission.holder
    return problem


def _check_times(body: SubmitRequest, now: datetime, *, repeatable: bool) -> None:
    """A request with a key may repeat one that came in time, so only the task decides whether it has expired."""
    if body.not_before is not None and body.not_before > now + START_WITHIN:
        raise invalid("not_before", f"at most {START_WITHIN.days} days from now")
    if body.expires_at is not None:
        if body.expires_at <= now and not repeatable:
            raise invalid("expires_at", "is in the past")
        if body.not_before is not None and body.expires_at <= body.not_before:
            raise invalid("expires_at", "must be later than not_before")


def _check_chain(body: SubmitRequest, task_id: str, catalogue: Catalogue) -> None:
    """Check the tasks that follow like the first one."""
    if body.chain is not None:
        raise invalid("chain", "is set by the task before; name the tasks that follow in `then`")
    if problem := body.chain_problem(task_id):
        raise invalid("id", problem)
    for at, link in enumerate(body.then):
        try:
            refuse_odd_numbers(link.params, "params")
            catalogue.plan(link.type, link.params, link.policy, body.account)
        except BadParametersError as error:
            field = error.to if error.to == "account" else f"then.{at}.{error.to}"
            raise invalid(field, error.what) from error


def _identity(body: SubmitRequest, key: str) -> tuple[str, str]:
    """The task's id, and the digest of the idempotency key."""
    check_key(key)
    digest = hashlib.sha256(f"droidherd {key}".encode()).hexdigest()[:32] if key else ""
    if body.id is not None:
        return chosen_id(body.id), digest
    return (f"k-{digest}" if digest else f"t-{time_sorted_id()}"), digest


def check_key(key: str) -> None:
    """Refuse an idempotency key that cannot be compared reliably."""
    if key and not (len(key) <= KEY_MAX and key.isascii() and key.isprintable()):
        raise invalid("Idempotency-Key", f"must be 1 to {KEY_MAX} visible ASCII characters")


def chosen_id(text: str, most: int = ids.ID_MAX) -> str:
    """An id that the client chose, if it is valid."""
    if problem := ids.id_problem(text, most):
        raise invalid("id", problem)
    return text


def time_sorted_id() -> str:
    """An id that sorts by time, short enough to type."""
    return f"{time.time_ns() // 1_000_000:011x}-{secrets.token_hex(4)}"


# --- reading and changing -----------------------------------------------------------------------------------------


async def read(app: AppState, task_id: str, seconds: float) -> TaskReading:
    """The task now; with `seconds`, as it is when it ends or the time is over."""
    reading = await app.tasks.view(task_id)
    if not seconds or not reading.open:
        return reading
    await app.tasks.wait_end(task_id, seconds)
    return await app.tasks.view(task_id)


async def control(app: AppState, task_id: str, control: Control) -> tuple[TaskReading, bool]:
    """The task after a change; False: no worker answered in time, but the request is durable."""
    done = await app.tasks.control(task_id, control, secrets.token_hex(12))
    return (done, True) if done is not None else (await app.tasks.view(task_id), False)


async def rollback(app: AppState, task_id: str, ask: OperatorRequest, *, force: bool) -> tuple[TaskReading, bool]:
    """Roll a task back; one that runs is cancelled first."""
    try:
        return await control(app, task_id, Control(action="rollback", **dict(ask), force=force))
    except IllegalStateError as error:
        if error.now.open and error.now.view.state not in FINAL:
            raise
    # It has ended. Looking first would not help: it may end between the look and the request.
    return await app.tasks.again(task_id, TaskAction.ROLLBACK, RollbackRequest(**dict(ask), force=force)), True


async def answer_question(
    app: AppState, task_id: str, choice: str, ask: OperatorRequest, number: int = 0
) -> tuple[TaskReading, bool]:
    """`number`: of the question that is answered; 0: the one that is open now."""
    question = (await app.tasks.view(task_id)).view.question
    if question is not None and number in (0, question.number):
        number = question.number
        if choice not in question.choices:
            raise invalid("choice", f"one of: {', '.join(question.choices)}")
    return await control(app, task_id, Control(action="answer", **dict(ask), choice=choice, question=number))


async def prioritize(
    app: AppState, task_id: str, ask: OperatorRequest, priority: int = 1, *, bulk: bool = False
) -> CommandResult:
    """Move a queued task in front of those that wait for the same."""
    known = await app.tasks.view(task_id)
    if TaskAction.PRIORITIZE not in possible(known.view.state, known.view.intent):
        raise IllegalStateError(not_possible(TaskAction.PRIORITIZE, known.view), known)
    command = OperatorCommand(
        request_id=secrets.token_hex(12), task_id=task_id, priority=priority, bulk=bulk, **dict(ask)
    )
    done = await app.queue.command(known.view.pool, Update.PRIORITIZE, command)
    if not done.done:  # it left the queue meanwhile
        raise IllegalStateError(done.detail, await app.tasks.view(task_id))
    return done


# --- events -------------------------------------------------------------------------------------------------------


def last_seen(header: str) -> str:
    """`Last-Event-ID`, from which a broken stream continues. An invalid one starts at the beginning."""
    return header if EVENT_ID.fullmatch(header) else ""


async def event_stream(tasks: TasksClient, task_id: str, after: str) -> AsyncGenerator[bytes]:
    """Server-sent events: every event behind `after`, then those to come, then `end`.

    Only a worker knows the events of a task that has ended. The stream waits for one, so that the last are not lost.
    """
    pause_s, beaten = POLL_S, time.monotonic()
    ended_s: float | None = None
    while True:
        reading = await _audit(tasks, task_id)
        news = [] if reading is None else TaskEvents.of(reading, after).events
        for event in news:
            yield _message(event.event, event.model_dump_json(exclude={"id"}).encode(), event.id)
            after = event.id
        if reading is not None and (not reading.open or reading.view.state in FINAL):
            ended_s = ended_s or time.monotonic()
        if reading is not None and ended_s and (not reading.stale or time.monotonic() - ended_s > LAST_EVENTS_S):
            state = {"state": reading.view.state, "error": reading.view.error, "stale": reading.stale}
            yield _message("end", to_json(state), after)
            return
        if time.monotonic() - beaten > BEAT_S or reading is None:
            beaten = time.monotonic()
            yield b": still here\n\n"
        pause_s = POLL_S if news else min(POLL_MAX_S, pause_s * POLL_GROWTH)
        await asyncio.sleep(pause_s)


async def _audit(tasks: TasksClient, task_id: str) -> TaskReading | None:
    """None: it is not known now. A stream outlives an outage of Temporal."""
    try:
        return await tasks.audit(task_id)
    except EngineError:
        return None


def _message(event: str, data: bytes, number: str) -> bytes:
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (number.encode(), event.encode(), data)


# --- task types ---------------------------------------------------------------------------------------------------


def task_types(catalogue: Catalogue) -> TaskTypes:
    """All types; of one whose flow is broken at least its name and the problem."""
    return TaskTypes(task_types=[_task_type(catalogue, name) for name in catalogue.names()])


def _task_type(catalogue: Catalogue, name: str) -> TaskTypeOut:
    try:
        loaded = catalogue.flow(name)
        flow = loaded.flow
        policy = catalogue.policy(flow)
    except (FlowError, BadParametersError) as error:
        return TaskTypeOut(name=name, problem=str(error)[:2000])
    return TaskTypeOut(
        name=name,
        about=flow.about,
        app=flow.app or "",
        params={key: ParamOut.of(param) for key, param in flow.params.items() if key != ACCOUNT},
        needs_account=loaded.needs_account,
        policy=policy,
        requires=dict(flow.requires),
        stages=[stage.stage for stage in flow.stages],
    )
