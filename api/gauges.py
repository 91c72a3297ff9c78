"""Queue and emulators as metrics, read when somebody scrapes."""

import time
from collections import Counter

from api.engine import Engine, EngineError
from droidherd.contracts.queue import LaneView, QueuePage, QueueQuery, Times, TypeStats
from droidherd.domain.messages import EmulatorState
from droidherd.telemetry import Metrics, Spread, Tallied


async def refresh(engine: Engine, pool: str, metrics: Metrics) -> None:
    """Put what the dispatcher says into the gauges. Without an answer they keep their values."""
    try:
        page = await engine.queue(pool, QueueQuery(limit=1))
        await _lanes(engine, pool, page, metrics)
        states = Counter(one.state for one in (await engine.emulators(pool)).emulators)
        stats = await engine.stats(pool)
    except EngineError:
        metrics.engine_up.labels(pool=pool).set(int((await engine.ready()).parts.get("engine") == ""))
        return
    metrics.engine_up.labels(pool=pool).set(1)
    metrics.tallies.show(pool, [_tallied(one, stats.bounds_s) for one in stats.types])
    for state in EmulatorState:
        metrics.emulators.labels(pool=pool, state=state).set(states[state])


def _tallied(one: TypeStats, bounds_s: tuple[float, ...]) -> Tallied:
    outcomes = {"completed": one.completed, "failed": one.failed, "retried": one.retries, "cancelled": one.cancelled}
    return Tallied(one.type, outcomes, _spread(one.run, bounds_s), _spread(one.wait, bounds_s))


def _spread(times: Times, bounds_s: tuple[float, ...]) -> Spread:
    return Spread(times.count, times.seconds, bounds_s, times.buckets)


async def _lanes(engine: Engine, pool: str, page: QueuePage, metrics: Metrics) -> None:
    """A lane that is no more says nothing any more: names come from submitters, and there is no end of them."""
    heads = {lane.name: await _head_ms(engine, pool, lane) for lane in page.lanes}
    for gauge in (metrics.queue, metrics.running, metrics.capacity, metrics.paused, metrics.oldest):
        gauge.clear()
    for lane in page.lanes:
        labels = {"pool": pool, "lane": lane.name}
        since_ms = heads[lane.name]
        metrics.queue.labels(**labels).set(lane.waiting)
        metrics.running.labels(**labels).set(lane.running)
        metrics.capacity.labels(**labels).set(lane.capacity)
        metrics.paused.labels(**labels).set(int(bool(lane.paused_by)))
        metrics.oldest.labels(**labels).set(time.time() - since_ms / 1000 if since_ms else 0)


async def _head_ms(engine: Engine, pool: str, lane: LaneView) -> int:
    """Since when its head waits; 0: nobody does."""
    rows = (await engine.queue(pool, QueueQuery(limit=1, lane=lane.name))).queue if lane.waiting else ()
    return rows[0].enqueued_at_ms if rows else 0
