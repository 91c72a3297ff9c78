"""Files and folders."""

import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable

from droidherd.virtual.commands.base import Command, CommandContext, options
from droidherd.virtual.files import FileStat


def _why(problem: OSError) -> str:
    return os.strerror(problem.errno or 0)


async def _ls(context: CommandContext) -> int:
    try:
        chosen, names = options(context.words, "1laAdhrRit")
    except ValueError as problem:
        return context.fail(str(problem))
    files = context.emulator.files
    rc = 0
    for name in names or ["."]:
        path = context.path(name)
        kind = files.kind(path)
        if not kind:
            rc = context.fail(f"{name}: No such file or directory")
        elif kind == "file" or "d" in chosen:
            context.say(_format(name, files.stat(path), long="l" in chosen))
        elif not files.may_list(path):
            rc = context.fail(f"{name}: Permission denied")
        else:
            context.say(f"{name}:\n" if len(names) > 1 else "")
            _show_directory(context, path, chosen)
    return rc


def _show_directory(context: CommandContext, path: str, chosen: dict[str, str]) -> None:
    files = context.emulator.files
    context.say("total 0\n" if "l" in chosen else "")
    names = files.names(path)
    if "t" in chosen:
        names.sort(key=lambda name: -files.changed_s(f"{path}/{name}"))
    hidden = [".", ".."] if "a" in chosen else []
    for name in [*hidden, *(reversed(names) if "r" in chosen else names)]:
        if name.startswith(".") and not {"a", "A"} & set(chosen):
            continue
        context.say(_format(name, files.stat(f"{path}/{name}"), long="l" in chosen))


def _format(name: str, facts: FileStat, *, long: bool) -> str:
    if not long:
        return name + "\n"
    moment = time.strftime("%Y-%m-%d %H:%M", time.gmtime(facts.mtime))
    return f"{stat.filemode(facts.mode)} 1 shell shell {facts.size:>8} {moment} {name}\n"


async def _cat(context: CommandContext) -> int:
    names = context.words
    if names in ([], ["-"]):
        while data := await context.streams.stdin.read():
            context.streams.stdout.write(data)
        return 0
    found, rc = await context.inputs(names)
    for _, data in found:
        context.streams.stdout.write(data)
    return rc


def _each(act: Callable[[CommandContext, str, dict[str, str]], None], known: str, valued: str = "") -> Command:
    """A command that does one thing to each name."""

    async def run(context: CommandContext) -> int:
        try:
            chosen, names = options(context.words, known, valued)
        except ValueError as problem:
            return context.fail(str(problem))
        if not names and "f" not in chosen:
            return context.fail("Needs 1 argument")
        rc = 0
        for name in names:
            try:
                act(context, name, chosen)
            except OSError as problem:
                rc = context.fail(f"'{name}': {_why(problem)}")
        return rc

    return run


def _mkdir(context: CommandContext, name: str, chosen: dict[str, str]) -> None:
    context.emulator.files.make_directory(context.path(name), parents="p" in chosen)


def _rm(context: CommandContext, name: str, chosen: dict[str, str]) -> None:
    recursive = bool({"r", "R"} & set(chosen))
    if "f" in chosen and not context.emulator.files.kind(context.path(name)):
        return
    context.emulator.files.remove(context.path(name), recursive=recursive)


def _rmdir(context: CommandContext, name: str, _chosen: dict[str, str]) -> None:
    context.emulator.files.remove_directory(context.path(name))


def _touch(context: CommandContext, name: str, _chosen: dict[str, str]) -> None:
    context.emulator.files.touch(context.path(name))


def _fsync(context: CommandContext, name: str, _chosen: dict[str, str]) -> None:
    if not context.emulator.files.kind(context.path(name)):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def _two(act: Callable[[CommandContext, str, str], None]) -> Command:
    """A command that brings files to a last name."""

    async def run(context: CommandContext) -> int:
        names = [word for word in context.words if not re.fullmatch(r"-[a-zA-Z]+", word)]
        if len(names) < 2:  # noqa: PLR2004 - from and to
            return context.fail("Needs 2 arguments")
        files = context.emulator.files
        target = context.path(names[-1])
        inside = files.kind(target) == "directory"
        if len(names) > 2 and not inside:  # noqa: PLR2004 - several go into a folder only
            return context.fail(f"'{names[-1]}' not directory")
        rc = 0
        for name in names[:-1]:
            source = context.path(name)
            try:
                act(context, source, f"{target}/{source.rpartition('/')[2]}" if inside else target)
            except OSError as problem:
                rc = context.fail(f"'{name}': {_why(problem)}")
        return rc

    return run


