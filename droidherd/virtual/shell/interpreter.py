"""Runs parsed lines."""

import os
from collections.abc import Sequence as Words
from dataclasses import replace

from droidherd.virtual.shell.builtins import BUILTINS, ExitShell, LoopJump
from droidherd.virtual.shell.conditions import ConditionProblem
from droidherd.virtual.shell.expand import Expander, ExpansionProblem, Scope
from droidherd.virtual.shell.integers import ArithmeticProblem
from droidherd.virtual.shell.parse import parse
from droidherd.virtual.shell.patterns import compile_pattern
from droidherd.virtual.shell.streams import (
    BufferOutput,
    BytesInput,
    FileOutput,
    LineReader,
    NullOutput,
    ShellOutput,
    ShellStreams,
)
from droidherd.virtual.shell.syntax import (
    AndOr,
    Case,
    For,
    If,
    Loop,
    Node,
    Pipeline,
    Redirect,
    ShellGroup,
    ShellSequence,
    ShellSyntaxError,
    Simple,
)
from droidherd.virtual.shell.system import LimitReachedError, ShellCall, ShellLimits, System

NULL_DEVICE = "/dev/null"
NOT_FOUND = 127


class CannotOpenError(Exception):
    """A redirect failed: the command does not run."""

    def __init__(self, verb: str, path: str, problem: OSError) -> None:
        super().__init__(f"{path}: {verb}: {os.strerror(problem.errno or 0)}")


