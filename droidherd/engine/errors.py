"""What can go wrong when Temporal is asked, and how its client's errors become ours."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from temporalio.service import RPCError, RPCStatusCode

RPC_S = 3.0
"""For what Temporal answers by itself."""

_MISSING = re.compile(r"^workflow not found for ID: (.+)$")
FULL = "exceeded workflow execution limit for signal events"
"""So Temporal says it; there is no status for it."""
UNREAD = "query buffer is full"
"""Of questions that no worker takes: Temporal keeps a few, and says of further ones that they are too many.

It says the same of a schedule, which it looks after itself, when many ask at once: that passes.
"""
_NO_WORKER = frozenset(
    {RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.RESOURCE_EXHAUSTED}
)
_UNANSWERED = {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED}


class EngineError(Exception):
    """Temporal, or a workflow that runs on it, refused or did not answer."""


class UnavailableError(EngineError):
    """Temporal does not answer."""


class RequestFailedError(EngineError):
    """Temporal answered with an error of its own."""


class OverloadedError(EngineError):
    """Temporal answers that it has too much to do."""


class NoWorkerError(EngineError):
    """Temporal answers, but no worker did in time."""


class NotFoundError(EngineError):
    """What was asked about does not exist."""


class FullRunError(EngineError):
    """Temporal takes no more messages for this run of a workflow."""


class UnreadableScheduleError(NotFoundError):
    """There is a schedule of this id, and it is no subscription of ours."""


class IdTakenError(EngineError):
    """The id belongs to another task or subscription."""


class KeyReusedError(EngineError):
    """The same idempotency key came with another request before."""


class MissingKeyError(EngineError):
    """What Temporal keeps is encrypted with a key that this process does not have."""


class NoFrameError(EngineError):
    """The emulator, or its host, gave no frame."""


class CursorError(EngineError):
    """A page cursor that was not made for this list."""


class ScheduleError(EngineError):
    """Temporal refuses the time of a schedule."""


@asynccontextmanager
async def limit_call(seconds: float | None, *, worker: bool = False) -> AsyncGenerator[None]:
    """Limit a call to Temporal in time, and raise its errors as EngineError. `worker`: the answer takes a worker."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        if worker:
            raise NoWorkerError("no worker answered in time") from error
        raise UnavailableError("Temporal does not answer") from error
    except RPCError as error:
        raise translate(error, worker=worker) from error
    except RuntimeError as error:
        # A lazy client that never reached its server raises this, and nothing more specific.
        if "client connect" not in str(error):
            raise
        raise UnavailableError("Temporal cannot be reached") from error


def translate(error: RPCError, *, worker: bool = False) -> EngineError:
    """What an error of the client means to whoever asked."""
    if FULL in error.message:
        return FullRunError("Temporal takes no more messages for this run: it had 10,000 (docs/limits.md)")
    if error.status in {RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT}:
        return NotFoundError(_MISSING.sub(_name_target, error.message))
    if error.status == RPCStatusCode.RESOURCE_EXHAUSTED and not (worker and UNREAD in error.message):
        return OverloadedError("Temporal has too much to do")
    if worker and error.status in _NO_WORKER:
        return NoWorkerError("no worker answered in time")
    if error.status in _UNANSWERED:
        return UnavailableError("Temporal does not answer")
    return RequestFailedError(f"Temporal failed to answer: {error.status.name}")


def _name_target(found: re.Match[str]) -> str:
    """`emulator/e1` → `no emulator e1`: the prefix of a workflow id names the kind; a task's id has none."""
    kind, slash, name = found[1].partition("/")
    return f"no {kind} `{name}`" if slash else f"no task `{kind}`"
