"""Filters over text."""

import re
from typing import TypeVar

from droidherd.virtual.commands.base import Command, CommandContext, options

_BAD_USAGE = 2

Pieces = TypeVar("Pieces", bytes, list[bytes])


async def _grep(context: CommandContext) -> int:
    try:
        chosen, rest = options(context.words, "qcvEFilnsoxwrHhaG", "em")
    except ValueError as problem:
        return context.fail(str(problem), _BAD_USAGE)
    if "e" not in chosen and not rest:
        return context.fail("Needs 1 argument", _BAD_USAGE)
    source = chosen["e"] if "e" in chosen else rest.pop(0)
    try:
        pattern = _pattern(source, chosen)
    except re.error as problem:
        return context.fail(f"bad REGEX '{source}': {problem}", _BAD_USAGE)
    found, rc = await context.inputs(rest)
    hits = 0
    for name, data in found:
        lines = [line for line in _lines(data) if bool(pattern.search(line)) != ("v" in chosen)]
        hits += len(lines)
        _print_hits(context, f"{name}:" if len(rest) > 1 and "h" not in chosen else "", lines, chosen)
    return 0 if hits and (not rc or "q" in chosen) else _BAD_USAGE if rc else 1


def _print_hits(context: CommandContext, prefix: str, lines: list[str], chosen: dict[str, str]) -> None:
    if "q" in chosen:
        return
    if "c" in chosen:
        context.say(f"{prefix}{len(lines)}\n")
        return
    limit = int(chosen["m"]) if chosen.get("m", "").isdecimal() else len(lines)
    for line in lines[:limit]:
        context.say(f"{prefix}{line}\n")


def _pattern(source: str, chosen: dict[str, str]) -> re.Pattern[str]:
    parts = source.split("\n")
    bodies = [re.escape(part) if "F" in chosen else part if "E" in chosen else basic_to_python(part) for part in parts]
    body = "|".join(f"(?:{part})" for part in bodies)
    if "x" in chosen:
        body = f"^(?:{body})$"
    elif "w" in chosen:
        body = rf"\b(?:{body})\b"
    return re.compile(body, re.IGNORECASE if "i" in chosen else 0)


def basic_to_python(source: str) -> str:
    """A basic regular expression in Python's notation: there `+?|(){}` mean themselves unless escaped."""
    out: list[str] = []
    at = 0
    while at < len(source):
        char = source[at]
        if char == "\\" and at + 1 < len(source):
            following = source[at + 1]
            out.append(following if following in "+?|(){}" else "\\" + following)
            at += 2
            continue
        if char == "[":
            end = source.find("]", at + 2)
            if end > 0:
                out.append(source[at : end + 1])
                at = end + 1
                continue
        first = at == 0 or source[at - 1] in "(|"
        out.append("\\" + char if char in "+?|(){}" or (char == "*" and first) else char)
        at += 1
    return "".join(out)


def _lines(data: bytes) -> list[str]:
    text = data.decode(errors="surrogateescape")
    return text.removesuffix("\n").split("\n") if text else []


async def _head_or_tail(context: CommandContext) -> int:
    words = [f"-n{word[1:]}" if re.fullmatch(r"-\d+", word) else word for word in context.words]
    try:
        chosen, names = options(words, "q", "nc")
    except ValueError as problem:
        return context.fail(str(problem))
    found, rc = await context.inputs(names)
    for _, data in found:
        context.streams.stdout.write(_cut_ends(data, chosen, head=context.name == "head"))
    return rc


def _cut_ends(data: bytes, chosen: dict[str, str], *, head: bool) -> bytes:
    word = chosen.get("c", chosen.get("n", "10"))
    count = int(word) if re.fullmatch(r"[-+]?\d+", word) else 10
    if "c" in chosen:
        return _end(data, count, word, head=head)
    return b"".join(_end(data.splitlines(keepends=True), count, word, head=head))