class Shell:
    """One shell process: its variables live as long as the line."""

    def __init__(self, system: System, limits: ShellLimits | None = None) -> None:
        self.system = system
        self.limits = limits or ShellLimits()
        self.scope = Scope(
            variables={"PATH": "/system/bin", "HOME": "/", "PWD": "/"}, exported={"PATH", "HOME"}, pid=system.pid
        )
        self.depth = 0
        self.loops = 0
        """How many loops surround what runs."""
        self.substitution_rc = 0

    async def run(self, text: str, streams: ShellStreams) -> int:
        """Carry out a line; the return code is the line's."""
        try:
            return await self._tree(parse(text), streams)
        except ExitShell as leaving:
            return leaving.rc
        except (ShellSyntaxError, ExpansionProblem) as problem:
            kind = "syntax error: " if isinstance(problem, ShellSyntaxError) else ""
            streams.complain(f"sh: {kind}{problem}\n")
            return 1
        except (LimitReachedError, RecursionError, ValueError, OverflowError) as problem:
            # The last two: numbers with more digits than are ever converted.
            streams.complain(f"sh: {problem}\n")
            return 2

    async def evaluate(self, text: str, streams: ShellStreams) -> int:
        """`eval`: in this shell, with its variables."""
        return await self._tree(parse(text, self.depth + 1), streams)

    async def _tree(self, node: Node, streams: ShellStreams) -> int:
        self.depth += 1
        if self.depth > self.limits.depth * 4:
            raise LimitReachedError("nested too deeply")
        try:
            rc = await self._node(node, streams)
        finally:
            self.depth -= 1
        self.scope.rc = rc
        return rc

    async def _node(self, node: Node, streams: ShellStreams) -> int:  # noqa: PLR0911 - one line per kind of node
        match node:
            case Simple():
                return await self._simple(node, streams)
            case ShellSequence(nodes):
                rc = 0
                for each in nodes:
                    rc = await self._tree(each, streams)
                return rc
            case AndOr():
                return await self._and_or(node, streams)
            case Pipeline():
                return await self._pipeline(node, streams)
            case If():
                return await self._if(node, streams)
            case Loop() | For():
                return await self._looping(node, streams)
            case Case():
                return await self._case(node, streams)
            case ShellGroup():
                return await self._group(node, streams)

    async def _and_or(self, node: AndOr, streams: ShellStreams) -> int:
        rc = await self._tree(node.first, streams)
        for op, each in node.rest:
            if (rc == 0) == (op == "&&"):
                rc = await self._tree(each, streams)
        return rc

    async def _pipeline(self, node: Pipeline, streams: ShellStreams) -> int:
        """One stage after the other, through buffers: nothing here needs them to run at once."""
        rc = 0
        stdin = streams.stdin
        last = len(node.stages) - 1
        for index, stage in enumerate(node.stages):
            if last == 0:
                rc = await self._tree(stage, streams)
            elif index == last:
                rc = await self._inner(stage, replace(streams, stdin=stdin))
            else:
                buffer = BufferOutput(self.limits.captured_bytes)
                rc = await self._inner(stage, replace(streams, stdin=stdin, stdout=buffer))
                stdin = LineReader(BytesInput(buffer.value()))
        return int(rc == 0) if node.negated else rc

    async def _inner(self, node: Node, streams: ShellStreams) -> int:
        """In a subshell: what it assigns is gone with it, and `exit` ends only it."""
        outer = self.scope
        self.scope = outer.copy()
        try:
            return await self._tree(node, streams)
        except ExitShell as leaving:
            return leaving.rc
        finally:
            self.scope = outer

    async def _if(self, node: If, streams: ShellStreams) -> int:
        for condition, body in node.branches:
            if await self._tree(condition, streams) == 0:
                return await self._tree(body, streams)
        return await self._tree(node.otherwise, streams)

    async def _looping(self, node: Loop | For, streams: ShellStreams) -> int:
        self.loops += 1
        try:
            return await (self._loop(node, streams) if isinstance(node, Loop) else self._for(node, streams))
        finally:
            self.loops -= 1

    async def _loop(self, node: Loop, streams: ShellStreams) -> int:
        rc = 0
        while True:
            self._spend()
            try:
                if (await self._tree(node.condition, streams) == 0) == node.until:
                    return rc
                rc = await self._tree(node.body, streams)
            except LoopJump as jump:
                if self._leaves(jump):
                    return 0

    async def _for(self, node: For, streams: ShellStreams) -> int:
        words: Words[str] = self.scope.arguments
        if node.words is not None:
            words = [field for word in node.words for field in await self._expander(streams).fields(word)]
        rc = 0
        for word in words:
            self._spend()
            self.scope.variables[node.name] = word
            try:
                rc = await self._tree(node.body, streams)
            except LoopJump as jump:
                if self._leaves(jump):
                    return 0
        return rc

    def _leaves(self, jump: LoopJump) -> bool:
        """Whether this loop ends by the jump; a jump to an outer loop goes on."""
        if jump.levels > 1:
            raise LoopJump(jump.levels - 1, again=jump.again)
        return not jump.again

    async def _case(self, node: Case, streams: ShellStreams) -> int:
        expander = self._expander(streams)
        subject = await expander.text(node.subject)
        for patterns, body in node.clauses:
            for pattern in patterns:
                if compile_pattern(await expander.pattern(pattern)).fullmatch(subject):
                    return await self._tree(body, streams)
        return 0

    async def _group(self, node: ShellGroup, streams: ShellStreams) -> int:
        try:
            inside, _ = await self._redirect(node.redirects, streams)
        except CannotOpenError as problem:
            streams.complain(f"sh: {problem}\n")
            return 1
        run = self._inner if node.subshell else self._tree
        return await run(node.body, inside)

    async def _simple(self, node: Simple, streams: ShellStreams) -> int:
        self._spend()
        self.substitution_rc = 0
        expander = self._expander(streams)
        argv = [field for word in node.words for field in await expander.fields(word)]
        try:
            inside, wrote = await self._redirect(node.redirects, streams)
        except CannotOpenError as problem:
            streams.complain(f"sh: {problem}\n")
            return 1
        if not argv:
            for name, word in node.assigns:
                self.scope.variables[name] = await expander.text(word)
            return self.substitution_rc
        assigned = {name: await expander.text(word) for name, word in node.assigns}
        return await self._run_watched(tuple(argv), assigned, inside, wrote=wrote)

    async def _run_watched(
        self, argv: tuple[str, ...], assigned: dict[str, str], streams: ShellStreams, *, wrote: bool
    ) -> int:
        """Run one simple command; the system sees it before and after."""
        await self.system.before(argv)
        before = {name: self.scope.variables.get(name) for name in assigned}
        self.scope.variables.update(assigned)
        try:
            rc = await self.execute(argv, streams, assigned)
        except (ExitShell, LoopJump) as leaving:
            await self.system.after(argv, leaving.rc, wrote=wrote)
            raise
        for name, value in before.items():
            self.scope.variables.update({} if value is None else {name: value})
            if value is None:
                self.scope.variables.pop(name, None)
        await self.system.after(argv, rc, wrote=wrote)
        return rc

    async def execute(self, argv: Words[str], streams: ShellStreams, assigned: dict[str, str] | None = None) -> int:
        """A built-in or a command of the system."""
        name = argv[0]
        try:
            if builtin := BUILTINS.get(name):
                return await builtin(self, list(argv), streams)
            if not self.system.knows(name):
                streams.complain(f"sh: {name}: inaccessible or not found\n")
                return NOT_FOUND
            exported = {key: self.scope.variables.get(key, "") for key in sorted(self.scope.exported)}
            environment = {**exported, **(assigned or {})}
            return await self.system.call(ShellCall(tuple(argv), streams, environment, self.scope.directory))
        except OSError as problem:
            streams.complain(f"{name}: {problem.filename or ''}: {os.strerror(problem.errno or 0)}\n")
            return 1
        except (ConditionProblem, ArithmeticProblem) as problem:
            streams.complain(f"sh: {name}: {problem}\n")
            return 2

    async def _redirect(self, redirects: Words[Redirect], streams: ShellStreams) -> tuple[ShellStreams, bool]:
        """The descriptors after redirection, and whether a file is written."""
        wrote = False
        for redirect in redirects:
            target = await self._expander(streams).text(redirect.target)
            if redirect.op == "&":
                streams = _duplicate(streams, redirect.descriptor, target)
                continue
            path = self.scope.absolute(target)
            if redirect.op == "<":
                streams = replace(streams, stdin=LineReader(BytesInput(self._read(path))))
                continue
            wrote = wrote or path != NULL_DEVICE
            streams = _with_output(streams, redirect.descriptor, self._open(path, append=redirect.op == ">>"))
        return streams, wrote

    def _read(self, path: str) -> bytes:
        if path == NULL_DEVICE:
            return b""
        try:
            return self.system.files.read(path)
        except OSError as problem:
            raise CannotOpenError("open", path, problem) from problem

    def _open(self, path: str, *, append: bool) -> ShellOutput:
        if path == NULL_DEVICE:
            return NullOutput()
        files = self.system.files
        try:
            if append:
                files.append(path, b"")
            else:
                files.truncate(path)
        except OSError as problem:
            raise CannotOpenError("create", path, problem) from problem
        return FileOutput(lambda data: files.append(path, data))

    def _expander(self, streams: ShellStreams) -> Expander:
        async def substitute(body: ShellSequence) -> str:
            buffer = BufferOutput(self.limits.substituted_bytes)
            self.substitution_rc = await self._inner(body, replace(streams, stdout=buffer))
            return buffer.value().replace(b"\0", b"").decode(errors="surrogateescape")

        return Expander(self.scope, self.system.files, substitute, self.limits.words)

    def _spend(self) -> None:
        self.limits.commands -= 1
        if self.limits.commands < 0:
            raise LimitReachedError("too many commands in one line")


def _with_output(streams: ShellStreams, descriptor: int, output: ShellOutput) -> ShellStreams:
    if descriptor == 1:
        return replace(streams, stdout=output)
    if descriptor == 2:  # noqa: PLR2004 - standard error
        return replace(streams, stderr=output)
    raise ShellSyntaxError(f"descriptor {descriptor} is not supported")


def _duplicate(streams: ShellStreams, descriptor: int, target: str) -> ShellStreams:
    if target == "-":
        return _with_output(streams, descriptor, NullOutput()) if descriptor else streams
    if target == "0" and descriptor == 0:
        return streams
    if target not in {"1", "2"}:
        raise ShellSyntaxError(f"{target}: bad file descriptor")
    return _with_output(streams, descriptor, streams.stdout if target == "1" else streams.stderr)
