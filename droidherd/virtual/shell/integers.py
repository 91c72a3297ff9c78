"""Integers as on Android: 32 bits, wrapping. Arithmetic expressions for `$(( ))` and operands of `[`."""

import re
from collections.abc import Callable, MutableMapping

_TOKEN = re.compile(r"\s*(0[xX][0-9a-fA-F]+|\d+|[A-Za-z_]\w*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%]=|[-+*/%()<>=!~&|^?:,])")
_LEVELS: tuple[frozenset[str], ...] = tuple(
    frozenset(ops.split())
    for ops in ("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %")
)  # fmt: skip
_DEPTH_LIMIT = 40


class ArithmeticProblem(Exception):  # noqa: N818 - a message for the shell's user, not an error of ours
    """The expression has no value."""


def wrap(value: int) -> int:
    """To a signed integer of 32 bits."""
    return (value + 0x8000_0000) % 0x1_0000_0000 - 0x8000_0000


def evaluate(expression: str, variables: MutableMapping[str, str]) -> int:
    """The value of an expression; may assign."""
    return _Evaluator(expression, variables, 0).whole()


class _Evaluator:
    def __init__(self, text: str, variables: MutableMapping[str, str], depth: int) -> None:
        if depth > _DEPTH_LIMIT:
            raise ArithmeticProblem(f"{text}: expression recurses on parameter")
        self.text = text
        self.variables = variables
        self.depth = depth
        self.tokens = _tokens(text)
        self.at = 0
        self.dry = 0
        """Above 0 inside a branch that is not taken: nothing is assigned, nothing divides."""

    def whole(self) -> int:
        if not self.tokens:
            return 0
        value = self._assignment()
        while self._take(","):
            value = self._assignment()
        if self.at < len(self.tokens):
            raise ArithmeticProblem(f"{self.text}: unexpected '{self.tokens[self.at]}'")
        return value

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _take(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self.at += 1
        return True

    def _assignment(self) -> int:
        op = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else ""
        if _is_name(self._peek()) and op in {"=", "+=", "-=", "*=", "/=", "%="}:
            name = self.tokens[self.at]
            self.at += 2
            value = self._assignment()
            if op != "=":
                value = self._apply(op[0], self._variable(name), value)
            if not self.dry:
                self.variables[name] = str(value)
            return value
        return self._choice()

    def _choice(self) -> int:
        condition = self._binary(0)
        if not self._take("?"):
            return condition
        yes = self._skip(self._assignment, skip=not condition)
        if not self._take(":"):
            raise ArithmeticProblem(f"{self.text}: ':' expected")
        no = self._skip(self._assignment, skip=bool(condition))
        return yes if condition else no

    def _skip(self, read: Callable[[], int], *, skip: bool) -> int:
        self.dry += skip
        value = read()
        self.dry -= skip
        return value

    def _binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._peek() in _LEVELS[level]:
            op = self._peek()
            self.at += 1
            settled = (op == "||" and left != 0) or (op == "&&" and left == 0)
            right = self._skip(lambda: self._binary(level + 1), skip=settled)
            left = self._apply(op, left, right)
        return left

    def _unary(self) -> int:
        for op, act in (("-", int.__neg__), ("+", int.__pos__), ("~", int.__invert__)):
            if self._take(op):
                return wrap(act(self._unary()))
        if self._take("!"):
            return int(not self._unary())
        if self._take("("):
            value = self._assignment()
            if not self._take(")"):
                raise ArithmeticProblem(f"{self.text}: missing )")
            return value
        return self._operand()

    def _operand(self) -> int:
        token = self._peek()
        self.at += 1
        if token[:1].isdecimal():
            return wrap(int(token, 16 if token[:2].lower() == "0x" else 10))
        if _is_name(token):
            return self._variable(token)
        raise ArithmeticProblem(f"{self.text}: unexpected '{token or 'end of expression'}'")

    def _variable(self, name: str) -> int:
        value = self.variables.get(name, "")
        return _Evaluator(value, self.variables, self.depth + 1).whole() if value.strip() else 0

    def _apply(self, op: str, left: int, right: int) -> int:
        if op in {"/", "%"}:
            return self._divide(op, left, right)
        return wrap(int(_OPERATIONS[op](left, right)))

    def _divide(self, op: str, left: int, right: int) -> int:
        if right == 0:
            if self.dry:
                return 0
            raise ArithmeticProblem(f"{self.text}: zero divisor")
        quotient = abs(left) // abs(right)
        if (left < 0) != (right < 0):
            quotient = -quotient
        return wrap(quotient if op == "/" else left - quotient * right)


_OPERATIONS: dict[str, Callable[[int, int], int | bool]] = {
    "||": lambda a, b: a != 0 or b != 0,
    "&&": lambda a, b: a != 0 and b != 0,
    "|": int.__or__,
    "^": int.__xor__,
    "&": int.__and__,
    "==": int.__eq__,
    "!=": int.__ne__,
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
    "<<": lambda a, b: a << (b & 31),
    ">>": lambda a, b: a >> (b & 31),
    "+": int.__add__,
    "-": int.__sub__,
    "*": int.__mul__,
}


def _is_name(token: str) -> bool:
    return token.isidentifier()


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    at = 0
    end = len(text.rstrip())
    while at < end:
        found = _TOKEN.match(text, at)
        if not found:
            raise ArithmeticProblem(f"{text}: unexpected '{text[at:].strip()}'")
        tokens.append(found.group(1))
        at = found.end()
    return tokens
