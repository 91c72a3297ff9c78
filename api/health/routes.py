"""Health for supervisors, metrics for Prometheus."""

import os
import time
from collections import Counter
from contextlib import suppress
from datetime import datetime
from typing import Final

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from api.answers import answer, answers
from api.errors import RETRY_AFTER_S
from api.state import App, AppState
from droidherd.contracts.queue import DurationStats, LaneView, QueuePage, QueueQuery, TypeStats
from droidherd.domain.fleet.disk_space import Need, describe
from droidherd.domain.messages import EmulatorStatus
from droidherd.engine.errors import EngineError
from droidherd.engine.queue import QueueClient
from droidherd.processes import resources
from droidherd.telemetry import DurationSample, Metrics, TypeStatsSample, metrics

router: Final = APIRouter(tags=["health"])


class HealthOut(BaseModel):
    status: str = "ok"


class ReadinessOut(BaseModel):
    """Part by part: an empty text is good."""

    ready: bool
    parts: dict[str, str]


@router.get("/healthz", responses=answers(HealthOut))
async def healthz() -> Response:
    """This process is alive."""
    return answer(HealthOut())


@router.get("/readyz", responses={**answers(ReadinessOut), 503: {"model": ReadinessOut}})
async def readyz(app: App) -> Response:
    """Tasks can be submitted: Temporal and the dispatcher answer, artifacts can be read, there is free disk space."""
    disk = await run_in_threadpool(_disk, app)
    parts = {**await app.queue.ready(), "artifacts": _artifacts(app), "disk": disk}
    ready = not any(parts.values())
    headers = {} if ready else {"retry-after": str(RETRY_AFTER_S)}
    return answer(ReadinessOut(ready=ready, parts=parts), 200 if ready else 503, headers=headers)


@router.get("/metrics", response_class=Response, responses=answers(None, files=(CONTENT_TYPE_LATEST,)))
async def prometheus(app: App) -> Response:
    """In Prometheus form."""
    await refresh(app.queue, app.pool, metrics)
    with suppress(EngineError):
        region = app.settings.host.region
        metrics.stuck.labels(region=region).set(len(await app.subscriptions.stuck(region)))
    await run_in_threadpool(_disk, app)
    return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _disk(app: AppState) -> str:
    """Of the machine this process runs on."""
    wanted = app.settings.limits.disk_free_bytes
    found = resources.disk_spaces(app.settings.places)
    for one in found:
        metrics.disk_free.labels(place=one.place).set(one.free_bytes)
    short = Need(app.settings.host.id, wanted).short(found)
    return describe(short, wanted) if short else ""


def _artifacts(app: AppState) -> str:
    folder = app.settings.artifact_directory
    readable = not folder.exists() or os.access(folder, os.R_OK | os.X_OK)
    return "" if readable else f"{folder} cannot be read"


# --- gauges -------------------------------------------------------------------------------------------------------


async def refresh(queue: QueueClient, pool: str, metrics: Metrics) -> None:
    """Put what the dispatcher knows into the gauges. When it does not answer, they keep their values."""
    try:
        page = await queue.page(pool, QueueQuery(limit=1))
        await _lanes(queue, pool, page, metrics)
        states = Counter(one.state for one in (await queue.emulators(pool)).emulators)
        stats = await queue.stats(pool)
    except EngineError:
        metrics.engine_up.labels(pool=pool).set(int((await queue.ready())["engine"] == ""))
        return
    metrics.engine_up.labels(pool=pool).set(1)
    metrics.pool_stats.show(pool, [_sample(one, stats.bounds_s) for one in stats.types])
    for state in EmulatorStatus:
        metrics.emulators.labels(pool=pool, state=state).set(states[state])


def _sample(one: TypeStats, bounds_s: tuple[float, ...]) -> TypeStatsSample:
    outcomes = {"completed": one.completed, "failed": one.failed, "retried": one.retries, "cancelled": one.cancelled}
    return TypeStatsSample(one.type, outcomes, _durations(one.run, bounds_s), _durations(one.wait, bounds_s))


def _durations(stats: DurationStats, bounds_s: tuple[float, ...]) -> DurationSample:
    return DurationSample(stats.count, stats.sum_s, bounds_s, stats.buckets)


async def _lanes(queue: QueueClient, pool: str, page: QueuePage, metrics: Metrics) -> None:
    """Lanes that are gone are removed: submitters name them, so there is no bound on how many there were."""
    heads = {lane.name: await _head(queue, pool, lane) for lane in page.lanes}
    for gauge in (metrics.queue, metrics.running, metrics.capacity, metrics.paused, metrics.oldest):
        gauge.clear()
    for lane in page.lanes:
        labels = {"pool": pool, "lane": lane.name}
        since = heads[lane.name]
        metrics.queue.labels(**labels).set(lane.waiting)
        metrics.running.labels(**labels).set(lane.running)
        metrics.capacity.labels(**labels).set(lane.capacity)
        metrics.paused.labels(**labels).set(int(bool(lane.paused_by)))
        metrics.oldest.labels(**labels).set(time.time() - since.timestamp() if since else 0)


async def _head(queue: QueueClient, pool: str, lane: LaneView) -> datetime | None:
    """When its first waiting task was queued; None: none waits."""
    rows = (await queue.page(pool, QueueQuery(limit=1, lane=lane.name))).queue if lane.waiting else ()
    return rows[0].enqueued_at if rows else None
