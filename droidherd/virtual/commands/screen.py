"""What is seen and touched: `input`, `screencap`, `wm`, `uiautomator`."""

import re
import struct
from xml.sax.saxutils import quoteattr

import numpy as np

from droidherd.virtual import app, scenes
from droidherd.virtual.app import HerdState
from droidherd.virtual.commands.base import Command, CommandContext
from droidherd.virtual.frames import HEADER_BYTES
from droidherd.virtual.layout import labels, regions
from droidherd.virtual.screenshots import RAW, NoPictureError, png_of, raw_of, with_oddities
from droidherd.virtual.shell.streams import pause
from droidherd.virtual.tables import DENSITY_MIN, PHYSICAL_DENSITY
from droidherd.virtual.wire import Buffer

_KEY_NAMES = {3: "HOME", 4: "BACK", 61: "TAB", 66: "ENTER", 67: "DEL", 82: "MENU", 111: "ESCAPE", 187: "APP_SWITCH"}
_SOURCES = frozenset({"touchscreen", "keyboard", "mouse", "touchpad", "dpad", "gamepad", "trackball"})
SWIPE_LIMIT_MS = 60_000
_DUMP = "/sdcard/window_dump.xml"


async def _input(context: CommandContext) -> int:
    words = context.words
    if words[:1] and words[0] in _SOURCES:
        words = words[1:]
    kinds = {"tap": _tap, "swipe": _swipe, "draganddrop": _swipe, "text": _text, "keyevent": _keyevent}
    if not words or words[0] not in kinds:
        context.complain(f"Error: Unknown command: {words[0] if words else ''}\n")
        return 1
    if not context.emulator.booted:
        context.complain("cmd: Can't find service: input\n")
        return 20
    return await kinds[words[0]](context, words[1:])


async def _tap(context: CommandContext, words: list[str]) -> int:
    numbers = _numbers(words)
    if len(numbers) != 2 or len(words) != 2:  # noqa: PLR2004 - x and y
        return _bad_arguments(context, "tap")
    emulator = context.emulator
    emulator.act(scenes.tap(emulator.app, int(numbers[0]), int(numbers[1]), *emulator.size))
    return 0


async def _swipe(context: CommandContext, words: list[str]) -> int:
    numbers = _numbers(words)
    if len(numbers) not in {4, 5} or len(numbers) != len(words):
        return _bad_arguments(context, "swipe")
    x, y, to_x, to_y = (int(number) for number in numbers[:4])
    duration_ms = min(numbers[4] if len(numbers) > 4 else 300, SWIPE_LIMIT_MS)  # noqa: PLR2004 - the fifth
    await pause(duration_ms / 1000, context.streams.stdout)
    emulator = context.emulator
    if (x, y) == (to_x, to_y):
        emulator.act(scenes.tap(emulator.app, x, y, *emulator.size))
    else:
        emulator.act(scenes.swipe(emulator.app, (x, y), (to_x, to_y), emulator.size[1]))
    return 0


async def _text(context: CommandContext, words: list[str]) -> int:
    if len(words) != 1:
        return _bad_arguments(context, "text")
    emulator = context.emulator
    emulator.act(app.type_text(emulator.app, words[0].replace("%s", " ")))
    return 0


async def _keyevent(context: CommandContext, words: list[str]) -> int:
    names = [word for word in words if not word.startswith("--")]
    if not names:
        return _bad_arguments(context, "keyevent")
    for word in names:
        name = _KEY_NAMES.get(int(word), word) if word.isdecimal() else word.removeprefix("KEYCODE_")
        context.emulator.act(app.key(context.emulator.app, name))
    return 0


def _numbers(words: list[str]) -> list[float]:
    return [float(word) for word in words if re.fullmatch(r"-?\d+(\.\d+)?", word)]


def _bad_arguments(context: CommandContext, kind: str) -> int:
    context.complain(f"Error: Invalid arguments for command: {kind}\n")
    return 255


