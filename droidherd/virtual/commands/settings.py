"""`settings`: system, secure, global."""

from droidherd.virtual.commands.base import Command, CommandContext
from droidherd.virtual.tables import NAMESPACES

_USAGE = "Settings provider (settings) commands: get|put|delete|list [--user USER] NAMESPACE KEY [VALUE]\n"
_COUNTS = {"get": 2, "put": 3, "delete": 2, "list": 1}


async def _settings(context: CommandContext) -> int:
    return await settings(context, context.words)


async def settings(context: CommandContext, words: list[str]) -> int:
    if not context.emulator.booted:
        context.complain("cmd: Can't find service: settings\n")
        return 20
    if "--user" in words[:-1]:
        at = words.index("--user")
        words = words[:at] + words[at + 2 :]
    words = [*words[:3], *words[3:4]] if words[-1:] == ["default"] else words
    verb = words[0] if words else ""
    if len(words) < 1 + _COUNTS.get(verb, 99) or words[1] not in NAMESPACES:
        context.complain(_USAGE)
        return 255
    return _change(context, verb, words[1], words[2:])


def _change(context: CommandContext, verb: str, namespace: str, words: list[str]) -> int:
    table = context.emulator.settings
    if verb == "list":
        for key, value in table.all(namespace).items():
            context.say(f"{key}={value}\n")
    elif verb == "get":
        value = table.get(namespace, words[0])
        context.say(("null" if value is None else value) + "\n")
    elif verb == "put":
        table.put(namespace, words[0], words[1])
    else:
        known = table.put(namespace, words[0], None)
        context.say(f"Deleted {int(known)} rows\n")
    return 0


COMMANDS: dict[str, Command] = {"settings": _settings}
