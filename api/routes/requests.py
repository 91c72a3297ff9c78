"""The same under the names of the request queue this grew out of: a request is a task."""

from typing import Final

from fastapi import APIRouter

from api.errors import Kind
from api.routes import tasks
from api.routes.answers import answers, body
from api.schemas import Insistence, Precedence, TaskOut
from droidherd.contracts.queue import Ordered

router: Final = APIRouter(prefix="/api/requests", tags=["tasks"])

_REFUSALS: Final = (Kind.NOT_FOUND, Kind.ILLEGAL, Kind.INVALID, Kind.OVERLOADED, Kind.AWAY)

router.add_api_route(
    "/{task_id}/cancel",
    tasks.cancel,
    methods=["POST"],
    responses=answers(TaskOut, *_REFUSALS, also=(202,)),
    openapi_extra=body(Insistence),
)
router.add_api_route(
    "/{task_id}/prioritize",
    tasks.prioritize,
    methods=["POST"],
    responses=answers(Ordered, *_REFUSALS),
    openapi_extra=body(Precedence),
)
