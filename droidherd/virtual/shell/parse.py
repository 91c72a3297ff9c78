"""Reads commands: lists, pipelines, compound commands, redirects."""

import re

from droidherd.virtual.shell.syntax import (
    EMPTY,
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
    Word,
)
from droidherd.virtual.shell.words import META, WordReader

_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_SEPARATORS = re.compile(r"(?:[ \t\n]|\\\n|;(?!;)|&(?!&)|#[^\n]*)+")
_NEWLINES = re.compile(r"(?:[ \t\n]|\\\n|#[^\n]*)*")
_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_REDIRECT = re.compile(r"([0-9]?)(>>|>\||>&|<&|<<|<>|>|<)")
_RESERVED = re.compile(r"(?:if|then|elif|else|fi|while|until|do|done|for|in|case|esac|!|\{|\})(?=[ \t\n;&|<>()]|$)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CASE_BODY_STOPS = frozenset({"esac"})
TEXT_LIMIT = 1 << 20


def parse(text: str, depth: int = 0) -> ShellSequence:
    """The whole text as one list of commands."""
    if len(text) > TEXT_LIMIT:
        raise ShellSyntaxError("line too long")
    parser = _Parser(text, depth)
    body = parser.sequence()
    if parser.at < len(text):
        raise ShellSyntaxError(f"unexpected '{parser.peek()}'")
    return body


class _Parser(WordReader):
    def __init__(self, text: str, depth: int) -> None:
        super().__init__(text, depth)
        self.parse_body = self.parse_nested
        self.parse_text = lambda inner: parse(inner, depth + 1)

    def parse_nested(self) -> ShellSequence:
        """A list inside something else, with the depth counted."""
        self.depth += 1
        if self.depth > 40:  # noqa: PLR2004 - the limit of WordReader, met from the side of commands
            raise ShellSyntaxError("nested too deeply")
        body = self.sequence()
        self.depth -= 1
        return body

    def reserved_word(self) -> str:
        found = _RESERVED.match(self.text, self.at)
        return found.group() if found else ""

    def sequence(self, stops: frozenset[str] = frozenset()) -> ShellSequence:
        nodes: list[Node] = []
        self.match(_SEPARATORS)
        while self.at < len(self.text) and self.peek() != ")" and self.peek(2) != ";;":
            word = self.reserved_word()
            if word in stops:
                break
            nodes.append(self._and_or())
            if self.at < len(self.text) and not self.match(_SEPARATORS) and self.peek() != ")" and not self._at_end():
                raise ShellSyntaxError(f"unexpected '{self.peek()}'")
        return ShellSequence(tuple(nodes))

    def _at_end(self) -> bool:
        return self.peek(2) == ";;"

    def _and_or(self) -> Node:
        first = self._pipeline()
        rest: list[tuple[str, Node]] = []
        while self.peek(2) in {"&&", "||"}:
            op = self.peek(2)
            self.at += 2
            self.match(_NEWLINES)
            rest.append((op, self._pipeline()))
        return AndOr(first, tuple(rest)) if rest else first

    def _pipeline(self) -> Node:
        negated = False
        while self.reserved_word() == "!":
            self.at += 1
            self.match(_BLANKS)
            negated = not negated
        stages = [self._command()]
        while self.peek() == "|" and self.peek(2) != "||":
            self.at += 1
            self.match(_NEWLINES)
            stages.append(self._command())
        return Pipeline(tuple(stages), negated) if negated or len(stages) > 1 else stages[0]

    def _command(self) -> Node:
        word = self.reserved_word()
        if self.peek() == "(":
            self.at += 1
            body = self.parse_nested()
            self.expect(")")
            return self._with_redirects(body, subshell=True)
        if not word:
            return self._simple()
        readers = {"if": self._if, "while": self._loop, "until": self._loop, "for": self._for, "case": self._case}
        self.at += len(word)
        if word == "{":
            return self._with_redirects(self._until("}"), subshell=False)
        if word not in readers:
            raise ShellSyntaxError(f"unexpected '{word}'")
        self.depth += 1
        node = self._loop(until=word == "until") if word in {"while", "until"} else readers[word]()
        self.depth -= 1
        return self._with_redirects(node, subshell=False)

    def _until(self, *stops: str) -> ShellSequence:
        """A non-empty list and the reserved word that ends it (left unread unless it is the only one)."""
        self.depth += 1
        if self.depth > 40:  # noqa: PLR2004 - as in `nested`
            raise ShellSyntaxError("nested too deeply")
        body = self.sequence(frozenset(stops))
        self.depth -= 1
        if not body.nodes or self.reserved_word() not in stops:
            raise ShellSyntaxError(f"'{stops[-1]}' expected")
        if len(stops) == 1:
            self.at += len(stops[0])
        return body

    def _with_redirects(self, node: Node, *, subshell: bool) -> Node:
        self.match(_BLANKS)
        redirects: list[Redirect] = []
        while redirect := self._redirect():
            redirects.append(redirect)
            self.match(_BLANKS)
        if subshell or redirects:
            return ShellGroup(node, subshell, tuple(redirects))
        return node

    def _if(self) -> Node:
        branches: list[tuple[ShellSequence, ShellSequence]] = []
        condition = self._until("then")
        while True:
            branches.append((condition, self._until("elif", "else", "fi")))
            word = self.reserved_word()
            self.at += len(word)
            if word == "elif":
                condition = self._until("then")
                continue
            return If(tuple(branches), EMPTY if word == "fi" else self._until("fi"))

    def _loop(self, *, until: bool = False) -> Node:
        return Loop(self._until("do"), self._until("done"), until)

    def _for(self) -> Node:
        self.match(_BLANKS)
        name = self.match(_NAME)
        if not name:
            raise ShellSyntaxError("bad name in 'for'")
        self.match(_NEWLINES)
        words: list[Word] | None = None
        if self.reserved_word() == "in":
            self.at += 2
            words = []
            self.match(_BLANKS)
            while self.at < len(self.text) and self.peek() not in META:
                words.append(self.word())
                self.match(_BLANKS)
        self.match(_SEPARATORS)
        if self.reserved_word() != "do":
            raise ShellSyntaxError("'do' expected")
        self.at += 2
        return For(name.group(), None if words is None else tuple(words), self._until("done"))

    def _case(self) -> Node:
        self.match(_BLANKS)
        subject = self.word()
        self.match(_NEWLINES)
        self.expect("in")
        clauses: list[tuple[tuple[Word, ...], ShellSequence]] = []
        self.match(_NEWLINES)
        while self.reserved_word() != "esac":
            clauses.append((self._patterns(), self.sequence(_CASE_BODY_STOPS)))
            self.match(_NEWLINES)
            if self.peek(2) == ";;":
                self.at += 2
            elif self.reserved_word() != "esac":
                raise ShellSyntaxError("'esac' expected")
            self.match(_NEWLINES)
        self.at += len("esac")
        return Case(subject, tuple(clauses))

    def _patterns(self) -> tuple[Word, ...]:
        if self.peek() == "(":
            self.at += 1
        patterns: list[Word] = []
        while True:
            self.match(_BLANKS)
            patterns.append(self.word())
            self.match(_BLANKS)
            if self.peek() != "|":
                break
            self.at += 1
        self.expect(")")
        return tuple(patterns)

    def _simple(self) -> Node:
        assigns: list[tuple[str, Word]] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while True:
            self.match(_BLANKS)
            if self.peek() == "#":
                self.match(_COMMENT)
            if redirect := self._redirect():
                redirects.append(redirect)
            elif not words and (name := self.match(_ASSIGN)):
                assigns.append((name.group(1), self.word()))
            elif self.at < len(self.text) and self.peek() not in META:
                words.append(self.word())
            else:
                break
        if not (assigns or words or redirects):
            raise ShellSyntaxError(f"unexpected '{self.peek() or 'end of line'}'")
        return Simple(tuple(assigns), tuple(words), tuple(redirects))

    def _redirect(self) -> Redirect | None:
        found = self.match(_REDIRECT)
        if not found:
            return None
        digits, op = found.groups()
        if op in {"<<", "<>"}:
            raise ShellSyntaxError(f"unexpected '{op}'")
        self.match(_BLANKS)
        target = self.word()
        if not target:
            raise ShellSyntaxError("missing name for redirect")
        descriptor = int(digits) if digits else (0 if op.startswith("<") else 1)
        plain = {">|": ">", ">&": "&", "<&": "&"}.get(op, op)
        return Redirect(descriptor, plain, target)
