"""Ways between screens: the cheapest one, and what can be reached at all. Pure."""

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass

ANY = "any"
UNKNOWN = ""
"""A place that no screen is known for. Only edges from anywhere leave it."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One way from a place to another; from `ANY`: from every place, and from where nobody knows."""

    start: str
    end: str
    cost: float = 1.0


def cheapest(edges: Sequence[Edge], start: str, goal: str, closed: Collection[int] = ()) -> tuple[int, ...] | None:
    """The numbers of the edges to take, or none when no way leads there. `closed` are not to be taken.

    Of ways that cost the same, the one of fewer edges, then the one whose edges come first.
    """
    found: dict[str, tuple[float, tuple[int, ...]]] = {}
    ahead: list[tuple[float, int, tuple[int, ...], str]] = [(0.0, 0, (), start)]
    while ahead:
        cost, _, way, place = heapq.heappop(ahead)
        if place in found:
            continue
        found[place] = (cost, way)
        if place == goal:
            return way
        for number in _leaving(edges, place, closed):
            edge = edges[number]
            if edge.end not in found:
                heapq.heappush(ahead, (cost + edge.cost, len(way) + 1, (*way, number), edge.end))
    return None


def leading_to(edges: Sequence[Edge], goal: str) -> set[str]:
    """The places with an edge of their own into `goal`, `ANY` included."""
    return {edge.start for edge in edges if edge.end == goal and edge.start != goal}


def _leaving(edges: Sequence[Edge], place: str, closed: Collection[int]) -> list[int]:
    return [
        number
        for number, edge in enumerate(edges)
        if number not in closed and edge.start in (place, ANY) and edge.end != place
    ]