async def _screencap(context: CommandContext) -> int:
    emulator, faults = context.emulator, context.emulator.faults
    names = [word for word in context.words if not word.startswith("-")]
    png = "-p" in context.words or any(name.endswith(".png") for name in names)
    if faults.take("empty_screencap"):
        return 0
    try:
        data = await (png_of(emulator) if png else raw_of(emulator, RAW))
    except NoPictureError as problem:
        return context.fail(str(problem))
    if faults.has("turned") and not png:
        data = _in_the_panels_position(data)
    data = with_oddities(emulator, data, png=png)
    if faults.take("half_screencap"):
        data = data[: HEADER_BYTES + (len(data) - HEADER_BYTES) // 2]
    if names:
        emulator.files.truncate(context.path(names[0]))
        emulator.files.append(context.path(names[0]), bytes(data))
    else:
        context.streams.stdout.write(data)
    return 0


def _in_the_panels_position(data: Buffer) -> memoryview:
    """As from an emulator whose frames never turn, with a display that is turned by a quarter."""
    width, height = struct.unpack_from("<II", data)
    rows = np.frombuffer(data, np.uint8, offset=HEADER_BYTES).reshape(height, width, 4)
    head = struct.pack("<II", height, width) + bytes(data[8:HEADER_BYTES])
    return memoryview(head + np.rot90(rows, -1).tobytes())


async def _wm(context: CommandContext) -> int:
    words = context.words
    if not context.emulator.booted:
        context.complain("cmd: Can't find service: window\n")
        return 20
    if words[:1] == ["size"]:
        return _wm_size(context, words[1:])
    if words[:1] == ["density"]:
        return _wm_density(context, words[1:])
    context.complain("Window manager (window) commands: size [reset|WxH], density [reset|DENSITY]\n")
    return 255


def _wm_size(context: CommandContext, words: list[str]) -> int:
    window = context.emulator.window
    if not words:
        context.say("Physical size: {}x{}\n".format(*window.physical))
        if window.size != window.physical:
            context.say("Override size: {}x{}\n".format(*window.size))
        return 0
    found = re.fullmatch(r"(\d{1,5})x(\d{1,5})", words[0])
    if words[0] != "reset" and not found:
        context.complain(f"Error: bad size {words[0]}\n")
        return 255
    window.resize((int(found[1]), int(found[2])) if found else None)
    return 0


def _wm_density(context: CommandContext, words: list[str]) -> int:
    window = context.emulator.window
    if not words:
        context.say(f"Physical density: {PHYSICAL_DENSITY}\n")
        context.say("" if window.density == PHYSICAL_DENSITY else f"Override density: {window.density}\n")
        return 0
    if words[0] != "reset" and not re.fullmatch(r"\d{1,5}", words[0]):
        context.complain(f'Error: bad number java.lang.NumberFormatException: For input string: "{words[0]}"\n')
        return 255
    if words[0] != "reset" and int(words[0]) < DENSITY_MIN:
        context.complain(f"Error: density must be >= {DENSITY_MIN}\n")
        return 255
    window.scale(None if words[0] == "reset" else int(words[0]))
    return 0


async def _uiautomator(context: CommandContext) -> int:
    words = [word for word in context.words if word != "--compressed"]
    if words[:1] != ["dump"]:
        context.complain("Usage: uiautomator <subcommand> [options]\n")
        return 1
    if context.emulator.faults.take("ui_fail") or not context.emulator.booted:
        context.complain("ERROR: could not get idle state.\n")
        return 1
    emulator = context.emulator
    package = emulator.focus.partition("/")[0]
    tree = ui_tree(emulator.app, package, emulator.size).encode(errors="replace")
    target = words[1] if len(words) > 1 else _DUMP
    if target == "/dev/tty":
        context.streams.stdout.write(tree)
    else:
        context.emulator.files.truncate(context.path(target))
        context.emulator.files.append(context.path(target), tree)
    context.say(f"UI hierchary dumped to: {target}\n")
    return 0


def ui_tree(state: HerdState, package: str, size: tuple[int, int]) -> str:
    """One node per element that can be tapped now."""
    width, height = size
    words = labels(state)
    nodes: list[str] = []
    for index, (name, box) in enumerate(regions(state, width, height).items()):
        kind = "android.widget.EditText" if name in {"account", "password"} else "android.widget.Button"
        corners = f"[{box.x},{box.y}][{box.x + box.width},{box.y + box.height}]"
        facts = {"index": str(index), "text": words[name], "resource-id": f"{package}:id/{name}", "class": kind}
        focused = str(name == state.field).lower()
        nodes.append(_node({**facts, "package": package, "focused": focused, "bounds": corners}))
    frame = {"class": "android.widget.FrameLayout", "package": package, "bounds": f"[0,0][{width},{height}]"}
    outer = _node(frame, inner="".join(nodes))
    head = "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>"
    return f'{head}<hierarchy rotation="0">{outer}</hierarchy>'


def _node(facts: dict[str, str], *, inner: str = "") -> str:
    whole = {
        "index": "0", "text": "", "resource-id": "", "class": "", "package": "", "content-desc": "",
        "checkable": "false", "checked": "false", "clickable": str("resource-id" in facts).lower(), "enabled": "true",
        "focusable": "true", "focused": "false", "scrollable": "false", "long-clickable": "false", "password": "false",
        "selected": "false", "bounds": "", **facts,
    }  # fmt: skip
    attributes = " ".join(f"{name}={quoteattr(_printable(value))}" for name, value in whole.items())
    return f"<node {attributes}>{inner}</node>" if inner else f"<node {attributes} />"


def _printable(value: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in value)


COMMANDS: dict[str, Command] = {"input": _input, "screencap": _screencap, "uiautomator": _uiautomator, "wm": _wm}
