"""The app "Herd" that every virtual emulator carries, as a pure state machine: taps and keys in, a new state out."""

from dataclasses import dataclass, replace
from enum import StrEnum

PACKAGE = "com.example.herd"
ACTIVITY = ".MainActivity"
LAUNCHER_PACKAGE = "com.android.launcher3"
LAUNCHER_ACTIVITY = ".uioverrides.QuickstepLauncher"

ROWS = 20
ROW_PITCH = 96
LIST_TOP = 104
LIST_BOTTOM = 720
SCROLL_MAX = ROWS * ROW_PITCH - (LIST_BOTTOM - LIST_TOP)
FIELD_LIMIT = 64


class Scene(StrEnum):
    BOOT = "boot"
    LAUNCHER = "launcher"
    SIGN_IN = "sign_in"
    CAPTCHA = "captcha"
    HOME = "home"
    LIST = "list"
    DIALOG = "dialog"


@dataclass(frozen=True, slots=True)
class HerdState:
    """What the screen shows and what the app remembers. Everything from `signed_in` on is the app's stored data."""

    scene: Scene = Scene.LAUNCHER
    popup: bool = False
    running: bool = False
    behind: Scene = Scene.HOME
    """Where a running app goes on when it is brought back from the launcher."""
    account: str = ""
    password: str = ""
    field: str = ""
    """The text field that has the focus: `account`, `password` or none."""
    message: str = ""
    scroll: int = 0
    signed_in: str = ""
    gift_taken: bool = False
    claimed: tuple[int, ...] = ()
    taps: int = 0
    """Taps that met something tappable, ever."""
    claims: int = 0
    """Gifts and rewards collected, ever: the effect a repeated task must not repeat."""
    sign_ins: int = 0
    suspicious: bool = False
    """Whoever signs in next has to show first that a person is there. Lasts until somebody did."""


def start(state: HerdState) -> HerdState:
    """Bring the app to the front: where it was when it still runs, else at its first screen."""
    if state.running and state.scene is not Scene.LAUNCHER:
        return state
    if state.running:
        return replace(state, scene=state.behind)
    first = _first(state) if state.signed_in else Scene.SIGN_IN
    return replace(_fresh(state), scene=first, running=True)


def stop(state: HerdState) -> HerdState:
    """Force-stop: the app forgets what it did not store."""
    return replace(_fresh(state), scene=Scene.LAUNCHER, running=False)


def clear(state: HerdState) -> HerdState:
    """`pm clear`: also what it stored is gone. The counters belong to the test, not to the app: they stay."""
    return replace(stop(state), signed_in="", gift_taken=False, claimed=())


def reboot(state: HerdState) -> HerdState:
    """What is left after a restart of the emulator."""
    return replace(stop(state), popup=False)


def press(state: HerdState, name: str) -> HerdState:
    """Tap the region `name` (see `layout.regions`)."""
    if state.popup:
        return _count(replace(state, popup=False)) if name == "close" else state
    if name == "app_icon":
        return _count(start(state))
    if name in {"account", "password"}:
        return _count(replace(state, field=name))
    if name.startswith("claim_"):
        return _claim(_count(state), int(name.removeprefix("claim_")))
    act = _ACTS.get(name)
    return act(_count(state)) if act else state


def type_text(state: HerdState, text: str) -> HerdState:
    """Keyboard input goes to the field that has the focus."""
    if state.popup or state.scene is not Scene.SIGN_IN or not state.field:
        return state
    if state.field == "account":
        return replace(state, account=(state.account + text)[:FIELD_LIMIT])
    return replace(state, password=(state.password + text)[:FIELD_LIMIT])


def key(state: HerdState, name: str) -> HerdState:
    """Key names as in Android, without `KEYCODE_`."""
    if name == "HOME":
        return _home(state)
    if name in {"BACK", "ESCAPE"}:
        return _back(state)
    if name in {"DEL", "ENTER", "TAB"} and state.scene is Scene.SIGN_IN and not state.popup:
        return _edit(state, name)
    return state


def scroll(state: HerdState, distance: int) -> HerdState:
    """Move the list by `distance` (in the units of the layout; positive shows what is further down)."""
    if state.popup or state.scene is not Scene.LIST:
        return state
    return replace(state, scroll=max(0, min(SCROLL_MAX, state.scroll + distance)))


def _first(state: HerdState) -> Scene:
    """Of those who are signed in."""
    return Scene.CAPTCHA if state.suspicious else Scene.HOME


def _fresh(state: HerdState) -> HerdState:
    return replace(state, behind=Scene.HOME, account="", password="", field="", message="", scroll=0)


def _count(state: HerdState) -> HerdState:
    return replace(state, taps=state.taps + 1)


def _sign_in(state: HerdState) -> HerdState:
    if not state.account or not state.password:
        return replace(state, message="Enter account and password")
    return replace(
        _fresh(state),
        scene=_first(state),
        signed_in=state.account,
        gift_taken=False,
        claimed=(),
        sign_ins=state.sign_ins + 1,
    )


def _sign_out(state: HerdState) -> HerdState:
    return replace(_fresh(state), scene=Scene.SIGN_IN, signed_in="", gift_taken=False, claimed=())


def _gift(state: HerdState) -> HerdState:
    if state.gift_taken:
        return replace(state, message="Already collected")
    return replace(state, scene=Scene.DIALOG, message="")


def _ok(state: HerdState) -> HerdState:
    return replace(state, scene=Scene.HOME, gift_taken=True, claims=state.claims + 1, message="Gift collected")


def _claim(state: HerdState, row: int) -> HerdState:
    if row in state.claimed:
        return state
    return replace(state, claimed=tuple(sorted((*state.claimed, row))), claims=state.claims + 1)


def _to_home(state: HerdState) -> HerdState:
    return replace(state, scene=Scene.HOME, message="")


def _to_list(state: HerdState) -> HerdState:
    return replace(state, scene=Scene.LIST, scroll=0, message="")


def _person(state: HerdState) -> HerdState:
    return replace(state, scene=Scene.HOME, suspicious=False)


_ACTS = {
    "sign_in": _sign_in,
    "person": _person,
    "sign_out": _sign_out,
    "gift": _gift,
    "list": _to_list,
    "tab_list": _to_list,
    "tab_home": _to_home,
    "back": _to_home,
    "ok": _ok,
    "cancel": _to_home,
}


def _home(state: HerdState) -> HerdState:
    if state.scene in {Scene.LAUNCHER, Scene.BOOT}:
        return state
    return replace(state, scene=Scene.LAUNCHER, behind=state.scene)


def _back(state: HerdState) -> HerdState:
    if state.popup:
        return replace(state, popup=False)
    if state.scene in {Scene.LIST, Scene.DIALOG}:
        return _to_home(state)
    return _home(state)


def _edit(state: HerdState, name: str) -> HerdState:
    if name == "TAB":
        return replace(state, field="password" if state.field == "account" else "account")
    if name == "ENTER":
        return _sign_in(state) if state.field == "password" else replace(state, field="password")
    if state.field == "account":
        return replace(state, account=state.account[:-1])
    return replace(state, password=state.password[:-1]) if state.field == "password" else state
