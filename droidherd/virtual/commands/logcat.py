"""`logcat` and `log`."""

from droidherd.virtual.commands.base import Command, CommandContext, options
from droidherd.virtual.logs import VirtualLogLine
from droidherd.virtual.shell.streams import PipeClosedError

_LEVELS = "VDIWEF"
_FORMS = frozenset({"brief", "raw", "tag", "time", "threadtime"})
_POLL_S = 0.2


async def _logcat(context: CommandContext) -> int:
    try:
        chosen, rest = options(context.words, "dcDgL", "vbtTsefm")
    except ValueError as problem:
        return context.fail(str(problem))
    log = context.emulator.log
    if "c" in chosen:
        log.clear()
        return 0
    if "g" in chosen:
        context.say("main: ring buffer is 256 KiB (12 KiB consumed), max entry is 5120 B, max payload is 4068 B\n")
        return 0
    form = chosen.get("v", "threadtime")
    if form not in _FORMS:
        return context.fail(f'Invalid parameter "{form}" to -v')
    rules = dict(_rule(word) for word in [*rest, *([chosen["s"], "*:S"] if "s" in chosen else [])])
    context.say("--------- beginning of main\n")
    last = _print(context, log.since(0)[-_count(chosen) :], form, rules)
    while not ("d" in chosen or "t" in chosen):
        await context.streams.stdout.flush()
        await log.wait(_POLL_S)
        if context.streams.stdout.closed():
            raise PipeClosedError
        last = _print(context, log.since(last), form, rules) or last
    return 0


def _count(chosen: dict[str, str]) -> int:
    word = chosen.get("t", "") or chosen.get("T", "")
    return int(word) if word.isdecimal() else 1 << 30


def _rule(word: str) -> tuple[str, str]:
    tag, _, level = word.partition(":")
    return tag, level.upper() or "V"


def _print(context: CommandContext, lines: list[VirtualLogLine], form: str, rules: dict[str, str]) -> int:
    """The number of the last line seen, or 0."""
    for line in lines:
        least = rules.get(line.tag, rules.get("*", "V"))
        if least != "S" and _LEVELS.find(line.level) >= _LEVELS.find(least):
            context.say(line.show(form) + "\n")
    return lines[-1].number if lines else 0


async def _log(context: CommandContext) -> int:
    try:
        chosen, rest = options(context.words, "", "pt")
    except ValueError as problem:
        return context.fail(str(problem))
    context.emulator.log.add(chosen.get("t", "log"), " ".join(rest), chosen.get("p", "i")[:1].upper(), pid=4242)
    return 0


COMMANDS: dict[str, Command] = {"log": _log, "logcat": _logcat}
