"""Commands that are part of the shell."""

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from droidherd.virtual.shell.conditions import ConditionProblem, ShellCondition
from droidherd.virtual.shell.printf import escapes, printf
from droidherd.virtual.shell.streams import ShellStreams

if TYPE_CHECKING:
    from droidherd.virtual.shell.interpreter import Shell

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ExitShell(Exception):  # noqa: N818 - it carries control, no error
    """`exit`."""

    def __init__(self, rc: int) -> None:
        super().__init__(rc)
        self.rc = rc


class LoopJump(Exception):  # noqa: N818 - it carries control, no error
    """`break` and `continue`."""

    rc = 0

    def __init__(self, levels: int, *, again: bool) -> None:
        super().__init__(levels)
        self.levels = levels
        self.again = again


async def _echo(_shell: "Shell", argv: list[str], streams: ShellStreams) -> int:
    words = argv[1:]
    line_end, interpret = "\n", True
    while words and re.fullmatch("-[neE]+", words[0]):
        options = words.pop(0)
        line_end = "" if "n" in options else line_end
        interpret = interpret if not set(options) & set("eE") else options.rfind("e") > options.rfind("E")
    text = " ".join(words)
    if interpret:
        text, stopped = escapes(text, zero_prefixed=True)
        line_end = "" if stopped else line_end
    streams.say(text + line_end)
    return 0


async def _printf(_shell: "Shell", argv: list[str], streams: ShellStreams) -> int:
    if len(argv) == 1:
        streams.complain("sh: printf: usage: printf format [arguments]\n")
        return 1
    text, rc = printf(argv[1], argv[2:])
    streams.say(text)
    return rc


async def _true(_shell: "Shell", _argv: list[str], _streams: ShellStreams) -> int:
    return 0


async def _false(_shell: "Shell", _argv: list[str], _streams: ShellStreams) -> int:
    return 1


async def _test(shell: "Shell", argv: list[str], _streams: ShellStreams) -> int:
    words = argv[1:]
    if argv[0] == "[" and (not words or words.pop() != "]"):
        raise ConditionProblem("missing ]")
    return int(not ShellCondition(_Files(shell), shell.scope.variables).holds(words))


class _Files:
    """File facts seen from the current directory."""

    def __init__(self, shell: "Shell") -> None:
        self.shell = shell

    def kind(self, path: str) -> str:
        return self.shell.system.files.kind(self.shell.scope.absolute(path)) if path else ""

    def size(self, path: str) -> int:
        return self.shell.system.files.size(self.shell.scope.absolute(path))


async def _cd(shell: "Shell", argv: list[str], streams: ShellStreams) -> int:
    target = argv[1] if len(argv) > 1 else "/"
    path = shell.scope.absolute(target)
    if shell.system.files.kind(path) != "directory":
        streams.complain(f"sh: cd: {target}: No such file or directory\n")
        return 2
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in {"", "."}:
            parts.append(part)
    shell.scope.directory = "/" + "/".join(parts)
    shell.scope.variables["PWD"] = shell.scope.directory
    return 0


async def _pwd(shell: "Shell", _argv: list[str], streams: ShellStreams) -> int:
    streams.say(shell.scope.directory + "\n")
    return 0


async def _export(shell: "Shell", argv: list[str], streams: ShellStreams) -> int:
    for word in argv[1:]:
        name, given, value = word.partition("=")
        if not _NAME.fullmatch(name):
            streams.complain(f"sh: export: {name}: is not an identifier\n")
            return 1
        shell.scope.exported.add(name)
        if given:
            shell.scope.variables[name] = value
    return 0


async def _unset(shell: "Shell", argv: list[str], _streams: ShellStreams) -> int:
    for name in argv[1:]:
        shell.scope.variables.pop(name, None)
        shell.scope.exported.discard(name)
    return 0


async def _exec(shell: "Shell", argv: list[str], streams: ShellStreams) -> int:
    if len(argv) == 1:
        return 0
    raise ExitShell(await shell.execute(argv[1:], streams))


async def _exit(shell: "Shell", argv: list[str], streams: ShellStreams) -> int:
    word = argv[1] if len(argv) > 1 else str(shell.scope.rc)
    if not re.fullmatch(r"-?\d+", word):
        streams.complain(f"sh: exit: {word}: bad number\n")
        raise ExitShell(1)
    raise ExitShell(int(word) & 255)


async def _read(shell: "Shell", argv: list[str], streams: ShellStreams) -> int:
    names = argv[1:]
    raw = names[:1] == ["-r"]
    names = (names[1:] if raw else names) or ["REPLY"]
    line = await streams.stdin.line()
    text = line.decode(errors="surrogateescape").removesuffix("\n")
    if not raw:
        text = re.sub(r"\\(.)", r"\1", text)
    words = text.strip(" \t").split(None, len(names) - 1)
    for index, name in enumerate(names):
        shell.scope.variables[name] = words[index] if index < len(words) else ""
    return int(not line.endswith(b"\n"))


async def _set(shell: "Shell", argv: list[str], streams: ShellStreams) -> int:
    if len(argv) == 1:
        for name, value in sorted(shell.scope.variables.items()):
            streams.say(f"{name}={value}\n")
    elif argv[1] == "--":
        shell.scope.arguments = tuple(argv[2:])
    elif argv[1][0] in "-+":
        streams.complain(f"sh: set: {argv[1]}: the virtual emulator knows no shell options\n")
        return 2
    else:
        shell.scope.arguments = tuple(argv[1:])
    return 0


async def _shift(shell: "Shell", argv: list[str], streams: ShellStreams) -> int:
    count = int(argv[1]) if len(argv) > 1 and argv[1].isdecimal() else 1
    if count > len(shell.scope.arguments):
        streams.complain("sh: shift: nothing to shift\n")
        raise ExitShell(1)
    shell.scope.arguments = shell.scope.arguments[count:]
    return 0


async def _jump(shell: "Shell", argv: list[str], _streams: ShellStreams) -> int:
    levels = int(argv[1]) if len(argv) > 1 and argv[1].isdecimal() else 1
    if not shell.loops:
        return 0
    raise LoopJump(min(max(1, levels), shell.loops), again=argv[0] == "continue")


async def _eval(shell: "Shell", argv: list[str], streams: ShellStreams) -> int:
    return await shell.evaluate(" ".join(argv[1:]), streams)


Builtin: TypeAlias = Callable[["Shell", list[str], ShellStreams], Awaitable[int]]

BUILTINS: dict[str, Builtin] = {
    ":": _true,
    "[": _test,
    "break": _jump,
    "cd": _cd,
    "continue": _jump,
    "echo": _echo,
    "eval": _eval,
    "exec": _exec,
    "exit": _exit,
    "export": _export,
    "false": _false,
    "printf": _printf,
    "pwd": _pwd,
    "read": _read,
    "set": _set,
    "shift": _shift,
    "test": _test,
    "true": _true,
    "unset": _unset,
}
