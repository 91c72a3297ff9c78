"""`[ .. ]` and `test`."""

from collections.abc import Callable, MutableMapping
from typing import Protocol

from droidherd.virtual.shell.integers import evaluate


class ConditionProblem(Exception):  # noqa: N818 - a message for the shell's user, not an error of ours
    """The words do not form a condition."""


class ShellFileFacts(Protocol):
    """What conditions ask about files."""

    def kind(self, path: str) -> str:
        """`file`, `directory` or nothing."""
        ...

    def size(self, path: str) -> int: ...


_NUMERIC: dict[str, Callable[[int, int], bool]] = {
    "-eq": int.__eq__,
    "-ne": int.__ne__,
    "-lt": int.__lt__,
    "-le": int.__le__,
    "-gt": int.__gt__,
    "-ge": int.__ge__,
}
_TEXTUAL: dict[str, Callable[[bytes, bytes], bool]] = {
    "=": bytes.__eq__,
    "==": bytes.__eq__,
    "!=": bytes.__ne__,
    "<": bytes.__lt__,
    ">": bytes.__gt__,
}
_UNARY = frozenset({"-n", "-z", "-e", "-f", "-d", "-s", "-r", "-w", "-x", "-L", "-h"})
_DEPTH_LIMIT = 40


class ShellCondition:
    """Evaluates the words between `[` and `]` by the POSIX rules on their number."""

    def __init__(self, files: ShellFileFacts, variables: MutableMapping[str, str]) -> None:
        self.files = files
        self.variables = variables

    def holds(self, words: list[str]) -> bool:
        if not words:
            return False
        reader = _Reader(self, words)
        value = reader.either(0)
        if reader.at < len(words):
            raise ConditionProblem(f"{words[reader.at]}: unexpected operator/operand")
        return value

    def binary(self, left: str, op: str, right: str) -> bool:
        if op in _NUMERIC:
            return _NUMERIC[op](evaluate(left, self.variables), evaluate(right, self.variables))
        return _TEXTUAL[op](left.encode(errors="surrogateescape"), right.encode(errors="surrogateescape"))

    def unary(self, op: str, word: str) -> bool:
        if op in {"-n", "-z"}:
            return bool(word) == (op == "-n")
        if op in {"-L", "-h"}:
            return False  # there are no links
        kind = self.files.kind(word)
        if op == "-s":
            return bool(kind) and self.files.size(word) > 0
        return {"-f": kind == "file", "-d": kind == "directory"}.get(op, bool(kind))


class _Reader:
    def __init__(self, condition: ShellCondition, words: list[str]) -> None:
        self.condition = condition
        self.words = words
        self.at = 0

    def _word(self, ahead: int = 0) -> str | None:
        index = self.at + ahead
        return self.words[index] if index < len(self.words) else None

    def either(self, depth: int) -> bool:
        if depth > _DEPTH_LIMIT:
            raise ConditionProblem("nested too deeply")
        value = self._both(depth)
        while self._word() == "-o" and self._word(1) is not None:
            self.at += 1
            value = self._both(depth) or value
        return value

    def _both(self, depth: int) -> bool:
        value = self._not(depth)
        while self._word() == "-a" and self._word(1) is not None:
            self.at += 1
            value = self._not(depth) and value
        return value

    def _not(self, depth: int) -> bool:
        # `! = x` compares a "!"; only a "!" that no binary operator follows negates.
        if self._word() == "!" and self._word(1) is not None and not self._binary_follows():
            self.at += 1
            return not self._not(depth)
        return self._primary(depth)

    def _binary_follows(self) -> bool:
        op = self._word(1)
        return (op in _NUMERIC or op in _TEXTUAL) and self._word(2) is not None

    def _primary(self, depth: int) -> bool:
        first = self._word()
        if first is None:
            raise ConditionProblem("missing second argument")
        if self._binary_follows():
            op, right = self.words[self.at + 1], self.words[self.at + 2]
            self.at += 3
            return self.condition.binary(first, op, right)
        joined = self._word(1) in {"-a", "-o"} and self._word(2) is not None
        if first in _UNARY and not joined and (operand := self._word(1)) is not None:
            self.at += 2
            return self.condition.unary(first, operand)
        if first == "(" and self._word(1) is not None:
            self.at += 1
            value = self.either(depth + 1)
            if self._word() != ")":
                raise ConditionProblem("missing )")
            self.at += 1
            return value
        self.at += 1
        return first != ""
