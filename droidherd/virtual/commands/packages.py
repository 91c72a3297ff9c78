"""Apps: `pm`, `cmd`, `am`, `monkey`."""

import os
from collections.abc import Mapping

from droidherd.virtual import app
from droidherd.virtual.commands import keyboards
from droidherd.virtual.commands.base import INPUT_LIMIT, Command, CommandContext
from droidherd.virtual.commands.settings import settings
from droidherd.virtual.installed import InstallRefusedError, VirtualPackage

_NOT_BOOTED = 20


async def _pm(context: CommandContext) -> int:
    return await _package(context, context.words)


async def _cmd(context: CommandContext) -> int:
    words = context.words
    if words[:1] == ["package"]:
        return await _package(context, words[1:])
    if words[:1] == ["settings"]:
        return await settings(context, words[1:])
    if words[:1] == ["activity"]:
        return await _activity(context, words[1:])
    context.complain(f"cmd: Can't find service: {words[0] if words else ''}\n")
    return _NOT_BOOTED


async def _package(context: CommandContext, words: list[str]) -> int:
    if not context.emulator.booted:
        context.complain("cmd: Can't find service: package\n")
        return _NOT_BOOTED
    acts = {
        "list": _list, "path": _path, "install": _install, "uninstall": _uninstall, "clear": _clear, "dump": _dump,
        "resolve-activity": _resolve,
    }  # fmt: skip
    if not words or words[0] not in acts:
        context.complain(f"Unknown command: {words[0] if words else ''}\n")
        return 255
    return await acts[words[0]](context, words[1:])


async def _list(context: CommandContext, words: list[str]) -> int:
    if words[:1] == ["features"]:
        context.say("feature:reqGlEsVersion=0x30000\nfeature:android.hardware.touchscreen\n")
        return 0
    if words[:1] != ["packages"]:
        context.complain(f"Error: unknown list type '{words[0] if words else ''}'\n")
        return 255
    table = context.emulator.packages
    chosen = table.third_party() if "-3" in words else table.all()
    part = next((word for word in words[1:] if not word.startswith("-")), "")
    for name, package in chosen.items():
        if "-s" in words and name in table.third_party():
            continue
        if part in name:
            place = f"{package.path}=" if "-f" in words else ""
            version = f" versionCode:{package.version_code}" if "--show-versioncode" in words else ""
            context.say(f"package:{place}{name}{version}\n")
    return 0


async def _path(context: CommandContext, words: list[str]) -> int:
    package = context.emulator.packages.all().get(words[-1]) if words else None
    context.say(f"package:{package.path}\n" if package else "")
    return int(package is None)


async def _install(context: CommandContext, words: list[str]) -> int:
    """From a file, or streamed through standard input with `-S size`."""
    if "-S" in words and words.index("-S") + 1 < len(words):
        data = await _read_stream(context, words[words.index("-S") + 1])
    else:
        names = [word for word in words if not word.startswith("-")]
        if not names:
            context.complain("Error: must either specify a package size or an APK file\n")
            return 1
        try:
            data = context.emulator.files.read(context.path(names[-1]))
        except OSError as problem:
            context.complain(f"Error: Unable to open file: {names[-1]}: {os.strerror(problem.errno or 0)}\n")
            return 255
    if context.emulator.files.full:
        context.say("Failure [INSTALL_FAILED_INSUFFICIENT_STORAGE]\n")
        return 1
    try:
        context.emulator.packages.install(data)
    except InstallRefusedError as problem:
        context.say(f"Failure [{problem}]\n")
        return 1
    context.say("Success\n")
    return 0


async def _read_stream(context: CommandContext, size: str) -> bytes:
    left = min(int(size) if size.isdecimal() else 0, INPUT_LIMIT)
    chunks: list[bytes] = []
    while left > 0 and (data := await context.streams.stdin.read()):
        chunks.append(data)
        left -= len(data)
    return b"".join(chunks)


async def _uninstall(context: CommandContext, words: list[str]) -> int:
    name = words[-1] if words else ""
    emulator = context.emulator
    if not emulator.packages.uninstall(name):
        context.say("Failure [DELETE_FAILED_INTERNAL_ERROR]\n")
        return 1
    if name == app.PACKAGE:
        emulator.act(app.clear(emulator.app))
    context.say("Success\n")
    return 0


async def _clear(context: CommandContext, words: list[str]) -> int:
    name = words[-1] if words else ""
    emulator = context.emulator
    if name not in emulator.packages.all():
        context.say("Failed\n")
        return 1
    if name == app.PACKAGE:
        emulator.act(app.clear(emulator.app))
    context.say("Success\n")
    return 0


async def _dump(context: CommandContext, words: list[str]) -> int:
    context.say(dump_of(context.emulator.packages.all(), words[-1] if words else ""))
    return 0


