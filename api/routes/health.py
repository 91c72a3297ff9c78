"""For supervisors and Prometheus."""

import os
from typing import Final

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from api.engine import Ready
from api.gauges import refresh
from api.house import Home, House
from api.routes.answers import answer, answers
from api.schemas import Health, Readiness
from droidherd import resources
from droidherd.domain.room import Need, said
from droidherd.telemetry import metrics

router: Final = APIRouter(tags=["health"])


@router.get("/healthz", responses=answers(Health))
async def healthz() -> Response:
    """This process lives."""
    return answer(Health())


@router.get("/readyz", responses={**answers(Readiness), 503: {"model": Readiness}})
async def readyz(house: Home) -> Response:
    """Work can be taken on: engine and dispatcher answer, artifacts can be read, the disks have room."""
    ready = await house.engine.ready()
    parts = Ready({**ready.parts, "artifacts": _artifacts(house), "disk": await run_in_threadpool(_disk, house)})
    return answer(Readiness(ready=parts.good, parts=parts.parts), 200 if parts.good else 503)


@router.get("/metrics", response_class=Response)
async def prometheus(house: Home) -> Response:
    """In Prometheus form."""
    await refresh(house.engine, house.settings.host.pool, metrics)
    await run_in_threadpool(_disk, house)
    return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _disk(house: House) -> str:
    """Of the machine this process runs on."""
    wanted = house.settings.limits.disk_free_bytes
    rooms = resources.rooms(house.settings.places)
    for room in rooms:
        metrics.disk_free.labels(place=room.place).set(room.free_bytes)
    short = Need(house.settings.host.id, wanted).short(rooms)
    return said(short, wanted) if short else ""


def _artifacts(house: House) -> str:
    folder = house.settings.artifact_directory
    readable = not folder.exists() or os.access(folder, os.R_OK | os.X_OK)
    return "" if readable else f"{folder} cannot be read"
