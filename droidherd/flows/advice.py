"""What is wrong with a value, in the words of flows, and how it would be right. Pure."""

import re
from collections.abc import Mapping

from droidherd.flows.duration import format_duration
from droidherd.flows.spelling import nearest

EXAMPLES: Mapping[str, str] = {
    "tap": "tap: {image: ok.png}",
    "wait": "wait: {image: ok.png, within: 10s}",
    "key": "key: {name: back}",
    "type": "type: {text: hello}",
    "swipe": "swipe: {from: [50, 80], to: [50, 20]}",
    "frame": "frame: {name: done}",
    "pause": "pause: {for: 2s}",
    "start_app": "start_app: {}, or start_app: {app: com.example.game}",
    "stop_app": "stop_app: {}, or stop_app: {app: com.example.game}",
    "clear_app": "clear_app: {}",
    "repeat": "repeat: {at_most: 10, do: [{tap: {image: ok.png}}]}",
    "use": "use: {flow: sign_in}",
    "goto": "goto: home",
    "then": "then: {image: ok.png, within: 10s}",
    "do": "do: [{tap: {image: ok.png}}]",
    "else": "else: [{tap: {image: ok.png}}]",
    "steps": "steps: [{tap: {image: ok.png}}]",
    "percent": "percent: [50, 50]",
    "from": "from: [50, 80]",
    "to": "to: [50, 20]",
    "area": "area: [0, 0, 50, 100]",
    "recorded": "recorded: 1280x720",
    "offset": "offset: [0, 100]",
    "is": 'is: "yes"; in quotes, also what YAML reads as true, false or a number',
}
_PERCENT = frozenset({"percent", "from", "to", "at", "area", "expect"})
_BOUNDS = {"le": "at most", "ge": "at least", "lt": "less than", "gt": "more than"}
KEYS = frozenset((
    "home", "back", "enter", "del", "tab", "space", "escape", "menu", "search", "power", "sleep", "wakeup",
    "app_switch", "volume_up", "volume_down", "volume_mute", "dpad_up", "dpad_down", "dpad_left", "dpad_right",
    "dpad_center", "page_up", "page_down", "move_home", "move_end", "forward_del", "camera", "notification",
    "media_play", "media_pause", "media_next", "media_previous", "copy", "paste", "cut",
))  # fmt: skip
"""The usual ones: there are some three hundred."""
_COMMENT = re.compile(r"[{\[,][^#'\"]*: #")
"""A value in braces that begins with it."""
_YAML = (
    ("'\\t'", "indent with spaces, not with tabs"),
    ("that cannot start any token", "put it in quotes"),
    ("mapping values are not allowed here", "put text with a colon in quotes, or mend the indentation"),
    ("expected <block end>", "mend the indentation: what belongs together begins in the same column"),
    ("could not find expected ':'", "a colon is missing, or a closing quote"),
)


def out_of_bounds(word: str, written: object, bounds: Mapping[str, object]) -> tuple[str, str] | None:
    """What to say if a value is beyond one of pydantic's bounds. `word` is what stands before it."""
    for bound, words in _BOUNDS.items():
        limit = bounds.get(bound)
        if isinstance(limit, int | float):
            said = format_duration(limit) if isinstance(written, str) and limit else f"{limit:g}"
            fix = "places are in percent of the screen, 0 to 100" if word in _PERCENT else ""
            return f"{written} does not fit, it has to be {words} {said}", fix
    return None


def no_such(value: object, expected: str) -> tuple[str, str]:
    """`expected` is pydantic's list of the words that there are."""
    words = [word.strip("' ") for word in expected.replace(" or ", ", ").split(",")]
    near = nearest(str(value), words)
    return (
        f"there is no {str(value)[:60]!r} here",
        f"did you mean {near}?" if near else f"known are: {', '.join(words)}",
    )


def key_near(name: str) -> str:
    """The usual key that was probably meant by one that is none of them."""
    return "" if name in KEYS else nearest(name, KEYS)


def yaml_fix(what: str, near: str) -> str:
    """How YAML that cannot be read may be mended. `near`: the lines around the place where it stopped."""
    if _COMMENT.search(near):
        return "a # begins a comment: put it in quotes"
    return next((fix for sign, fix in _YAML if sign in what), "")
