"""Properties, time, processes, the log, the machine itself."""

import asyncio
import base64
import re
import time

from droidherd.virtual.commands.base import Command, CommandContext, options
from droidherd.virtual.logs import VirtualLogLine
from droidherd.virtual.shell.interpreter import Shell
from droidherd.virtual.shell.streams import PipeClosedError, pause

SLEEP_LIMIT_S = 3600.0
_LOG_LEVELS = "VDIWEF"
_LOG_FORMS = frozenset({"brief", "raw", "tag", "time", "threadtime"})
_LOG_POLL_S = 0.2
_LIVE = ("sys.boot_completed", "dev.bootcomplete", "init.svc.bootanim")


async def _getprop(context: CommandContext) -> int:
    words = context.words
    if words[:1] == ["-T"]:
        words = words[1:]
    if words:
        context.say((context.emulator.prop(words[0]) or (words[1] if len(words) > 1 else "")) + "\n")
        return 0
    known = context.emulator.properties.all()
    live = {name: context.emulator.prop(name) for name in _LIVE}
    for name, value in sorted({**known, **{name: value for name, value in live.items() if value}}.items()):
        context.say(f"[{name}]: [{value}]\n")
    return 0


async def _setprop(context: CommandContext) -> int:
    words = context.words
    if words[:1] == ["--"]:
        words = words[1:]
    elif option := next((word for word in words if re.fullmatch("-[^-].*", word)), ""):
        return context.fail(f"Unknown option '{option[1]}' (see \"setprop --help\")")
    if len(words) != 2:  # noqa: PLR2004 - a name and a value
        return context.fail("usage: setprop NAME VALUE")
    problem = context.emulator.properties.put(*words)
    return context.fail(problem) if problem else 0


async def _date(context: CommandContext) -> int:
    form = next((word[1:] for word in context.words if word.startswith("+")), "%a %b %e %H:%M:%S UTC %Y")
    now = time.time()
    form = form.replace("%s", str(int(now))).replace("%N", f"{int(now * 1e9) % 1_000_000_000:09d}")
    form = form.replace("%e", f"{time.gmtime(now).tm_mday:2d}")
    context.say(time.strftime(form, time.gmtime(now)) + "\n")
    return 0


async def _uptime(context: CommandContext) -> int:
    minutes = int(context.emulator.uptime_s) // 60
    clock = time.strftime("%H:%M:%S", time.gmtime())
    context.say(f" {clock} up {minutes} min,  0 users,  load average: 0.08, 0.03, 0.01\n")
    return 0


async def _id(context: CommandContext) -> int:
    groups = "1004(input),1007(log),1011(adb),1015(sdcard_rw),1028(sdcard_r),3003(inet)"
    text = f"uid=2000(shell) gid=2000(shell) groups=2000(shell),{groups} context=u:r:shell:s0"
    context.say(("2000" if "-u" in context.words else text) + "\n")
    return 0


async def _whoami(context: CommandContext) -> int:
    context.say("shell\n")
    return 0


async def _sleep(context: CommandContext) -> int:
    seconds = 0.0
    for word in context.words:
        found = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)", word)
        if not found:
            return context.fail(f"bad number '{word}'")
        seconds += float(found.group(1)) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}[found.group(2)]
    await context.streams.stdout.flush()
    await pause(min(seconds, SLEEP_LIMIT_S), context.streams.stdout)
    return 0


_PROCESSES = (
    ("root", 1, "init"), ("system", 612, "system_server"), ("shell", 801, "adbd"),
    ("u0_a9", 1404, "com.android.systemui"), ("u0_a40", 1520, "com.android.launcher3"),
)  # fmt: skip
APP_PID = 2210


def processes(context: CommandContext) -> list[tuple[str, int, str]]:
    running = [("u0_a101", APP_PID, "com.example.herd")] if context.emulator.app.running else []
    return [*_PROCESSES, *running]


async def _ps(context: CommandContext) -> int:
    context.say("USER           PID  PPID     VSZ    RSS WCHAN            ADDR S NAME\n")
    for user, pid, name in processes(context):
        context.say(f"{user:<12} {pid:>5}     1 1234567  65432 0                   0 S {name}\n")
    return 0


async def _pidof(context: CommandContext) -> int:
    found = [str(pid) for _, pid, name in processes(context) if name in context.words]
    if found:
        context.say(" ".join(found) + "\n")
    return int(not found)


