"""Who stands in which row when screens are drawn: near the first one those that are reached in few steps. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

ROUNDS = 4


def layers(nodes: Sequence[str], edges: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Rows from top to bottom. A node stands below the first that leads to it; neighbours are kept together."""
    known = set(nodes)
    kept = [(one, other) for one, other in edges if one in known and other in known and one != other]
    rows = _rows(nodes, kept)
    for _ in range(ROUNDS):
        _straighten(rows, kept)
    return rows


def _rows(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[list[str]]:
    ahead: dict[str, list[str]] = {node: [] for node in nodes}
    for one, other in edges:
        ahead[one].append(other)
    rows: list[list[str]] = []
    placed: set[str] = set()
    for root in _roots(nodes, edges):
        row, depth = ([] if root in placed else [root]), 0
        placed.add(root)
        while row:
            if depth == len(rows):
                rows.append([])
            rows[depth] += row
            following = [other for one in row for other in ahead[one] if other not in placed]
            row = list(dict.fromkeys(following))
            placed.update(row)
            depth += 1
    return rows


def _roots(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[str]:
    """Those that nothing leads to, then all others in the order they are written: each is placed once."""
    led_to = {other for _, other in edges}
    return [node for node in nodes if node not in led_to] + [node for node in nodes if node in led_to]


def _straighten(rows: list[list[str]], edges: Sequence[tuple[str, str]]) -> None:
    """Each row in the order of the middle of those above that lead to it."""
    for above, row in pairwise(rows):
        place = {node: (number + 0.5) / len(above) for number, node in enumerate(above)}
        row.sort(key=lambda node: _middle(node, place, edges))


def _middle(node: str, place: Mapping[str, float], edges: Sequence[tuple[str, str]]) -> float:
    found = [place[one] for one, other in edges if other == node and one in place]
    found += [place[other] for one, other in edges if one == node and other in place]
    return sum(found) / len(found) if found else 0.5
