"""YAML with line numbers: every value of a flow knows where it stands in its file.

Only what JSON can say is accepted. Aliases are fine; merge keys, tags, duplicate keys, dates and values without
bounds are not.
"""

import math
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import JsonValue
from pydantic_core import ErrorDetails

from droidherd.files.regular import open_regular
from droidherd.flows.model.part import Place

SIZE_MAX = 256 * 1024
DEPTH_MAX = 40
NODES_MAX = 20_000

_COMMENT = re.compile(r"[{\[,][^#'\"]*: #")
"""A value in braces that begins with it."""
_YAML_FIXES = (
    ("'\\t'", "indent with spaces, not with tabs"),
    ("that cannot start any token", "put it in quotes"),
    ("mapping values are not allowed here", "put text with a colon in quotes, or fix the indentation"),
    ("expected <block end>", "fix the indentation: what belongs together begins in the same column"),
    ("could not find expected ':'", "a colon is missing, or a closing quote"),
)
_TEXT, _NULL, _BOOL, _INT, _FLOAT = (f"tag:yaml.org,2002:{kind}" for kind in ("str", "null", "bool", "int", "float"))


class BadYamlError(ValueError):
    """What is wrong with the text, and where."""

    def __init__(self, what: str, line: int, fix: str = "") -> None:
        """`line` counts from 1."""
        super().__init__(what)
        self.what = what
        self.line = line
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Document:
    data: JsonValue
    lines: dict[Place, int] = field(default_factory=dict)

    def line_of(self, place: Place) -> int:
        """The line of a value, or of the nearest thing around it."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)


def read_document(path: Path) -> Document:
    """Parse a file."""
    with open_regular(path) as file:
        content = file.read(SIZE_MAX + 1)
    return parse_document(content)


def parse_document(content: bytes) -> Document:
    """Parse the bytes of a file. Raises BadYamlError and nothing else."""
    if len(content) > SIZE_MAX:
        raise BadYamlError(f"more than {SIZE_MAX} bytes", 1, "split the flow")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadYamlError("is not UTF-8", content.count(b"\n", 0, error.start) + 1, "save it as UTF-8") from error
    try:
        _refuse_depth(text)
        return _Builder().document(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(part for part in (error.context, error.problem) if part)
        line = mark.line + 1 if mark else 1
        near = "\n".join(text.splitlines()[max(0, line - 2) : line])
        raise BadYamlError(f"is not YAML: {what}", line, _fix_for(what, near)) from error
    except yaml.YAMLError as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadYamlError(f"is not YAML: {first}", 1) from error


def _fix_for(what: str, near: str) -> str:
    """How YAML that cannot be read may be fixed. `near`: the lines around the place where it stopped."""
    if _COMMENT.search(near):
        return "a # begins a comment: put it in quotes"
    return next((fix for sign, fix in _YAML_FIXES if sign in what), "")


def _refuse_depth(text: str) -> None:
    """On the event stream, which is read without recursion."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH_MAX:
            raise BadYamlError(f"more than {DEPTH_MAX} levels deep", event.start_mark.line + 1)


class _Builder:
    """Turns nodes into plain data and notes their lines."""

    def __init__(self) -> None:
        self._lines: dict[Place, int] = {}
        self._nodes = 0
        self._constructor = yaml.constructor.SafeConstructor()

    def document(self, text: str) -> Document:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            raise BadYamlError("is empty", 1, "begin with `flow: <name>`")
        return Document(self._value(node, (), 0), self._lines)

    def _value(self, node: Any, place: Place, depth: int) -> JsonValue:
        line: int = node.start_mark.line + 1
        self._nodes += 1
        if self._nodes > NODES_MAX or depth > DEPTH_MAX:
            raise BadYamlError("unfolds into too much", line, "use fewer aliases")
        self._lines.setdefault(place, line)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, place, depth)
        if isinstance(node, yaml.SequenceNode):
            _refuse_tag(node, "seq")
            return [self._value(item, (*place, number), depth + 1) for number, item in enumerate(node.value)]
        return self._scalar(node, line)

    def _mapping(self, node: Any, place: Place, depth: int) -> JsonValue:
        _refuse_tag(node, "map")
        found: dict[str, JsonValue] = {}
        for key_node, value_node in node.value:
            line: int = key_node.start_mark.line + 1
            key = self._key(key_node, line)
            if key in found:
                first = self._lines[*place, key]
                raise BadYamlError(f"key {key!r} stands here twice", line, f"the first is in line {first}")
            self._lines[*place, key] = line
            found[key] = self._value(value_node, (*place, key), depth + 1)
        return found

    def _key(self, node: Any, line: int) -> str:
        if node.tag == "tag:yaml.org,2002:merge":
            raise BadYamlError("merge keys are not supported", line, "write the keys out, or alias a whole value")
        key: Hashable = node.value if isinstance(node, yaml.ScalarNode) else None
        if not isinstance(key, str) or node.tag != _TEXT:
            raise BadYamlError("a key must be text", line, "put it in quotes")
        return key

    def _scalar(self, node: Any, line: int) -> JsonValue:
        if node.tag == _TEXT:
            return _encodable(str(node.value), line)
        if node.tag not in {_NULL, _BOOL, _INT, _FLOAT}:
            kind = str(node.tag).removeprefix("tag:yaml.org,2002:")
            raise BadYamlError(f"reads as a {kind}, which a flow cannot hold", line, "put it in quotes")
        try:
            value: JsonValue = self._constructor.construct_document(node)
        except (ValueError, KeyError, IndexError, OverflowError) as error:
            raise BadYamlError(f"{node.value[:40]!r} does not fit its tag", line, "put it in quotes") from error
        if isinstance(value, float) and not math.isfinite(value):
            raise BadYamlError("a number must be finite", line)
        return value


def _refuse_tag(node: Any, kind: str) -> None:
    if node.tag != f"tag:yaml.org,2002:{kind}":
        raise BadYamlError(f"tag {node.tag} is not supported", node.start_mark.line + 1, "leave it out")


def _encodable(text: str, line: int) -> str:
    """Refuse lone surrogates: an escape can smuggle them in, and no JSON writer can write them."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise BadYamlError("contains half a character", line)
    return text


def value_at(data: JsonValue, place: Sequence[str | int]) -> JsonValue:
    """The value at a place, or none."""
    for step in place:
        inside = inside_of(data, step)
        if not inside:
            return None
        data = inside[0]
    return data


def maps(value: JsonValue, place: Place = ()) -> Iterator[tuple[Place, dict[str, JsonValue]]]:
    """Every mapping in a document, with its place."""
    if isinstance(value, dict):
        yield place, value
        for key, item in value.items():
            yield from maps(item, (*place, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from maps(item, (*place, number))


def texts(value: JsonValue, place: Place) -> Iterator[tuple[Place, str]]:
    """Every text in a document, with its place."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from texts(item, (*place, number))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts(item, (*place, key))


def inside_of(value: JsonValue, step: str | int) -> list[JsonValue]:
    """What stands under a key or at a position: one value, or none."""
    if isinstance(value, dict) and isinstance(step, str) and step in value:
        return [value[step]]
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return [value[step]]
    return []


def place_of(detail: ErrorDetails, value: JsonValue) -> Place:
    """Where the error stands: what pydantic adds (tags of unions, missing keys) is no part of a document."""
    place: Place = ()
    for step in detail["loc"]:
        if inside := inside_of(value, step):
            value, place = inside[0], (*place, step)
    return place
