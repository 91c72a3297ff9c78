"""What is on a screen, by name: the elements that `uiautomator dump` writes down, and questions to them. Pure.

The dump comes from an emulator, so it is read by hand and not by an XML library: nothing in it is expanded, followed
or loaded, and whatever stands around it (warnings, the tool's own words, CRLF) is passed over.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import regex

from droidherd.domain.ports import Box, Match
from droidherd.flows import patterns

NODES_MAX = 5_000
"""A screen of more elements is none that anybody could use."""
TREE_MAX = 8 << 20
"""Characters of a dump; one element of Android's takes some 500."""
SPAN_MAX = 1_000
"""Of a text that a pattern is tried on."""
_NOWHERE = Box(0, 0, 0, 0)
_TAG = re.compile(r"<(/?)node((?:\s+[\w:.-]+\s*=\s*(?:\"[^\"]*\"|'[^']*')){0,100})\s*(/?)>")
"""What has more than a hundred attributes is no element: Android's have twenty."""
_ATTRIBUTE = re.compile(r"([\w:.-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_BOUNDS = re.compile(r"\[(-?\d{1,6}),(-?\d{1,6})\]\[(-?\d{1,6}),(-?\d{1,6})\]")
_ENTITY = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(amp|lt|gt|quot|apos));")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_CODE_MAX = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Node:
    """One element, as it stands in the dump."""

    attributes: Mapping[str, str]
    box: Box
    depth: int

    @property
    def text(self) -> str:
        return self.attributes.get("text", "")

    @property
    def description(self) -> str:
        return self.attributes.get("content-desc", "")

    @property
    def id(self) -> str:
        return self.attributes.get("resource-id", "")

    def is_(self, state: str) -> bool:
        return self.attributes.get(state, "false") == "true"


@dataclass(frozen=True, slots=True)
class ElementQuery:
    """Which element is meant: all that is said has to fit."""

    text: str | None = None
    description: str | None = None
    id: str | None = None
    """Whole, or what stands behind `:id/`."""
    class_: str | None = None
    """Whole, or what stands behind the last dot."""
    package: str | None = None
    matches: regex.Pattern[str] | None = None
    """Found in the text or in the description."""
    states: tuple[tuple[str, bool], ...] = ()
    """`enabled`, `checked`, `selected` and their like."""
    index: int = 0
    """Which of those that fit, from the top of the dump; counted from the end if below 0."""


def is_tree(text: str) -> bool:
    """Whether this holds a dump from its beginning to its end."""
    if len(text) > TREE_MAX or "<hierarchy" not in text:
        return False
    return "</hierarchy>" in text or re.search(r"<hierarchy[^<>]*/>", text) is not None


def parse(text: str) -> tuple[Node, ...]:
    """Every element of a dump, outer ones before those in them."""
    found: list[Node] = []
    depth = 0
    for tag in _TAG.finditer(text[:TREE_MAX]):
        if tag[1]:
            depth = max(0, depth - 1)
            continue
        attributes = {one[1]: _plain(one[2] if one[2] is not None else one[3]) for one in _ATTRIBUTE.finditer(tag[2])}
        found.append(Node(attributes, _box(attributes.get("bounds", "")), depth))
        if len(found) == NODES_MAX:
            break
        depth += not tag[3]
    return tuple(found)


def find(nodes: Sequence[Node], query: ElementQuery, area: Box | None = None) -> Match:
    """The element that is meant; what cannot be seen is none. `area`: its centre has to be in there."""
    seen = within(nodes, area)
    fitting = [node for node in seen if _fits(node, query)]
    if -len(fitting) <= query.index < len(fitting):
        node = fitting[query.index]
        others = [each for each in fitting if each is not node]
        second = others[0].box if others else None
        again = 1.0 if others else 0.0
        return Match(found=True, box=node.box, score=1.0, runner_up=again, runner_up_box=second, text=words_of(node))
    score, nearest = max(((_likeness(node, query), node) for node in seen), key=lambda one: one[0], default=(0.0, None))
    box, text = (nearest.box, words_of(nearest)) if nearest and score > 0 else (_NOWHERE, "")
    return Match(found=False, box=box, score=score, runner_up=0.0, text=text)


def within(nodes: Sequence[Node], area: Box | None) -> list[Node]:
    """Those that can be seen, and whose centre is in the area."""
    return [node for node in nodes if node.box.width > 0 and node.box.height > 0 and _in(area, node.box)]


def words_of(node: Node) -> str:
    """What an element says to people."""
    return node.text or node.description


def _fits(node: Node, query: ElementQuery) -> bool:
    wanted = ((query.text, node.text), (query.description, node.description))
    named = ((query.package, node.attributes.get("package", "")),)
    return (
        all(one is None or _fold(one) == _fold(other) for one, other in wanted)
        and all(one is None or one == other for one, other in named)
        and (query.id is None or query.id in {node.id, node.id.rpartition(":id/")[2]})
        and _is_class(node.attributes.get("class", ""), query.class_)
        and all(node.is_(state) is whether for state, whether in query.states)
        and _matches(node, query.matches)
    )


def _is_class(name: str, wanted: str | None) -> bool:
    return wanted is None or wanted in {name, name.rpartition(".")[2]}


def _matches(node: Node, pattern: regex.Pattern[str] | None) -> bool:
    texts = (node.text[:SPAN_MAX], node.description[:SPAN_MAX])
    return pattern is None or any(text and patterns.search(pattern, text) is not None for text in texts)


def _likeness(node: Node, query: ElementQuery) -> float:
    """How near an element comes that is not meant: for people who read why nothing was found. Never 1."""
    pairs = [
        (wanted, value)
        for wanted, value in (
            (query.text, node.text),
            (query.description, node.description),
            (query.id, node.id.rpartition(":id/")[2]),
        )
        if wanted and value
    ]
    ratios = [SequenceMatcher(None, one[:80], other[:80]).quick_ratio() for one, other in pairs]
    return round(min(0.99, sum(ratios) / len(ratios)), 2) if ratios else 0.0


def _in(area: Box | None, box: Box) -> bool:
    if area is None:
        return True
    x, y = box.centre()
    return area.x <= x < area.x + area.width and area.y <= y < area.y + area.height


def _fold(text: str) -> str:
    """White space is the same everywhere: apps break their lines as they like."""
    return " ".join(text.split())


def _box(bounds: str) -> Box:
    corners = _BOUNDS.fullmatch(bounds.strip())
    if corners is None:
        return _NOWHERE
    left, top, right, bottom = (int(corners[number]) for number in range(1, 5))
    return Box(left, top, max(0, right - left), max(0, bottom - top))


def _plain(value: str) -> str:
    return _ENTITY.sub(_character, value) if "&" in value else value


def _character(found: re.Match[str]) -> str:
    if found[3]:
        return _NAMED[found[3]]
    code = int(found[1]) if found[1] else int(found[2], 16)
    good = 0 < code <= _CODE_MAX and not 0xD800 <= code < 0xE000  # noqa: PLR2004 -- halves of characters
    return chr(code) if good else "\N{REPLACEMENT CHARACTER}"
