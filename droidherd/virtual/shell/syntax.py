"""What a shell line is made of, once parsed."""

from dataclasses import dataclass
from typing import TypeAlias


class ShellSyntaxError(Exception):
    """The text is not a line of this shell."""


@dataclass(frozen=True, slots=True)
class Literal:
    text: str
    quoted: bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$name` or `${name<op>word}`; `op` is empty, or `length`."""

    name: str
    op: str
    word: "Word"
    quoted: bool


@dataclass(frozen=True, slots=True)
class Substitution:
    body: "ShellSequence"
    quoted: bool


@dataclass(frozen=True, slots=True)
class Arithmetic:
    word: "Word"
    quoted: bool


Part: TypeAlias = Literal | Parameter | Substitution | Arithmetic
Word: TypeAlias = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Redirect:
    """`descriptor op target`, where `op` is one of `<  >  >>  &` (a copy of another descriptor)."""

    descriptor: int
    op: str
    target: Word


@dataclass(frozen=True, slots=True)
class Simple:
    assigns: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    stages: tuple["Node", ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class AndOr:
    first: "Node"
    rest: tuple[tuple[str, "Node"], ...]


@dataclass(frozen=True, slots=True)
class ShellSequence:
    nodes: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class If:
    branches: tuple[tuple[ShellSequence, ShellSequence], ...]
    otherwise: ShellSequence


@dataclass(frozen=True, slots=True)
class Loop:
    condition: ShellSequence
    body: ShellSequence
    until: bool


@dataclass(frozen=True, slots=True)
class For:
    name: str
    words: tuple[Word, ...] | None
    body: ShellSequence


@dataclass(frozen=True, slots=True)
class Case:
    subject: Word
    clauses: tuple[tuple[tuple[Word, ...], ShellSequence], ...]


@dataclass(frozen=True, slots=True)
class ShellGroup:
    """`{ ..; }`, or `( .. )` when it is a subshell, or any compound command with redirects."""

    body: "Node"
    subshell: bool
    redirects: tuple[Redirect, ...]


Node: TypeAlias = Simple | Pipeline | AndOr | ShellSequence | If | Loop | For | Case | ShellGroup
EMPTY = ShellSequence(())