def _end(pieces: Pieces, count: int, word: str, *, head: bool) -> Pieces:
    if head:
        return pieces[:count]
    if word.startswith("+"):
        return pieces[max(0, count - 1) :]
    return pieces[-abs(count) :] if count else pieces[:0]


async def _wc(context: CommandContext) -> int:
    try:
        chosen, names = options(context.words, "lwcm")
    except ValueError as problem:
        return context.fail(str(problem))
    found, rc = await context.inputs(names)
    for name, data in found:
        counts = {
            "l": data.count(b"\n"),
            "w": len(data.split()),
            "c": len(data),
            "m": len(data.decode(errors="replace")),
        }
        wanted = [counts[flag] for flag in "lwcm" if flag in chosen] or [counts[flag] for flag in "lwc"]
        context.say(" ".join(str(count) for count in wanted) + ("" if name == "-" else f" {name}") + "\n")
    return rc


async def _sort(context: CommandContext) -> int:
    try:
        chosen, names = options(context.words, "nru", "kt")
    except ValueError as problem:
        return context.fail(str(problem))
    found, rc = await context.inputs(names)
    lines = [line for _, data in found for line in _lines(data)]

    def rank(line: str) -> tuple[float, str]:
        number = re.match(r"\s*-?\d+(\.\d+)?", line) if "n" in chosen else None
        return (float(number.group()) if number else 0.0, line)

    lines = sorted(lines, key=rank, reverse="r" in chosen)
    for line in dict.fromkeys(lines) if "u" in chosen else lines:
        context.say(line + "\n")
    return rc


async def _uniq(context: CommandContext) -> int:
    found, rc = await context.inputs([word for word in context.words if not word.startswith("-")])
    last: str | None = None
    for line in (line for _, data in found for line in _lines(data)):
        if line != last:
            context.say(line + "\n")
        last = line
    return rc


async def _cut(context: CommandContext) -> int:
    try:
        chosen, names = options(context.words, "s", "dfcb")
    except ValueError as problem:
        return context.fail(str(problem))
    spec = chosen.get("f") or chosen.get("c") or chosen.get("b") or ""
    if not re.fullmatch(r"[\d,-]+", spec):
        return context.fail("needs -f, -c or -b")
    found, rc = await context.inputs(names)
    for line in (line for _, data in found for line in _lines(data)):
        mark = chosen.get("d", "\t") if "f" in chosen else ""
        parts = line.split(mark) if mark else list(line)
        context.say((line if mark and len(parts) == 1 else mark.join(_pick(parts, spec))) + "\n")
    return rc


def _pick(parts: list[str], spec: str) -> list[str]:
    wanted: set[int] = set()
    for item in spec.split(","):
        low, dash, high = item.partition("-")
        first = int(low or 1)
        wanted.update(range(first, (min(int(high), len(parts)) if high else len(parts)) + 1) if dash else [first])
    return [part for index, part in enumerate(parts, 1) if index in wanted]


async def _tr(context: CommandContext) -> int:
    words = context.words
    delete = words[:1] == ["-d"]
    sets = [_signs(word) for word in words if word not in {"-d", "-s"}]
    if not sets or (len(sets) < 2 and not delete):  # noqa: PLR2004 - from and to
        return context.fail("Needs 2 arguments")
    text = (await context.stdin()).decode(errors="surrogateescape")
    if delete:
        context.say("".join(char for char in text if char not in sets[0]))
        return 0
    target = sets[1] or " "
    table = {char: target[min(index, len(target) - 1)] for index, char in enumerate(sets[0])}
    context.say("".join(table.get(char, char) for char in text))
    return 0


def _signs(word: str) -> str:
    plain = word.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t")
    for name, members in (("[:upper:]", "A-Z"), ("[:lower:]", "a-z"), ("[:digit:]", "0-9"), ("[:space:]", " \t\r\n")):
        plain = plain.replace(name, members)
    return re.sub("(.)-(.)", lambda found: _span(found.group(1), found.group(2)), plain)


