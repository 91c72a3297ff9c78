"""How the engine is asked: bounded in time, and its silence told in our own words."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from temporalio.service import RPCError, RPCStatusCode

from api import engine as e

_MISSING = re.compile(r"^workflow not found for ID: (.+)$")
_UNHEARD = {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED}


@asynccontextmanager
async def asking(seconds: float | None, *, worker: bool = False) -> AsyncGenerator[None]:
    """Bound a question. `worker`: the engine alone cannot answer it."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        if worker:
            raise e.SilentError("no worker answered in time") from error
        raise e.AwayError("the engine does not answer") from error
    except RPCError as error:
        raise _in_our_words(error, worker=worker) from error
    except RuntimeError as error:
        # A client that never reached its server says so like this, and in no other way.
        if "client connect" not in str(error):
            raise
        raise e.AwayError("the engine cannot be reached") from error


def _named(found: re.Match[str]) -> str:
    """`there is no emulator e1`: what the ids of workflows begin with is what they are."""
    kind, slash, name = found[1].partition("/")
    return f"there is no {kind} {name}" if slash else f"there is no task {kind}"


def _in_our_words(error: RPCError, *, worker: bool) -> e.EngineError:
    if error.status in {RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT}:
        return e.MissingError(_MISSING.sub(_named, error.message))
    if error.status == RPCStatusCode.RESOURCE_EXHAUSTED:
        return e.OverloadedError("the engine has too much to do")
    if worker and error.status in {RPCStatusCode.FAILED_PRECONDITION, RPCStatusCode.DEADLINE_EXCEEDED}:
        return e.SilentError("no worker answered in time")
    if error.status in _UNHEARD:
        return e.AwayError("the engine does not answer")
    return e.BrokenError(f"the engine stumbled: {error.status.name}")
