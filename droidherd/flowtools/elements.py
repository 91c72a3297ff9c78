"""What an emulator itself says is on its screen: for images that are cut and named, and for writing targets. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml

from droidherd.domain.ports import Box
from droidherd.vision.tree import ElementQuery, Node, find, parse, within, words_of

WORDS_MAX = 200
"""Characters of a text that a target may name."""


@dataclass(frozen=True, slots=True)
class Element:
    """Something on the screen."""

    box: Box
    text: str = ""
    id: str = ""
    editable: bool = False


def elements(dump: str) -> tuple[Element, ...]:
    """Those that take up room, in the order of the dump."""
    return tuple(
        Element(
            node.box, words_of(node), node.id.rpartition("/")[2], node.attributes.get("class", "").endswith("EditText")
        )
        for node in parse(dump)
        if node.box.width > 0 and node.box.height > 0
    )


@dataclass(frozen=True, slots=True)
class InspectedElement:
    """An element of a screen, and the target that means it alone."""

    target: Mapping[str, str | int]
    """The arguments of `ui`."""
    place: tuple[float, float]
    """Of its centre, in percent of the screen."""
    kind: str
    """The last part of its class."""
    words: str
    attributes: Mapping[str, str]


def inspect_elements(dump: str) -> tuple[InspectedElement, ...]:
    """All that can be seen and has something to be told by: an id, words, or that it can be clicked."""
    nodes = within(parse(dump), None)
    wide = max((node.box.x + node.box.width for node in nodes), default=1)
    high = max((node.box.y + node.box.height for node in nodes), default=1)

    def percent(node: Node) -> tuple[float, float]:
        x, y = node.box.centre()
        return round(100 * x / max(1, wide - 1), 2), round(100 * y / max(1, high - 1), 2)

    return tuple(
        InspectedElement(_target(node, nodes), percent(node), _kind(node), words_of(node), node.attributes)
        for node in nodes
        if node.id or words_of(node) or node.is_("clickable")
    )


def written_target(target: Mapping[str, str | int]) -> str:
    """As a flow has it, on one line."""
    escaped = {name: value.replace("$", "$$") if isinstance(value, str) else value for name, value in target.items()}
    text = yaml.safe_dump({"ui": escaped}, default_flow_style=True, width=10_000, allow_unicode=True, sort_keys=False)
    return str(text).strip()


def _target(node: Node, nodes: Sequence[Node]) -> dict[str, str | int]:
    """What tells it from all others in the fewest words; else which of those that say the same it is."""
    queries = [*_queries(node)]
    for one in queries:
        query = _query(one)
        found = find(nodes, query)
        if found.box == node.box and not found.runner_up:
            return one
    last = queries[0]
    fitting = [each for each in nodes if find([each], _query(last)).found]
    return {**last, "index": next(number for number, each in enumerate(fitting) if each is node)}


def _queries(node: Node) -> Iterator[dict[str, str | int]]:
    single = {
        "id": node.id.rpartition(":id/")[2],
        "text": node.text,
        "description": node.description,
    }
    given: dict[str, str | int] = {
        name: " ".join(value.split()) for name, value in single.items() if 0 < len(value) <= WORDS_MAX
    }
    for name, value in given.items():
        yield {name: value}
    if len(given) > 1:
        yield dict(given)
    yield {**given, "class": _kind(node)}


def _query(target: Mapping[str, str | int]) -> ElementQuery:
    words = {name: str(value) for name, value in target.items()}
    return ElementQuery(words.get("text"), words.get("description"), words.get("id"), words.get("class"))


def _kind(node: Node) -> str:
    return node.attributes.get("class", "").rpartition(".")[2]
