"""Queue and emulators as metrics, read when somebody scrapes."""

import time
from collections import Counter

from api.engine import Engine, EngineError
from droidherd.contracts.queue import QueuePage, QueueQuery
from droidherd.domain.messages import EmulatorState
from droidherd.telemetry import Metrics, Tallied


async def refresh(engine: Engine, pool: str, metrics: Metrics) -> None:
    """Put what the dispatcher says into the gauges. Without an answer they keep their values."""
    try:
        page = await engine.queue(pool, QueueQuery(limit=1))
        await _lanes(engine, pool, page, metrics)
        states = Counter(one.state for one in (await engine.emulators(pool)).emulators)
    except EngineError:
        metrics.engine_up.labels(pool=pool).set(int((await engine.ready()).parts.get("engine") == ""))
        return
    metrics.engine_up.labels(pool=pool).set(1)
    metrics.tallies.show(
        pool,
        [Tallied(t.type, t.completed, t.count - t.completed, t.waited_mean_s * t.count) for t in page.tallies],
    )
    for state in EmulatorState:
        metrics.emulators.labels(pool=pool, state=state).set(states[state])


async def _lanes(engine: Engine, pool: str, page: QueuePage, metrics: Metrics) -> None:
    for lane in page.lanes:
        labels = {"pool": pool, "lane": lane.name}
        metrics.queue.labels(**labels).set(lane.waiting)
        metrics.running.labels(**labels).set(lane.running)
        metrics.capacity.labels(**labels).set(lane.capacity)
        metrics.paused.labels(**labels).set(int(bool(lane.paused_by)))
        head = (await engine.queue(pool, QueueQuery(limit=1, lane=lane.name))).queue if lane.waiting else ()
        metrics.oldest.labels(**labels).set(time.time() - head[0].enqueued_at_ms / 1000 if head else 0)
