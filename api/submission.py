"""From the body of a submission to a request that can be started, and from the verdict to the answer."""

import hashlib
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from api.bodies import parsed, refuse_odd_numbers
from api.engine import Engine, Request, Submitted
from api.errors import Kind, ProblemError, invalid
from api.schemas import Submission, Submit
from droidherd.contracts.tasks import Admission
from droidherd.domain import ids
from droidherd.domain.errors import BadParametersError
from droidherd.domain.lifecycle import TaskState
from droidherd.flows.catalogue import Catalogue

KEY_MAX = 255
HEAD_MAX = 54
START_WITHIN = timedelta(days=366)

REASONS: Mapping[str, Kind] = {"queue_full": Kind.QUEUE_FULL, "cannot_be_satisfied": Kind.UNSATISFIABLE}
"""What the dispatcher says no with. Every other reason names a task that holds the place."""
WORDS: Mapping[str, str] = {
    "queue_full": "as many tasks wait as the pool takes; come again when some of them ran",
    "cannot_be_satisfied": "no emulator of the pool is what the task requires: `GET /api/emulators` shows all",
    "duplicate": "the same type is in line for this account; wait for it, or submit with `on_busy: queue`",
    "account_running": "a task of this account runs; wait for it, or submit with `on_busy: queue`",
}


async def prepared(raw: bytes, key: str, catalogue: Catalogue, engine: Engine, pool: str) -> Request:
    """Judge a submission by everything that can be known before it is started."""
    submit = parsed(Submit, raw)
    refuse_odd_numbers(submit.params, "params")
    if "pool" not in submit.model_fields_set:
        submit = submit.model_copy(update={"pool": pool})
    # The worker plans with the same operation; here it only says no early.
    catalogue.plan(submit.type, submit.params, submit.policy, submit.account)
    _check_times(submit, datetime.now(UTC), repeatable=bool(key))
    task_id, key_digest = _identity(submit, key)
    _check_chain(submit, task_id, catalogue)
    if submit.pool != pool and not await engine.knows_pool(submit.pool):
        raise invalid("pool", f"there is no pool {submit.pool}")
    if submit.emulator and not await engine.knows_emulator(submit.emulator):
        raise invalid("emulator", f"there is no emulator {submit.emulator}")
    digest = hashlib.sha256(submit.model_dump_json().encode()).hexdigest()[:32]
    ask_id = f"{key_digest}-{digest}" if key_digest else secrets.token_hex(16)
    return Request(task_id=task_id, spec=submit, digest=digest, key=key_digest, ask_id=ask_id)


def answer_of(submitted: Submitted) -> Submission:
    """The good answer; a refusal is raised."""
    verdict = submitted.admission
    if verdict is None:
        return Submission(id=submitted.task_id, state=TaskState.PENDING, verdict=False)
    if verdict.state == TaskState.REJECTED:
        raise _refusal(verdict)
    if verdict.state == TaskState.FAILED:
        raise ProblemError(Kind.REFUSED, verdict.reason or "the task failed at once", task=verdict.task_id)
    return Submission(
        id=submitted.task_id,
        state=verdict.state,
        position=verdict.position,
        why=verdict.reason,
    )


def _refusal(verdict: Admission) -> ProblemError:
    kind = REASONS.get(verdict.reason, Kind.PLACE_TAKEN)
    members = {"task": verdict.task_id, "reason": verdict.reason}
    if verdict.holder:
        members["holder"] = verdict.holder
    problem = ProblemError(kind, WORDS.get(verdict.reason, ""))
    problem.more = members
    return problem


def _check_times(submit: Submit, now: datetime, *, repeatable: bool) -> None:
    """A request with a key may be the repeat of one that came in time: whether it is too late says the task."""
    if submit.not_before is not None and submit.not_before > now + START_WITHIN:
        raise invalid("not_before", f"at most {START_WITHIN.days} days from now")
    if submit.expires_at is not None:
        if submit.expires_at <= now and not repeatable:
            raise invalid("expires_at", "is over already")
        if submit.not_before is not None and submit.expires_at <= submit.not_before:
            raise invalid("expires_at", "must be later than not_before")


def _check_chain(submit: Submit, task_id: str, catalogue: Catalogue) -> None:
    """What follows is judged like what comes first."""
    if submit.chain is not None:
        raise invalid("chain", "is said by the task before; name what follows in `then`")
    if submit.then and len(task_id) > HEAD_MAX:
        raise invalid("id", f"at most {HEAD_MAX} characters when tasks follow: they are named after it")
    for at, link in enumerate(submit.then):
        try:
            refuse_odd_numbers(link.params, "params")
            catalogue.plan(link.type, link.params, link.policy, submit.account)
        except BadParametersError as error:
            raise invalid(f"then.{at}", error.what) from error


def _identity(submit: Submit, key: str) -> tuple[str, str]:
    """The task's id, and the digest of the idempotency key."""
    if key and not (len(key) <= KEY_MAX and key.isascii() and key.isprintable()):
        raise invalid("Idempotency-Key", f"must be 1 to {KEY_MAX} visible ASCII characters")
    digest = hashlib.sha256(f"droidherd {key}".encode()).hexdigest()[:32] if key else ""
    if submit.id is not None:
        return own_id(submit.id), digest
    return (f"k-{digest}" if digest else _new_id()), digest


def own_id(text: str, most: int = ids.ID_MAX) -> str:
    """An id that somebody chose, judged by the one rule there is."""
    if problem := ids.id_problem(text, most):
        raise invalid("id", problem)
    return text


def _new_id() -> str:
    """Sorts by time, short enough to type."""
    return f"t-{time.time_ns() // 1_000_000:011x}-{secrets.token_hex(4)}"
