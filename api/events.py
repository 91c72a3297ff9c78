"""A task's audit as it grows, as server-sent events."""

import asyncio
import re
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
ID = re.compile(r"\d{16}-\d{3}", re.ASCII)


def audit_of(reading: Reading, after: str = "") -> Audit:
    """The events behind `after`."""
    view = reading.view
    events: list[NumberedEvent] = []
    moment, same = 0, 0
    for event in view.events:
        before, moment = moment, int(event.at.timestamp() * 1_000_000)
        same = same + 1 if moment == before else 0
        events.append(NumberedEvent.model_construct(None, id=f"{moment:016d}-{same:03d}", **dict(event)))
    news = [event for event in events if event.id > after]
    return Audit.model_construct(
        task_id=view.task_id, state=view.state, intent=view.intent, events=news, stale=reading.stale
    )


def last_seen(header: str) -> str:
    """`Last-Event-ID`, from which a broken stream goes on. Rubbish starts at the beginning."""
    return header if ID.fullmatch(header) else ""


async def stream(engine: Engine, task_id: str, after: str) -> AsyncGenerator[bytes]:
    """Every event behind `after`, then those to come, then `end`."""
    pause_s, beaten = POLL_S, time.monotonic()
    while True:
        reading = await _heard(engine, task_id)
        news = [] if reading is None else audit_of(reading, after).events
        for event in news:
            yield _message(event.event, event.model_dump_json(exclude={"id"}).encode(), event.id)
            after = event.id
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


def _message(event: str, data: bytes, number: str) -> bytes:
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (number.encode(), event.encode(), data)