def _mv(context: CommandContext, source: str, target: str) -> None:
    context.emulator.files.rename(source, target)


def _cp(context: CommandContext, source: str, target: str) -> None:
    context.emulator.files.copy(source, target)


async def _chmod(context: CommandContext) -> int:
    words = [word for word in context.words if word != "-R"]
    if len(words) < 2:  # noqa: PLR2004 - a mode and a name
        return context.fail("Needs 2 arguments")
    mode = int(words[0], 8) if re.fullmatch("[0-7]{1,4}", words[0]) else 0o755 if words[0].endswith("+x") else 0o644
    rc = 0
    for name in words[1:]:
        try:
            context.emulator.files.chmod(context.path(name), mode)
        except OSError as problem:
            rc = context.fail(f"'{name}': {_why(problem)}")
    return rc


async def _stat(context: CommandContext) -> int:
    try:
        chosen, names = options(context.words, "Lt", "c")
    except ValueError as problem:
        return context.fail(str(problem))
    rc = 0
    for name in names:
        try:
            facts = context.emulator.files.stat(context.path(name))
        except OSError as problem:
            rc = context.fail(f"'{name}': {_why(problem)}")
            continue
        fields = {
            "%s": str(facts.size), "%n": name, "%a": f"{stat.S_IMODE(facts.mode):o}", "%Y": str(facts.mtime),
            "%F": "directory" if stat.S_ISDIR(facts.mode) else "regular file", "%U": "shell", "%G": "shell",
        }  # fmt: skip
        form = chosen.get("c", "  File: %n\n  Size: %s\tAccess: (%a)\t%F\nModify: %Y")
        context.say(re.sub("%[a-zA-Z]", lambda found: fields.get(found.group(), found.group()), form) + "\n")  # noqa: B023
    return rc


async def _df(context: CommandContext) -> int:
    full = context.emulator.files.full
    used, free, share = (8_126_464, 0, 100) if full else (1_024_000, 7_102_464, 13)
    context.say("Filesystem     1K-blocks    Used Available Use% Mounted on\n")
    context.say(f"/dev/block/dm-5  8126464 {used:>7} {free:>9} {share:>3}% /data\n")
    return 0


async def _du(context: CommandContext) -> int:
    names = [word for word in context.words if not word.startswith("-")] or ["."]
    for name in names:
        context.say(f"{_weight(context, context.path(name)) // 1024}\t{name}\n")
    return 0


def _weight(context: CommandContext, path: str) -> int:
    files = context.emulator.files
    if files.kind(path) != "directory":
        return files.size(path)
    return 4096 + sum(_weight(context, f"{path}/{name}") for name in files.names(path))


def _digest(algorithm: str) -> Command:
    async def run(context: CommandContext) -> int:
        brief = "-b" in context.words
        found, rc = await context.inputs([word for word in context.words if word != "-b"])
        for name, data in found:
            value = hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()
            context.say(value + ("" if brief else f"  {name}") + "\n")
        return rc

    return run


COMMANDS: dict[str, Command] = {
    "cat": _cat,
    "chmod": _chmod,
    "cp": _two(_cp),
    "df": _df,
    "du": _du,
    "ls": _ls,
    "md5sum": _digest("md5"),
    "mkdir": _each(_mkdir, "pv", "m"),
    "mv": _two(_mv),
    "rm": _each(_rm, "rfRiv"),
    "rmdir": _each(_rmdir, "p"),
    "sha1sum": _digest("sha1"),
    "sha256sum": _digest("sha256"),
    "stat": _stat,
    "fsync": _each(_fsync, "d"),
    "sync": _each(lambda _context, _name, _chosen: None, "f"),
    "touch": _each(_touch, "acm"),
}
