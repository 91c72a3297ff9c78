"""`printf` and the backslashes of `echo`."""

import re

from droidherd.virtual.shell.integers import wrap

_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_ESCAPE = re.compile(r"\\(c|0[0-7]{0,3}|[1-7][0-7]{0,2}|x[0-9a-fA-F]{1,2}|.)", re.DOTALL)
_DIRECTIVE = re.compile(r"%([-+ 0#]*)(\*|\d*)(?:\.(\d*))?([sdiuxXocb%])")
_WIDTH_LIMIT = 10_000


def escapes(text: str, *, zero_prefixed: bool) -> tuple[str, bool]:
    r"""Carry out backslash sequences; True when `\c` ended the text. `zero_prefixed`: octal only as `\0nnn`."""
    head, stop, _ = _cut_at_stop(text)

    def one(found: re.Match[str]) -> str:
        body = found.group(1)
        if body in _SIMPLE:
            return _SIMPLE[body]
        if body[0] == "x" and len(body) > 1:
            return _byte(int(body[1:], 16))
        if body[0] == "0" or (body[0] in "1234567" and not zero_prefixed):
            return _byte(int(body, 8))
        return found.group()

    return _ESCAPE.sub(one, head), stop


def _cut_at_stop(text: str) -> tuple[str, bool, str]:
    for found in _ESCAPE.finditer(text):
        if found.group(1) == "c":
            return text[: found.start()], True, text[found.end() :]
    return text, False, ""


def _byte(value: int) -> str:
    return bytes([value & 255]).decode(errors="surrogateescape")


def printf(pattern: str, arguments: list[str]) -> tuple[str, int]:
    """The text and the return code. The pattern is used again while arguments are left."""
    rest = list(arguments)
    out: list[str] = []
    rc = 0
    while True:
        before = len(rest)
        text, failed, stop = _once(pattern, rest)
        out.append(text)
        rc = rc or failed
        if stop or not rest or len(rest) == before:
            return "".join(out), rc


def _once(pattern: str, rest: list[str]) -> tuple[str, int, bool]:
    out: list[str] = []
    rc = 0
    at = 0
    for found in _DIRECTIVE.finditer(pattern):
        plain, stop = escapes(pattern[at : found.start()], zero_prefixed=False)
        out.append(plain)
        at = found.end()
        if stop:
            return "".join(out), rc, True
        text, failed, stop = _directive(found, rest)
        out.append(text)
        rc = rc or failed
        if stop:
            return "".join(out), rc, True
    plain, stop = escapes(pattern[at:], zero_prefixed=False)
    return "".join([*out, plain]), rc, stop


def _directive(found: re.Match[str], rest: list[str]) -> tuple[str, int, bool]:
    flags, width, precision, kind = found.groups()
    if kind == "%":
        return "%", 0, False
    if width == "*":
        width = rest.pop(0) if rest else "0"
    size = min(int(width or 0) if width.lstrip("-").isdecimal() else 0, _WIDTH_LIMIT)
    argument = rest.pop(0) if rest else ""
    layout = f"%{flags}{size or ''}" + (f".{min(int(precision or 0), _WIDTH_LIMIT)}" if precision is not None else "")
    if kind == "b":
        text, stop = escapes(argument, zero_prefixed=False)
        return (layout + "s") % text, 0, stop
    if kind in "sc":
        return (layout + "s") % (argument[:1] if kind == "c" else argument), 0, False
    value, failed = _number(argument)
    if kind in "uxXo":
        value &= 0xFFFF_FFFF
    return (layout + ("d" if kind in "iu" else kind)) % value, failed, False


def _number(text: str) -> tuple[int, int]:
    if text[:1] in {"'", '"'}:
        return ord(text[1:2] or "\0"), 0
    if re.fullmatch(r"\s*[-+]?0[xX][0-9a-fA-F]+", text):
        return wrap(int(text, 16)), 0
    found = re.match(r"\s*[-+]?\d+", text)
    value = wrap(int(found.group())) if found else 0
    return value, int(bool(text) and (not found or found.end() < len(text)))
