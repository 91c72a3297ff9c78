"""The commands behind what hands do, as words for the emulator's shell. Pure.

`input text` sends key presses, and most characters have no key. Any other text goes through an input method that
commits a text it is sent: ADBKeyBoard, whose broadcast is spoken here. It is the current keyboard only while it types.
The keyboard before is written down on the emulator first, so that the next one to release the emulator can restore it.
"""

import base64
import re

from droidherd.adb.quote import input_text, is_plain, quote, typeable
from droidherd.domain.errors import BadParametersError
from droidherd.domain.task.things import OWN_FOLDER, PACKAGE

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
    return type_by_keyboard(typeable(text))


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


KEYBOARD = "com.android.adbkeyboard/.AdbIME"
TYPING_S = 10.0
"""How long changing the keyboard, waiting for it and restoring the old one may take."""
LOOKS = 20
LOOK_EVERY_S = 0.1
NO_KEYBOARD = 3
NOT_SHOWN = 4
NOT_TAKEN = 5

_CURRENT = "$(settings get secure default_input_method)"


def type_by_keyboard(text: str, root: str = OWN_FOLDER) -> str:
    """Type a text of any characters into the field that has the focus, with the keyboard as it was afterwards."""
    content = base64.b64encode(text.encode()).decode()
    return (
        f"{{ k={quote(KEYBOARD)}; w={quote(_note(root))}\n"
        f"{_must_be_there()}{_take(root)}"
        f'b=$(am broadcast -a ADB_INPUT_B64 -p "${{k%%/*}}" --es msg {quote(content)} 2>&1)\n'
        f"{_restore_keyboard()}"
        'case "$b" in *"Broadcast completed"*) ;;\n'
        f"*) echo 'the keyboard did not take the text'; exit {NOT_TAKEN};; esac; }}"
    )


def restore_keyboard(root: str = OWN_FOLDER) -> str:
    """Restore the keyboard that was there before. A line of its own that cannot fail; it may be repeated."""
    return f"k={quote(KEYBOARD)}; w={quote(_note(root))}\n{_restore_keyboard()}"


def _note(root: str) -> str:
    """Where the keyboard before is written down, and whether ours was enabled for this."""
    return f"{root}/keyboard"


def _must_be_there() -> str:
    name = KEYBOARD.partition("/")[0]
    return (
        "n='\n'\n"
        'case "$n$(ime list -a -s)$n" in *"$n$k$n"*) ;;\n'
        f"*) echo 'no keyboard here types text beyond ASCII: install ADBKeyBoard ({name}) on this emulator'\n"
        f"exit {NO_KEYBOARD};; esac\n"
    )


def _take(root: str) -> str:
    """Make ours the current one, and wait until a text field has it."""
    return (
        f'p={_CURRENT}; e=; case "$n$(ime list -s)$n" in *"$n$k$n"*) ;; *) e=new;; esac\n'
        f'if [ ! -s "$w" ]; then mkdir -p {quote(root)} && echo "$p $e" >"$w" || exit 1; fi\n'
        'ime enable "$k" >/dev/null 2>&1; ime set "$k" >/dev/null 2>&1\n'
        "i=0; while :; do\n"
        "d=$(dumpsys input_method)\n"
        # Which of these names stands there, and with or without a first letter, depends on the version.
        'case "$d" in *urId="$k"*|*urMethodId="$k"*|*electedMethodId="$k"*)\n'
        'case "$d" in *InputShown=true*|*InputViewShown=true*) break;; esac;; esac\n'
        f"i=$((i + 1)); if [ $i -ge {LOOKS} ]; then\n{_restore_keyboard()}"
        "echo 'the keyboard is not shown: no text field has the focus, or show_ime_with_hard_keyboard is off'\n"
        f"exit {NOT_SHOWN}; fi\nsleep {LOOK_EVERY_S}\ndone\n"
    )


def _restore_keyboard() -> str:
    """Where the keyboard before is gone meanwhile, Android chooses."""
    return (
        'if [ -s "$w" ]; then\n'
        'read p e <"$w"; ime set "$p" >/dev/null 2>&1\n'
        f'if [ "{_CURRENT}" != "$p" ]; then ime reset >/dev/null 2>&1; fi\n'
        'if [ "$e" = new ]; then ime disable "$k" >/dev/null 2>&1; fi\n'
        'rm -f "$w"\n'
        "fi\n"
    )
