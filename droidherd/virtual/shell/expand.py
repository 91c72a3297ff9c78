"""From words to arguments: parameters, substitutions, fields, file names."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TypeAlias

from droidherd.virtual.shell import integers
from droidherd.virtual.shell.patterns import TRIM_LIMIT, Piece, compile_pattern, has_magic, trim
from droidherd.virtual.shell.syntax import Arithmetic, Literal, Parameter, Part, ShellSequence, Substitution, Word
from droidherd.virtual.shell.system import LimitReachedError, ShellFiles

BLANKS = " \t\n"


class ExpansionProblem(Exception):  # noqa: N818 - a message for the shell's user, not an error of ours
    """A word has no value; the line ends."""


@dataclass(slots=True)
class Scope:
    """The variables of a shell or a subshell."""

    variables: dict[str, str] = field(default_factory=dict[str, str])
    exported: set[str] = field(default_factory=set[str])
    arguments: tuple[str, ...] = ()
    rc: int = 0
    directory: str = "/"
    pid: int = 1
    name: str = "sh"

    def copy(self) -> "Scope":
        return replace(self, variables=dict(self.variables), exported=set(self.exported))

    def absolute(self, path: str) -> str:
        return path if path.startswith("/") else f"{self.directory.rstrip('/')}/{path}"

    def special(self, name: str) -> str | None:
        if name.isdecimal():
            index = int(name)
            if index == 0:
                return self.name
            return self.arguments[index - 1] if index <= len(self.arguments) else None
        known = {"?": str(self.rc), "#": str(len(self.arguments)), "$": str(self.pid), "!": "", "-": ""}
        return known.get(name)


@dataclass(frozen=True, slots=True)
class Fragment:
    text: str
    quoted: bool
    split: bool = False


@dataclass(frozen=True, slots=True)
class Break:
    """Between two arguments of a quoted `$@`."""


Fragments: TypeAlias = list[Fragment | Break]


@dataclass(slots=True)
class Expander:
    scope: Scope
    files: ShellFiles
    substitute: Callable[[ShellSequence], Awaitable[str]]
    word_limit: int = 10_000

    async def fields(self, word: Word) -> list[str]:
        """A word in command position: split at blanks, file names filled in."""
        found: list[str] = []
        for pieces in _split(await self._fragments(word)):
            found.extend(self._glob(pieces) or ["".join(text for text, _ in pieces)])
            if len(found) > self.word_limit:
                raise LimitReachedError("argument list too long")
        return found

    async def text(self, word: Word) -> str:
        """A word that stays one: in an assignment, a redirect, a case."""
        fragments = await self._fragments(word)
        return "".join(" " if isinstance(part, Break) else part.text for part in fragments)

    async def pattern(self, word: Word) -> list[Piece]:
        fragments = await self._fragments(word)
        return [(" ", True) if isinstance(part, Break) else (part.text, part.quoted) for part in fragments]

    async def _fragments(self, word: Word) -> Fragments:
        found: Fragments = []
        for part in word:
            found.extend(await self._part(part))
        return found

    async def _part(self, part: Part) -> Fragments:
        match part:
            case Literal(text, quoted):
                return [Fragment(text, quoted)]
            case Arithmetic(word, quoted):
                return [self._arithmetic(await self.text(word), quoted=quoted)]
            case Substitution(body, quoted):
                return [Fragment((await self.substitute(body)).rstrip("\n"), quoted, split=not quoted)]
            case Parameter():
                return await self._parameter(part)

    def _arithmetic(self, expression: str, *, quoted: bool) -> Fragment:
        try:
            value = integers.evaluate(expression, self.scope.variables)
        except integers.ArithmeticProblem as problem:
            raise ExpansionProblem(str(problem)) from problem
        return Fragment(str(value), quoted, split=not quoted)

    async def _parameter(self, part: Parameter) -> Fragments:
        if part.name in "@*":
            return self._all_arguments(part)
        value = self._value(part.name)
        if part.op == "length":
            return [Fragment(str(len(value or "")), part.quoted, split=not part.quoted)]
        if part.op and part.op[0] in "%#":
            if len(value or "") > TRIM_LIMIT:
                raise LimitReachedError(f"{part.name}: too long to trim")
            value = trim(value or "", part.op, await self.pattern(part.word))
        elif part.op:
            return await self._conditional(part, value)
        return [Fragment(value or "", part.quoted, split=not part.quoted)]

    def _value(self, name: str) -> str | None:
        if name[0].isalpha() or name[0] == "_":
            return self.scope.variables.get(name)
        return self.scope.special(name)

    async def _conditional(self, part: Parameter, value: str | None) -> Fragments:
        missing = value is None or (part.op.startswith(":") and not value)
        kind = part.op[-1]
        if kind == "+":
            return [] if missing else await self._alternative(part)
        if not missing:
            return [Fragment(value or "", part.quoted, split=not part.quoted)]
        if kind == "-":
            return await self._alternative(part)
        text = await self.text(part.word)
        if kind == "?":
            raise ExpansionProblem(f"{part.name}: {text or 'parameter null or not set'}")
        if not (part.name[0].isalpha() or part.name[0] == "_"):
            raise ExpansionProblem(f"{part.name}: is read only")
        self.scope.variables[part.name] = text
        return [Fragment(text, part.quoted, split=not part.quoted)]

    async def _alternative(self, part: Parameter) -> Fragments:
        """The word of `${x:-word}`: unquoted text in it is split like the parameter itself would be."""
        return [
            piece if isinstance(piece, Break) else Fragment(piece.text, piece.quoted, piece.split or not piece.quoted)
            for piece in await self._fragments(part.word)
        ]

    def _all_arguments(self, part: Parameter) -> Fragments:
        arguments = self.scope.arguments
        if part.op:
            raise ExpansionProblem("bad substitution")
        if part.name == "*" and part.quoted:
            return [Fragment(" ".join(arguments), quoted=True)]
        found: Fragments = []
        for index, argument in enumerate(arguments):
            found.extend([Break()] if index else [])
            found.append(Fragment(argument, part.quoted, split=not part.quoted))
        return found

    def _glob(self, pieces: list[Piece]) -> list[str]:
        """File names that fit, or none."""
        if not has_magic(pieces):
            return []
        whole = "".join(text for text, _ in pieces)
        bases = ["/"] if whole.startswith("/") else [""]
        steps = [step for step in _steps(pieces) if step]
        return sorted(reduce(self._glob_step, steps, bases))

    def _glob_step(self, bases: list[str], step: list[Piece]) -> list[str]:
        plain = "".join(text for text, _ in step)
        found: list[str] = []
        for base in bases:
            parent = base if not base or base.endswith("/") else base + "/"
            if not has_magic(step):
                found.extend([parent + plain] if self.files.kind(self.scope.absolute(parent + plain)) else [])
                continue
            pattern = compile_pattern(step)
            names = self.files.names(self.scope.absolute(parent) or "/")
            shown = (name for name in names if plain.startswith(".") or not name.startswith("."))
            found.extend(parent + name for name in shown if pattern.fullmatch(name))
        return found


def _steps(pieces: list[Piece]) -> list[list[Piece]]:
    """A path pattern cut at its slashes."""
    steps: list[list[Piece]] = [[]]
    for text, quoted in pieces:
        for index, piece in enumerate(text.split("/")):
            if index:
                steps.append([])
            if piece:
                steps[-1].append((piece, quoted))
    return steps


def _split(fragments: Fragments) -> list[list[Piece]]:
    """Cut into fields. A field exists when it has text, or when something quoted stands in it."""
    found: list[list[Piece]] = []
    current: list[Piece] | None = None
    for part in fragments:
        if isinstance(part, Break):
            found.extend([current] if current is not None else [])
            current = None
        elif not part.split:
            if part.text or part.quoted:
                current = [*(current or []), (part.text, part.quoted)]
        else:
            current = _split_fragment(part.text, current, found)
    if current is not None:
        found.append(current)
    return found


def _split_fragment(text: str, current: list[Piece] | None, found: list[list[Piece]]) -> list[Piece] | None:
    """Complete fields go to `found`; the field that is still open is returned."""
    words = text.split(None) if text.strip(BLANKS) else []
    if text[:1] in tuple(BLANKS) and current is not None:
        found.append(current)
        current = None
    for index, word in enumerate(words):
        if index and current is not None:
            found.append(current)
            current = None
        current = [*(current or []), (word, False)]
    if words and text[-1] in BLANKS and current is not None:
        found.append(current)
        current = None
    return current