def _span(low: str, high: str) -> str:
    return "".join(map(chr, range(ord(low), ord(high) + 1)))


_SED = re.compile(r"(\d+|\$)?(?:,(\d+|\$))?([sdp])(.*)", re.DOTALL)


async def _sed(context: CommandContext) -> int:
    try:
        chosen, rest = options(context.words, "nEri", "e")
    except ValueError as problem:
        return context.fail(str(problem))
    script = chosen["e"] if "e" in chosen else rest.pop(0) if rest else ""
    found = _SED.fullmatch(script)
    if not found or "i" in chosen:
        return context.fail("the virtual emulator knows s///, d and p with line addresses")
    first, last, act, tail = found.groups()
    try:
        change = _substitution(tail, extended=bool({"E", "r"} & set(chosen))) if act == "s" else None
    except (re.error, ValueError) as problem:
        return context.fail(f"bad s///: {problem}")
    inputs, rc = await context.inputs(rest)
    lines = [line for _, data in inputs for line in _lines(data)]
    for number, line in enumerate(lines, 1):
        reached = _in_range(number, len(lines), first, last)
        if reached and act == "d":
            continue
        shown = change[0].sub(change[1], line, count=change[2]) if change and reached else line
        context.say("" if "n" in chosen else shown + "\n")
        context.say(shown + "\n" if reached and act == "p" else "")
    return rc


def _in_range(number: int, count: int, first: str | None, last: str | None) -> bool:
    if first is None:
        return True
    low = count if first == "$" else int(first)
    high = low if last is None else count if last == "$" else int(last)
    return low <= number <= high


def _substitution(tail: str, *, extended: bool) -> tuple[re.Pattern[str], str, int]:
    mark = tail[:1]
    parts = re.split(rf"(?<!\\){re.escape(mark)}", tail[1:]) if mark else []
    if len(parts) != 3:  # noqa: PLR2004 - pattern, replacement, flags
        raise ValueError("unterminated")
    source, replacement, flags = parts
    pattern = re.compile(source if extended else basic_to_python(source), re.IGNORECASE if "i" in flags else 0)
    replacement = re.sub(r"(?<!\\)&", r"\\g<0>", replacement).replace("\\&", "&").replace("\\" + mark, mark)
    return pattern, replacement, 0 if "g" in flags else 1


async def _tee(context: CommandContext) -> int:
    data = await context.stdin()
    for name in context.words:
        if name != "-a":
            if "-a" not in context.words:
                context.emulator.files.truncate(context.path(name))
            context.emulator.files.append(context.path(name), data)
    context.streams.stdout.write(data)
    return 0


async def _seq(context: CommandContext) -> int:
    words = context.words
    if not 1 <= len(words) <= 2 or not all(re.fullmatch(r"-?\d{1,6}", word) for word in words):  # noqa: PLR2004
        return context.fail("Needs 1 or 2 numbers")
    low, high = (1, int(words[0])) if len(words) == 1 else (int(words[0]), int(words[1]))
    context.say("".join(f"{number}\n" for number in range(low, min(high, low + 100_000) + 1)))
    return 0


async def _name_part(context: CommandContext) -> int:
    word = (context.words or [""])[0].rstrip("/") or "/"
    folder, _, base = word.rpartition("/")
    context.say(
        ((folder or ("/" if word.startswith("/") else ".")) if context.name == "dirname" else base or "/") + "\n"
    )
    return 0


COMMANDS: dict[str, Command] = {
    "basename": _name_part,
    "cut": _cut,
    "dirname": _name_part,
    "grep": _grep,
    "head": _head_or_tail,
    "sed": _sed,
    "seq": _seq,
    "sort": _sort,
    "tail": _head_or_tail,
    "tee": _tee,
    "tr": _tr,
    "uniq": _uniq,
    "wc": _wc,
}
