"""Emulators and task types."""

import secrets
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from api.bodies import optional
from api.errors import Kind, ProblemError
from api.files import GUARDED
from api.house import Caller, Home, plain
from api.routes.answers import answer, answers, body
from api.schemas import ParamOut, TaskTypeOut, TaskTypes, Wish
from api.signing import signed
from droidherd.contracts.fleet import CareAction, CareOrder, EmulatorView
from droidherd.contracts.queue import EmulatorsPage, Ordered
from droidherd.domain import ids
from droidherd.domain.errors import BadParametersError, FlowError
from droidherd.domain.messages import EmulatorState
from droidherd.flows.catalogue import Catalogue
from droidherd.flows.params import Param

router: Final = APIRouter(prefix="/api")

Name = Annotated[str, Query(pattern=ids.OPTIONAL)]
_READ: Final = (Kind.NOT_FOUND, Kind.INVALID, Kind.AWAY)


@router.get("/emulators", tags=["emulators"], responses=answers(EmulatorsPage, *_READ))
async def emulators(house: Home, pool: Name = "", state: EmulatorState | None = None) -> Response:
    """Every emulator of a pool: state, who holds it, where it is."""
    page = await house.engine.emulators(pool or house.settings.host.pool)
    found = tuple(one for one in page.emulators if state is None or one.state == state)
    return answer(page.model_copy(update={"emulators": found}))


@router.get("/emulators/{emulator_id}", tags=["emulators"], responses=answers(EmulatorView, *_READ))
async def emulator(house: Home, emulator_id: str) -> Response:
    """One emulator, as it sees itself."""
    return answer(await house.engine.emulator(plain(emulator_id, "emulator")))


@router.get(
    "/emulators/{emulator_id}/frame",
    tags=["emulators"],
    response_class=Response,
    responses={
        200: {"content": {"image/jpeg": {}}},
        **answers(EmulatorView, Kind.NOT_FOUND, Kind.NO_FRAME, Kind.SILENT, Kind.AWAY),
    },
)
async def frame(house: Home, emulator_id: str) -> Response:
    """What it shows now, as JPEG; when that was stands in `Droidherd-Taken-At`."""
    shown = await house.live.frame(plain(emulator_id, "emulator"))
    headers = {
        **GUARDED,
        "cache-control": "no-store",
        "droidherd-taken-at": shown.taken.taken_at.isoformat(timespec="milliseconds"),
        "droidherd-taken-by": shown.taken.by,
    }
    return Response(shown.content, headers=headers, media_type="image/jpeg")


@router.post(
    "/emulators/{emulator_id}/{action}",
    tags=["emulators"],
    responses=answers(Ordered, *_READ, Kind.REFUSED),
    openapi_extra=body(Wish),
)
async def care(house: Home, emulator_id: str, action: CareAction, caller: Caller, request: Request) -> Response:
    """`restart` it; `recover`: up the ladder from the start; `quarantine` and `release`; `drain` and `undrain`."""
    wish = signed(await optional(Wish, request), caller)
    order = CareOrder(action=action, actor=wish.actor, reason=wish.reason, request_id=secrets.token_hex(12))
    done = await house.engine.care(plain(emulator_id, "emulator"), order)
    if not done.done:
        raise ProblemError(Kind.REFUSED, done.detail)
    return answer(done)


@router.get("/task-types", tags=["task types"], responses=answers(TaskTypes))
async def task_types(house: Home) -> Response:
    """What can be submitted, with which parameters, under which policy."""
    return answer(await run_in_threadpool(_task_types, house.catalogue))


def _task_types(catalogue: Catalogue) -> TaskTypes:
    return TaskTypes(task_types=[_task_type(catalogue, name) for name in catalogue.names()])


def _task_type(catalogue: Catalogue, name: str) -> TaskTypeOut:
    try:
        flow = catalogue.flow(name).flow
        policy = catalogue.policy(flow)
    except (FlowError, BadParametersError) as error:
        return TaskTypeOut(name=name, problem=str(error)[:2000])
    return TaskTypeOut(
        name=name,
        about=flow.about,
        app=flow.app or "",
        params={key: _param(param) for key, param in flow.params.items()},
        policy=policy,
        requires=dict(flow.requires),
        stages=[stage.stage for stage in flow.stages],
    )


def _param(param: Param) -> ParamOut:
    return ParamOut(
        type=param.type,
        required=param.default is None,
        default=param.default,
        about=param.about,
        min=param.min,
        max=param.max,
        pattern=param.pattern,
        format=param.format,
        choices=list(param.choices) if param.choices else None,
    )
