"""A task's audit as it grows, as server-sent events."""

import asyncio
import time
from collections.abc import AsyncGenerator

from pydantic_core import to_json

from api.engine import Engine, EngineError, Reading
from api.schemas import Audit, NumberedEvent
from droidherd.domain.lifecycle import FINAL

POLL_S = 0.3
POLL_MAX_S = 2.0
POLL_GROWTH = 1.5
BEAT_S = 15.0


def audit_of(reading: Reading) -> Audit:
    view = reading.view
    events = [NumberedEvent(id=number, **dict(event)) for number, event in enumerate(view.events, 1)]
    return Audit(task_id=view.task_id, state=view.state, intent=view.intent, events=events, stale=reading.stale)


def last_seen(header: str) -> int:
    """`Last-Event-ID`, from which a broken stream goes on. Rubbish starts at the beginning."""
    return int(header[:9]) if header.isascii() and header.isdigit() else 0


async def stream(engine: Engine, task_id: str, after: int) -> AsyncGenerator[bytes]:
    """Every event behind `after`, then those to come, then `end`."""
    pause_s, beaten = POLL_S, time.monotonic()
    while True:
        reading = await _heard(engine, task_id)
        news = [] if reading is None else audit_of(reading).events[after:]
        for event in news:
            yield _message(event.event, event.model_dump_json(exclude={"id"}).encode(), event.id)
        after += len(news)
        if reading is not None and (not reading.open or reading.view.state in FINAL):
            state = {"state": reading.view.state, "error": reading.view.error, "stale": reading.stale}
            yield _message("end", to_json(state), after)
            return
        if time.monotonic() - beaten > BEAT_S or reading is None:
            beaten = time.monotonic()
            yield b": still here\n\n"
        pause_s = POLL_S if news else min(POLL_MAX_S, pause_s * POLL_GROWTH)
        await asyncio.sleep(pause_s)


async def _heard(engine: Engine, task_id: str) -> Reading | None:
    """None: nobody can tell now. A stream outlives an outage of what it reports on."""
    try:
        return await engine.audit(task_id)
    except EngineError:
        return None


def _message(event: str, data: bytes, number: int) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, event.encode(), data)
