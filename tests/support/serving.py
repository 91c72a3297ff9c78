"""Workers of the engine in tests, that end within bounds."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from temporalio.worker import Worker

SHUTDOWN_S = 30.0


@asynccontextmanager
async def serving(worker: Worker) -> AsyncGenerator[Worker]:
    """As `async with worker`, but its end is waited for only so long.

    The SDK's shutdown was seen to hang once in some ten thousand: a poll for activities that never returned. What the
    test is about has been judged by then.
    """
    await worker.__aenter__()
    try:
        yield worker
    finally:
        ending = asyncio.ensure_future(worker.__aexit__(*sys.exc_info()))
        done, _ = await asyncio.wait([ending], timeout=SHUTDOWN_S)
        if done:
            ending.result()
        else:
            sys.stderr.write(f"the worker of {worker.task_queue} does not end: it is left behind\n")
