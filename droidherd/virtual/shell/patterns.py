"""Shell patterns: `*`, `?`, `[..]`."""

import re
from collections.abc import Sequence
from typing import TypeAlias

Piece: TypeAlias = tuple[str, bool]
"""Text, and whether it was quoted (then it means itself)."""

TRIM_LIMIT = 8192


def has_magic(pieces: Sequence[Piece]) -> bool:
    return any(not quoted and any(char in "*?[" for char in text) for text, quoted in pieces)


def compile_pattern(pieces: Sequence[Piece]) -> re.Pattern[str]:
    return re.compile("".join(_translate(pieces)), re.DOTALL)


def _translate(pieces: Sequence[Piece]) -> list[str]:
    signs = [(char, quoted) for text, quoted in pieces for char in text]
    out: list[str] = []
    at = 0
    while at < len(signs):
        char, quoted = signs[at]
        at += 1
        if quoted or char not in "*?[":
            out.append(re.escape(char))
        elif char == "*":
            if out[-1:] != [".*"]:
                out.append(".*")
        elif char == "?":
            out.append(".")
        else:
            at, text = _bracket(signs, at)
            out.append(text)
    return out


def _bracket(signs: Sequence[tuple[str, bool]], at: int) -> tuple[int, str]:
    """The set that begins at `at` (behind the bracket); a lone bracket means itself."""
    begin = at
    negated = at < len(signs) and signs[at] in {("!", False), ("^", False)}
    at += negated
    members: list[str] = []
    while at < len(signs) and (signs[at] != ("]", False) or not members):
        char, quoted = signs[at]
        ranged = char == "-" and not quoted and members and at + 1 < len(signs) and signs[at + 1] != ("]", False)
        members.append("-" if ranged else re.escape(char))
        at += 1
    if at >= len(signs):
        return begin, r"\["
    body = "".join(members)
    try:
        re.compile(f"[{body}]")
    except re.error:
        return at + 1, "(?!)"
    return at + 1, f"[{'^' if negated else ''}{body}]"


def trim(value: str, op: str, pieces: Sequence[Piece]) -> str:
    """`${value#pattern}` and its three sisters."""
    pattern = compile_pattern(pieces)
    lengths = range(len(value) + 1)
    for length in reversed(lengths) if len(op) == 2 else lengths:  # noqa: PLR2004 - `##`, `%%`: the longest match
        cut, kept = (value[:length], value[length:])
        if op.startswith("%"):
            kept, cut = value[: len(value) - length], value[len(value) - length :]
        if pattern.fullmatch(cut):
            return kept
    return value
