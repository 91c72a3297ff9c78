"""`check`: whether the emulator, the app and the sign-in are healthy.

Healthy is an answer; everything else is an error that says what is wrong, all of it at once.
"""

from typing import Annotated, ClassVar

from pydantic import JsonValue, StringConstraints
from typing_extensions import override

from droidherd.domain.errors import CommandFailedError, UnhealthyError
from droidherd.handlers.associate import bound_account
from droidherd.handlers.base import Handler, HandlerContext, Params

FREE_MB_MIN = 200
APP_POLLS, POLL_S = 40, 0.5


class CheckParams(Params):
    """Without an app only the emulator is looked at."""

    app: Annotated[str, StringConstraints(pattern=r"^([A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)+)?$")] = ""
    bound: bool = False
    """Whether the emulator, or the app on it, has to be bound to the task's account (see `associate`)."""
    signed_in: Annotated[str, StringConstraints(max_length=200)] = ""
    """What is on the app's screen only while somebody is signed in: a text, or the id of an element."""


class CheckHandler(Handler[CheckParams]):
    name: ClassVar[str] = "check"
    params = CheckParams

    @override
    def refusal(self, params: CheckParams, account: str) -> str:
        return "is missing: `bound` asks whether the emulator is bound to it" if params.bound and not account else ""

    @override
    def execute(self, ground: HandlerContext, params: CheckParams) -> dict[str, JsonValue]:
        wrong = _emulator(ground)
        if params.app and not wrong:
            wrong = _app(ground, params.app)
        if params.signed_in and not wrong:
            wrong = _sign_in(ground, params.signed_in)
        if params.bound:
            wrong += _binding(ground, params.app)
        for each in wrong:
            ground.note(each)
        if wrong:
            raise UnhealthyError("; ".join(wrong), to=ground.emulator_id, remedy="see the task's log")
        return {"healthy": True}


def _emulator(ground: HandlerContext) -> list[str]:
    wrong: list[str] = []
    if ground.facts.properties().get("sys.boot_completed") != "1":
        wrong.append("it has not booted")
    if not _lists_packages(ground):
        wrong.append("its package manager does not answer")
    window = ground.facts.window()
    if window is None or window.not_responding:
        wrong.append(f"a dialog is in the way: {window.title}" if window else "no window has the focus")
    storage = ground.facts.storage()
    if storage is None or storage.free_kb < FREE_MB_MIN * 1024:
        wrong.append(f"less than {FREE_MB_MIN} MB are free")
    ground.doing.look()  # a picture that is none says so itself
    return wrong


def _lists_packages(ground: HandlerContext) -> bool:
    try:
        return any(each.name == "android" for each in ground.facts.packages())
    except CommandFailedError:
        return False


def _app(ground: HandlerContext, app: str) -> list[str]:
    if not ground.things.read("package", app).there:
        return [f"{app} is not installed"]
    ground.doing.start_app("start", app)
    for _ in range(APP_POLLS):
        if ground.eyes.focus().startswith(f"{app}/"):
            return []
        ground.doing.rest(POLL_S)
    return [f"{app} does not come to the front: {ground.eyes.focus() or 'nothing'} is there"]


def _sign_in(ground: HandlerContext, sign: str) -> list[str]:
    """Screens take a moment to come."""
    last = ""
    for _ in range(APP_POLLS):
        try:
            if sign in ground.facts.labels():
                return []
            last = f"nobody is signed in: {sign} is not on the screen"
        except CommandFailedError as error:
            last = f"the screen cannot be read: {error.what}"
        ground.doing.rest(POLL_S)
    return [last]


def _binding(ground: HandlerContext, app: str) -> list[str]:
    """What holds for the emulator as a whole holds for an app without a binding of its own."""
    bound = bound_account(ground, app) or bound_account(ground, "")
    if bound == ground.account:
        return []
    return [f"{app or 'it'} is bound to {bound or 'nobody'}, not to {ground.account}"]
