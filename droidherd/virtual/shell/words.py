"""Reads words: quotes, parameters, substitutions, arithmetic."""

import re
from collections.abc import Callable

from droidherd.virtual.shell.syntax import (
    Arithmetic,
    Literal,
    Parameter,
    Part,
    ShellSequence,
    ShellSyntaxError,
    Substitution,
    Word,
)

META = frozenset(" \t\n;&|<>()")
DEPTH_LIMIT = 40

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIAL = re.compile(r"[0-9?$#@*!-]")
_PLAIN = re.compile(r"""[^ \t\n;&|<>()'"\\$`]+""")
_PLAIN_IN_BRACES = re.compile(r"""[^}'"\\$`]+""")
_PLAIN_IN_QUOTES = {'"': re.compile(r'[^"\\$`]+'), "}": re.compile(r"[^}\\$`]+")}
"""What stands for itself, read in one go."""
_OPERATOR = re.compile(r":?[-=?+]|%%?|##?")


class WordReader:
    """A cursor over the text. The parser of commands builds on it and lends it `parse_body` for `$( )`."""

    def __init__(self, text: str, depth: int) -> None:
        if depth > DEPTH_LIMIT:
            raise ShellSyntaxError("nested too deeply")
        self.text = text
        self.at = 0
        self.depth = depth
        self.parse_body: Callable[[], ShellSequence] | None = None
        self.parse_text: Callable[[str], ShellSequence] | None = None

    def peek(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def expect(self, token: str) -> None:
        if not self.text.startswith(token, self.at):
            raise ShellSyntaxError(f"'{token}' expected")
        self.at += len(token)

    def word(self, stops: frozenset[str] = META) -> Word:
        """One word, up to an unquoted character of `stops`."""
        parts: list[Part] = []
        while self.at < len(self.text) and self.peek() not in stops:
            self._part(parts, stops)
        return tuple(parts)

    def _part(self, parts: list[Part], stops: frozenset[str]) -> None:
        char = self.peek()
        if char == "'":
            parts.append(self._single())
        elif char == '"':
            parts.extend(self._double())
        elif char == "\\":
            self._backslash(parts)
        elif char in "$`":
            parts.append(self._dollar(quoted=False))
        else:
            plain = self.match(_PLAIN if stops is META else _PLAIN_IN_BRACES)
            parts.append(Literal(plain.group() if plain else "", quoted=False))

    def _single(self) -> Literal:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise ShellSyntaxError("no closing quote")
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        return Literal(inside, quoted=True)

    def _backslash(self, parts: list[Part]) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        self.at += 1 + len(following)
        if following != "\n":
            parts.append(Literal(following or "\\", quoted=True))

    def _double(self) -> list[Part]:
        self.at += 1
        parts = self._quoted_until('"')
        self.expect('"')
        return [Literal("", quoted=True), *parts]

    def _quoted_until(self, stop: str) -> list[Part]:
        """As inside double quotes, up to `stop` (not consumed)."""
        parts: list[Part] = []
        while not self.text.startswith(stop, self.at):
            char = self.peek()
            if not char:
                raise ShellSyntaxError("no closing quote")
            if char in "$`":
                parts.append(self._dollar(quoted=True))
            elif char == "\\":
                self._quoted_backslash(parts)
            elif plain := self.match(_PLAIN_IN_QUOTES[stop]):
                parts.append(Literal(plain.group(), quoted=True))
        return parts

    def _quoted_backslash(self, parts: list[Part]) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if following == "\n":
            return
        parts.append(Literal(following if following and following in '$`"\\' else "\\" + following, quoted=True))

    def _dollar(self, *, quoted: bool) -> Part:
        if self.peek() == "`":
            return self._read_backquoted(quoted=quoted)
        if self.peek(3) == "$((":
            return self._arithmetic(quoted=quoted)
        if self.peek(2) == "$(":
            self.at += 2
            return Substitution(self._body(), quoted)
        if self.peek(2) == "${":
            return self._read_braced(quoted=quoted)
        self.at += 1
        found = self.match(_NAME) or self.match(_SPECIAL)
        return Parameter(found.group(), "", (), quoted) if found else Literal("$", quoted)

    def _body(self) -> ShellSequence:
        if self.parse_body is None:
            raise ShellSyntaxError("no substitution here")
        body = self.parse_body()
        self.expect(")")
        return body

    def _read_backquoted(self, *, quoted: bool) -> Part:
        self.at += 1
        inside: list[str] = []
        while self.peek() != "`":
            char = self.peek()
            if not char:
                raise ShellSyntaxError("no closing quote")
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", "\\", '"' if quoted else "\\"):
                self.at += 1
                char = self.peek()
            inside.append(char)
            self.at += 1
        self.at += 1
        if self.parse_text is None:
            raise ShellSyntaxError("no substitution here")
        return Substitution(self.parse_text("".join(inside)), quoted)

    def _arithmetic(self, *, quoted: bool) -> Part:
        self.at += 3
        parts: list[Part] = []
        open_brackets = 0
        while open_brackets or self.peek(2) != "))":
            char = self.peek()
            if not char:
                raise ShellSyntaxError("no closing '))'")
            if char in "$`":
                parts.append(self._dollar(quoted=True))
                continue
            open_brackets += {"(": 1, ")": -1}.get(char, 0)
            if char not in '"\\':
                parts.append(Literal(char, quoted=True))
            self.at += 1
        self.at += 2
        return Arithmetic(tuple(parts), quoted)

    def _read_braced(self, *, quoted: bool) -> Part:
        self.at += 2
        if self.peek() == "#" and self.peek(2) != "#}":
            self.at += 1
            name = self._parameter_name()
            self.expect("}")
            return Parameter(name, "length", (), quoted)
        name = self._parameter_name()
        if self.peek() == "}":
            self.at += 1
            return Parameter(name, "", (), quoted)
        found = self.match(_OPERATOR)
        if not found:
            raise ShellSyntaxError("bad substitution")
        literal = quoted and found.group() not in {"%", "%%", "#", "##"}
        word = tuple(self._quoted_until("}")) if literal else self.word(frozenset("}"))
        self.expect("}")
        return Parameter(name, found.group(), word, quoted)

    def _parameter_name(self) -> str:
        found = self.match(_NAME) or self.match(_SPECIAL)
        if not found:
            raise ShellSyntaxError("bad substitution")
        return found.group()
