"""Input methods: `ime`, `dumpsys input_method`, and the broadcast by which one of them is told what to type."""

import base64
import binascii

from droidherd.virtual import app
from droidherd.virtual.app import Scene
from droidherd.virtual.commands.base import Command, CommandContext
from droidherd.virtual.machine import VirtualDevice

OWN = "com.android.inputmethod.latin/.LatinIME"
ADB_KEYBOARD = "com.android.adbkeyboard/.AdbIME"
"""Types what a broadcast tells it; there when its package is installed."""
_CURRENT = ("secure", "default_input_method")
_ENABLED = ("secure", "enabled_input_methods")
_NOT_BOOTED = 20


def installed_keyboards(emulator: VirtualDevice) -> tuple[str, ...]:
    return (OWN, ADB_KEYBOARD) if ADB_KEYBOARD.partition("/")[0] in emulator.packages.all() else (OWN,)


def enabled_keyboards(emulator: VirtualDevice) -> list[str]:
    listed = (emulator.settings.get(*_ENABLED) or OWN).split(":")
    return [name for name in installed_keyboards(emulator) if name in listed]


def current(emulator: VirtualDevice) -> str:
    """One whose package is gone is not current any more."""
    name = emulator.settings.get(*_CURRENT) or OWN
    return name if name in installed_keyboards(emulator) else OWN


def is_shown(emulator: VirtualDevice) -> bool:
    """Whether a text field has the focus, so that the keyboard is on the screen."""
    state = emulator.app
    return emulator.booted and state.scene is Scene.SIGN_IN and bool(state.field) and not state.popup


def receive(emulator: VirtualDevice, words: list[str]) -> None:
    """A broadcast. Nobody hears it but a keyboard that is current and on the screen."""
    if "msg" not in words[:-1] or current(emulator) != ADB_KEYBOARD or not is_shown(emulator):
        return
    try:
        text = base64.b64decode(words[words.index("msg") + 1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return
    emulator.act(app.type_text(emulator.app, text))


def dump(context: CommandContext) -> str:
    emulator = context.emulator
    name, seen = current(emulator), str(is_shown(emulator)).lower()
    return (
        "Current Input Method Manager state:\n  Input Methods: mMethodMapUpdateCount=4\n"
        f"  mCurMethodId={name}\n  mCurSeq=12 mCurClient=ClientState{{9d2}}\n"
        f"  mCurId={name} mHaveConnection=true mBoundToMethod=true mVisibleBound={seen}\n"
        f"  mShowRequested={seen} mShowExplicitlyRequested=false mShowForced=false mInputShown={seen}\n"
    )


async def _ime(context: CommandContext) -> int:
    words = context.words
    if not context.emulator.booted:
        context.complain("cmd: Can't find service: input_method\n")
        return _NOT_BOOTED
    if words[:1] == ["list"]:
        return _list(context, words[1:])
    if words[:1] == ["reset"]:
        context.emulator.settings.put(*_ENABLED, OWN)
        context.emulator.settings.put(*_CURRENT, OWN)
        context.say("Reset current and enabled IMEs for user #0\n")
        return 0
    if len(words) < 2 or words[0] not in {"enable", "disable", "set"}:  # noqa: PLR2004 - a verb and a name
        context.complain(f"Unknown command: {words[0] if words else ''}\n")
        return 255
    if words[1] not in installed_keyboards(context.emulator):
        verb = {"set": "selected"}.get(words[0], f"{words[0]}d")
        context.complain(f"Unknown input method {words[1]} cannot be {verb} for user #0\n")
        return 255
    return _change(context, words[0], words[1])


def _list(context: CommandContext, words: list[str]) -> int:
    emulator = context.emulator
    for name in installed_keyboards(emulator) if "-a" in words else enabled_keyboards(emulator):
        context.say(f"{name}\n" if "-s" in words else f"{name}:\n  mId={name} mSettingsActivityName=null\n")
    return 0


def _change(context: CommandContext, verb: str, name: str) -> int:
    emulator = context.emulator
    listed = enabled_keyboards(emulator)
    if verb == "set":
        if name not in listed:
            context.complain(f"Unknown input method {name} cannot be selected for user #0\n")
            return 255
        emulator.settings.put(*_CURRENT, name)
        context.say(f"Input method {name} selected for user #0\n")
        return 0
    rest = [one for one in listed if one != name]
    emulator.settings.put(*_ENABLED, ":".join([*rest, name] if verb == "enable" else rest))
    if verb == "disable" and emulator.settings.get(*_CURRENT) == name:
        emulator.settings.put(*_CURRENT, OWN)
    already = "already" if (name in listed) == (verb == "enable") else "now"
    context.say(f"Input method {name}: {already} {verb}d for user #0\n")
    return 0


COMMANDS: dict[str, Command] = {"ime": _ime}
