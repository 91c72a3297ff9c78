"""The commands behind what hands do, as words for the emulator's shell. Pure."""

import re

from droidherd.adb.quote import input_text, is_plain, quote, typeable
from droidherd.domain.errors import BadParametersError
from droidherd.domain.things import PACKAGE
from droidherd.emulator import keyboard

COORDINATE_LIMIT = 100_000
SWIPE_LIMIT_S = 60.0
NOTHING = "true"
"""An act that only leaves its trace in the journal."""
_KEY = re.compile(r"(?:KEYCODE_)?([A-Z0-9_]{1,40})")
_PACKAGE = re.compile(PACKAGE)
_COMPONENT = re.compile(r"[A-Za-z][A-Za-z0-9_.]*/[A-Za-z0-9_.$]+")


def tap(x: int, y: int) -> str:
    return f"input tap {_coordinate(x)} {_coordinate(y)}"


def swipe(start: tuple[int, int], end: tuple[int, int], duration_s: float) -> str:
    if not 0 <= duration_s <= SWIPE_LIMIT_S:
        raise BadParametersError(f"a swipe of {duration_s} s", remedy=f"at most {SWIPE_LIMIT_S:g} s")
    points = " ".join(_coordinate(value) for value in (*start, *end))
    return f"input swipe {points} {round(duration_s * 1000)}"


def type_text(text: str) -> str:
    """By key presses what has keys; anything else by a keyboard that is told."""
    if is_plain(text):
        return "{ " + input_text(text) + "; }"
    return keyboard.typing(typeable(text))


def key(name: str) -> str:
    """Build a key press from `back`, `KEYCODE_BACK` or a number."""
    found = _KEY.fullmatch(name.upper())
    if found is None:
        raise BadParametersError(f"{name!r} names no key", remedy="say for example back, home, enter, or a key code")
    return f"input keyevent {found[1] if found[1].isdigit() else 'KEYCODE_' + found[1]}"


def start_app(app: str) -> str:
    """`am` reports most failures in words and returns 0."""
    if _COMPONENT.fullmatch(app):
        target = f"-n {quote(app)}"
    else:
        target = f"-a android.intent.action.MAIN -c android.intent.category.LAUNCHER {quote(package(app))}"
    return (
        f'{{ p=$(am start {target} 2>&1); q=$?; echo "$p"; '
        'case "$p" in *Error*|*Exception*|*"Permission Denial"*) if [ $q = 0 ]; then q=1; fi;; esac; exit $q; }'
    )


def stop_app(app: str) -> str:
    return f"am force-stop {quote(package(app.partition('/')[0]))}"


def clear_app(app: str) -> str:
    """`pm` says so in words when it failed."""
    name = quote(package(app.partition("/")[0]))
    return f'{{ p=$(pm clear {name} 2>&1); case "$p" in *Success*) ;; *) echo "$p"; exit 1;; esac; }}'


def package(app: str) -> str:
    if not _PACKAGE.fullmatch(app):
        raise BadParametersError(f"{app!r} names no app", remedy="say for example com.example.game")
    return app


def _coordinate(value: int) -> str:
    if not 0 <= value <= COORDINATE_LIMIT:
        raise BadParametersError(f"{value} is no coordinate on a screen")
    return str(int(value))
