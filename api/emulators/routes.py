"""Emulators: list, read, look at, command."""

import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Self

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from api.answers import answer, answers, body
from api.bodies import ActionRequest, optional, with_actor
from api.errors import Kind, ProblemError
from api.queue.schemas import NOT_ALL
from api.state import App, Caller, path_id
from api.tasks.files import GUARDED
from api.tasks.filters import Name
from droidherd.contracts.fleet import ControlAction, EmulatorControl, EmulatorView
from droidherd.contracts.queue import CommandResult
from droidherd.domain import ids
from droidherd.domain.messages import EmulatorStatus

router: Final = APIRouter(prefix="/api/emulators", tags=["emulators"])

COMMANDS: Final[Mapping[ControlAction, str]] = {
    "restart": "Switch it off and on.",
    "recover": "All recovery steps, from the first.",
    "quarantine": "Grant it to nobody, and leave it as it is.",
    "release": "Take it out of quarantine.",
    "drain": "Grant it to nobody else. What runs there ends.",
    "undrain": "Grant it again.",
}
_READ: Final = (Kind.NOT_FOUND, Kind.INVALID, Kind.UNAVAILABLE)


class EmulatorOut(EmulatorView):
    """An emulator."""

    id: str = ""

    @classmethod
    def of(cls, view: EmulatorView) -> Self:
        return cls.model_construct(None, **{**dict(view), "id": view.emulator_id})


class EmulatorList(BaseModel):
    """Emulators of a pool."""

    emulators: list[EmulatorOut]
    rebuilding: bool = Field(default=False, description=NOT_ALL)


@router.get("", responses=answers(EmulatorList, *_READ))
async def emulators(app: App, pool: Name = "", state: EmulatorStatus | None = None) -> Response:
    """Every emulator of a pool, by id: its state, its task, its address and its last good probe."""
    page = await app.emulators.page(pool or app.pool)
    found = [EmulatorOut.of(one) for one in page.emulators if state is None or one.state == state]
    found.sort(key=lambda one: ids.natural(one.id))
    return answer(EmulatorList.model_construct(emulators=found, rebuilding=page.rebuilding))


@router.get("/{emulator_id}", responses=answers(EmulatorOut, *_READ))
async def emulator(app: App, emulator_id: str) -> Response:
    """One emulator, as its workflow knows it."""
    return answer(EmulatorOut.of(await app.emulators.view(path_id(emulator_id, "emulator"))))


@router.get(
    "/{emulator_id}/frame",
    response_class=Response,
    responses=answers(None, Kind.NOT_FOUND, Kind.NO_FRAME, Kind.NO_WORKER, Kind.UNAVAILABLE, files=("image/jpeg",)),
)
async def frame(app: App, emulator_id: str) -> Response:
    """What it shows now, as JPEG; `Droidherd-Taken-At` says when the frame was taken."""
    shown = await app.frames.of(path_id(emulator_id, "emulator"))
    headers = {
        **GUARDED,
        "cache-control": "no-store",
        "droidherd-taken-at": shown.taken.taken_at.isoformat(timespec="milliseconds"),
        "droidherd-taken-by": shown.taken.by,
    }
    return Response(shown.content, headers=headers, media_type="image/jpeg")


def _command(action: ControlAction) -> Callable[..., Coroutine[Any, Any, Response]]:
    """The route of one command."""

    async def command(app: App, emulator_id: str, caller: Caller, request: Request) -> Response:
        wanted = with_actor(await optional(ActionRequest, request), caller)
        control = EmulatorControl(
            action=action, actor=wanted.actor, reason=wanted.reason, request_id=secrets.token_hex(12)
        )
        done = await app.emulators.command(path_id(emulator_id, "emulator"), control)
        if not done.done:
            raise ProblemError(Kind.REFUSED, done.detail)
        return answer(done)

    return command


for _action, _about in COMMANDS.items():
    router.add_api_route(
        f"/{{emulator_id}}/{_action}",
        _command(_action),
        name=_action,
        methods=["POST"],
        description=_about,
        responses=answers(CommandResult, *_READ, Kind.REFUSED),
        openapi_extra=body(ActionRequest),
    )