def dump_of(packages: Mapping[str, VirtualPackage], name: str) -> str:
    """As `pm dump` and `dumpsys package` show a package."""
    package = packages.get(name)
    if package is None:
        return f"Unable to find package: {name}\n"
    return (
        f"Packages:\n  Package [{name}] (7f3a2c1):\n    userId=10101\n"
        f"    codePath={package.path.rpartition('/')[0]}\n"
        f"    versionCode={package.version_code} minSdk=24 targetSdk=33\n    versionName={package.version_name}\n"
        "    flags=[ HAS_CODE ]\n    pkgFlags=[ HAS_CODE ]\n    timeStamp=2024-01-01 00:00:00\n"
        "    firstInstallTime=2024-01-01 00:00:00\n    lastUpdateTime=2024-01-01 00:00:00\n"
        "    signatures=PackageSignatures{1a2b3c version:2, signatures:[00c0ffee], past signatures:[]}\n"
    )


async def _resolve(context: CommandContext, words: list[str]) -> int:
    name = words[-1] if words else ""
    if name == app.PACKAGE and name in context.emulator.packages.all():
        context.say(
            f"priority=0 preferredOrder=0 match=0x108000 specificIndex=-1 isDefault=true\n{name}/{app.ACTIVITY}\n"
        )
        return 0
    context.say("No activity found\n")
    return 0


async def _am(context: CommandContext) -> int:
    return await _activity(context, context.words)


async def _activity(context: CommandContext, words: list[str]) -> int:
    if not context.emulator.booted:
        context.complain("cmd: Can't find service: activity\n")
        return _NOT_BOOTED
    acts = {
        "start": _start,
        "start-activity": _start,
        "force-stop": _force_stop,
        "broadcast": _broadcast,
        "kill": _force_stop,
    }
    if not words or words[0] not in acts:
        context.complain(f"Unknown command: {words[0] if words else ''}\n")
        return 255
    return await acts[words[0]](context, words[1:])


async def _start(context: CommandContext, words: list[str]) -> int:
    values = _intent(words)
    component, package = values.get("-n", ""), values.get("package", "")
    target = component or package
    waits = "-W" in words
    shown = (
        f"cmp={component}" if component else f"act={values.get('-a', '')} cat=[{values.get('-c', '')}] pkg={package}"
    )
    context.say(f"Starting: Intent {{ {shown} }}\n")
    emulator = context.emulator
    if values.get("-c") == "android.intent.category.HOME":
        emulator.act(app.key(emulator.app, "HOME"))
        return 0
    if not _exists(context, component, package):
        context.complain("Error type 3\n" if component else "")
        context.complain(
            f"Error: Activity class {{{target}}} does not exist.\n"
            if component
            else f"Error: Activity not started, unable to resolve Intent {{ {shown} }}\n"
        )
        return 1
    if "-S" in words:
        emulator.act(app.stop(emulator.app))
    already = emulator.app.running and emulator.focus.startswith(app.PACKAGE + "/")
    emulator.act(app.start(emulator.app))
    if already:
        context.complain("Warning: Activity not started, its current task has been brought to the front\n")
    if waits:
        context.say(
            f"Status: ok\nLaunchState: {'HOT' if already else 'COLD'}\nActivity: {app.PACKAGE}/{app.ACTIVITY}\n"
        )
        context.say("TotalTime: 120\nWaitTime: 131\nComplete\n")
    return 0


def _intent(words: list[str]) -> dict[str, str]:
    """Options with their values; what stands alone is the package."""
    valued = {"-n", "-a", "-c", "-d", "-t", "-f", "-p", "--user", "--display", "--activity-clear-task"}
    extras = {"--es": 2, "-e": 2, "--ei": 2, "--ez": 2, "--el": 2, "--ef": 2}
    values: dict[str, str] = {}
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if word in valued and queue:
            values["package" if word == "-p" else word] = queue.pop(0)
        elif word in extras:
            del queue[: extras[word]]
        elif not word.startswith("-"):
            values["package"] = word
    return values


def _exists(context: CommandContext, component: str, package: str) -> bool:
    if app.PACKAGE not in context.emulator.packages.all():
        return False
    if component:
        return component in {f"{app.PACKAGE}/{app.ACTIVITY}", f"{app.PACKAGE}/{app.PACKAGE}{app.ACTIVITY}"}
    return package == app.PACKAGE


async def _force_stop(context: CommandContext, words: list[str]) -> int:
    if not words:
        context.complain('Error: Argument expected after "force-stop"\n')
        return 255
    emulator = context.emulator
    if words[-1] == app.PACKAGE:
        emulator.act(app.stop(emulator.app))
    return 0


async def _broadcast(context: CommandContext, words: list[str]) -> int:
    values = _intent(words)
    context.say(f"Broadcasting: Intent {{ act={values.get('-a', '')} flg=0x400000 }}\n")
    if values.get("-a") == "ADB_INPUT_B64":
        keyboards.receive(context.emulator, words)
    context.say("Broadcast completed: result=0\n")
    return 0


async def _monkey(context: CommandContext) -> int:
    words = context.words
    package = words[words.index("-p") + 1] if "-p" in words[:-1] else ""
    if not _exists(context, "", package):
        context.say("** No activities found to run, monkey aborted.\n")
        return 252
    context.emulator.act(app.start(context.emulator.app))
    context.say("Events injected: 1\n## Network stats: elapsed time=11ms (0ms mobile, 0ms wifi, 11ms not connected)\n")
    return 0


COMMANDS: dict[str, Command] = {"am": _am, "cmd": _cmd, "monkey": _monkey, "pm": _pm}
