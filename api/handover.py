"""A process that starts with changed settings hands them over to the pool's dispatcher, which runs all along."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator

from api.engine import Engine, EngineError

AGAIN_S = 1.0
AGAIN_MAX_S = 30.0

log = logging.getLogger("droidherd.api")


@contextlib.asynccontextmanager
async def handing_over(engine: Engine) -> AsyncGenerator[None]:
    """Beside everything else: the door opens whether the engine answers or not."""
    telling = asyncio.create_task(hand_over(engine))
    try:
        yield
    finally:
        telling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await telling


async def hand_over(engine: Engine) -> None:
    """Once it is told it is durable; until then again, later each time."""
    wait_s = AGAIN_S
    while True:
        try:
            await engine.configure()
        except EngineError as error:
            log.info("the dispatcher is not told the settings yet: %s", error)
        else:
            return
        await asyncio.sleep(wait_s)
        wait_s = min(wait_s * 2, AGAIN_MAX_S)