async def _kill(context: CommandContext) -> int:
    pids = [word for word in context.words if not word.startswith("-")]
    known = {str(pid) for _, pid, _ in processes(context)}
    for pid in pids:
        if pid not in known:
            return context.fail(f"bad pid '{pid}'" if not pid.isdecimal() else f"{pid}: No such process")
        return context.fail(f"{pid}: Operation not permitted")
    return context.fail("needs 1 argument") if not pids else 0


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
    if form not in _LOG_FORMS:
        return context.fail(f'Invalid parameter "{form}" to -v')
    rules = dict(_log_rule(word) for word in [*rest, *([chosen["s"], "*:S"] if "s" in chosen else [])])
    context.say("--------- beginning of main\n")
    last = _print_log(context, log.since(0)[-_newest(chosen) :], form, rules)
    while not ("d" in chosen or "t" in chosen):
        await context.streams.stdout.flush()
        await log.wait(_LOG_POLL_S)
        if context.streams.stdout.closed():
            raise PipeClosedError
        last = _print_log(context, log.since(last), form, rules) or last
    return 0


def _newest(chosen: dict[str, str]) -> int:
    word = chosen.get("t", "") or chosen.get("T", "")
    return int(word) if word.isdecimal() else 1 << 30


def _log_rule(word: str) -> tuple[str, str]:
    tag, _, level = word.partition(":")
    return tag, level.upper() or "V"


def _print_log(context: CommandContext, lines: list[VirtualLogLine], form: str, rules: dict[str, str]) -> int:
    """The number of the last line seen, or 0."""
    for line in lines:
        least = rules.get(line.tag, rules.get("*", "V"))
        if least != "S" and _LOG_LEVELS.find(line.level) >= _LOG_LEVELS.find(least):
            context.say(line.show(form) + "\n")
    return lines[-1].number if lines else 0


async def _log(context: CommandContext) -> int:
    try:
        chosen, rest = options(context.words, "", "pt")
    except ValueError as problem:
        return context.fail(str(problem))
    context.emulator.log.add(chosen.get("t", "log"), " ".join(rest), chosen.get("p", "i")[:1].upper(), pid=4242)
    return 0


async def _reboot(context: CommandContext) -> int:
    """The machine is gone before the line goes on."""
    context.emulator.record(0, context.argv, 0, effect=True)
    asyncio.get_running_loop().call_soon(context.emulator.on_reboot)
    await asyncio.sleep(0)
    raise PipeClosedError


async def _base64(context: CommandContext) -> int:
    names = [word for word in context.words if not word.startswith("-")]
    found, rc = await context.inputs(names)
    for _, data in found:
        if "-d" in context.words:
            context.streams.stdout.write(base64.b64decode(data, validate=False))
            continue
        text = base64.b64encode(data).decode("ascii")
        context.say("".join(text[at : at + 76] + "\n" for at in range(0, len(text), 76)))
    return rc


async def _env(context: CommandContext) -> int:
    for name, value in sorted(context.environment.items()):
        context.say(f"{name}={value}\n")
    return 0


async def _uname(context: CommandContext) -> int:
    whole = "Linux localhost 5.15.41-android13 #1 SMP PREEMPT x86_64 Toybox"
    parts = {"-r": "5.15.41-android13", "-m": "x86_64", "-n": "localhost", "-a": whole}
    context.say(parts.get((context.words or ["-s"])[0], "Linux") + "\n")
    return 0


async def _which(context: CommandContext) -> int:
    missing = [word for word in context.words if not context.system.knows(word)]
    for word in context.words:
        context.say("" if word in missing else f"/system/bin/{word}\n")
    return int(bool(missing))


async def _getenforce(context: CommandContext) -> int:
    context.say("Enforcing\n")
    return 0


async def _sh(context: CommandContext) -> int:
    words = context.words
    shell = Shell(context.system)
    if words[:1] == ["-c"] and len(words) > 1:
        shell.scope.arguments = tuple(words[3:])
        return await shell.run(words[1], context.streams)
    found, rc = await context.inputs(words[:1])
    shell.scope.arguments = tuple(words[1:])
    return rc or await shell.run(found[0][1].decode(errors="surrogateescape"), context.streams)


COMMANDS: dict[str, Command] = {
    "base64": _base64,
    "date": _date,
    "env": _env,
    "getenforce": _getenforce,
    "getprop": _getprop,
    "id": _id,
    "kill": _kill,
    "log": _log,
    "logcat": _logcat,
    "pidof": _pidof,
    "printenv": _env,
    "ps": _ps,
    "reboot": _reboot,
    "setprop": _setprop,
    "sh": _sh,
    "sleep": _sleep,
    "uname": _uname,
    "uptime": _uptime,
    "which": _which,
    "whoami": _whoami,
}
