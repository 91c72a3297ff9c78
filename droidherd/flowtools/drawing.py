"""A flow as a picture: its screens and the routes between them, its stages and their steps. SVG, in one file. Pure."""

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.sax.saxutils import escape

from pydantic import JsonValue

from droidherd.domain.ports import Box
from droidherd.flows.loading.expansion import screen_map_of
from droidherd.flows.loading.loaded import LoadedFlow

WIDE, HIGH, ROW, GAP, MARGIN = 170, 76, 150, 50, 30
STAGE_WIDE, LINE = 430, 17
LINES_MAX = 40
TEXT_MAX = 58
ROUNDS = 4
"""How often the rows are straightened."""

_STYLE = """\
<style>
  text { white-space: pre; font: 13px system-ui, sans-serif; fill: #1d2330 } .small { font-size: 11px; fill: #56607a }
  .name { font-weight: 600 } .screen { fill: #eef3ff; stroke: #6a86c8 } .stage { fill: #f3faf0; stroke: #6fa860 }
  .route { fill: none; stroke: #6a86c8; stroke-width: 1.5; marker-end: url(#arrow) }
  .begins { fill: none; stroke: #6fa860; stroke-width: 1.5; stroke-dasharray: 5 4; marker-end: url(#arrow) }
  .label { font-size: 11px; fill: #56607a; paint-order: stroke; stroke: #ffffff; stroke-width: 4px }
  .note { fill: #fff7e6; stroke: #d9a441 }
</style>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"
orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="#56607a"/></marker></defs>"""


@dataclass(frozen=True, slots=True)
class DrawnRoute:
    start: str
    end: str
    what: str


@dataclass(frozen=True, slots=True)
class DrawnStage:
    name: str
    at: str
    lines: tuple[str, ...]

    @property
    def height(self) -> int:
        return 30 + LINE * max(1, len(self.lines))


@dataclass(frozen=True, slots=True)
class Plot:
    """What is drawn."""

    name: str
    screens: Mapping[str, str]
    """Each with the image it is recognised by, if it is one."""
    routes: tuple[DrawnRoute, ...]
    interrupts: tuple[str, ...]
    stages: tuple[DrawnStage, ...]
    cleanup: str = ""
    lost: str = ""

    def notes(self) -> Iterator[tuple[str, Sequence[str]]]:
        """What stands below, each under a heading."""
        if self.interrupts:
            yield "whenever it appears:", self.interrupts
        if self.lost:
            yield "when lost:", [self.lost]
        if self.cleanup:
            yield "at the end, however it ends:", [self.cleanup]


def plot(data: JsonValue) -> Plot:
    """Of a flow's document, as it is written. What is not as it should be is left out: the linter names it."""
    whole = _mapping(data)
    screens = {name: _image(condition) for name, condition in _mapping(whole.get("screens")).items()}
    routes = [_mapping(one) for one in _list(whole.get("routes"))]
    interrupts = [_mapping(one) for one in _list(whole.get("interrupts"))]
    stages = [_mapping(one) for one in _list(whole.get("stages"))]
    return Plot(
        name=str(whole.get("flow", "")),
        screens=screens,
        routes=tuple(
            DrawnRoute(str(one.get("from", "")), str(one.get("to", "")), ", ".join(_lines(one.get("do"))))
            for one in routes
        ),
        interrupts=tuple(f"{_describe(one.get('when'))}: {', '.join(_lines(one.get('do')))}" for one in interrupts),
        stages=tuple(
            DrawnStage(str(one.get("stage", "")), str(one.get("at", "")), tuple(_all_lines(one))[:LINES_MAX])
            for one in stages
        ),
        cleanup=", ".join(_lines(whole.get("cleanup"))),
        lost=", ".join(_lines(_mapping(whole.get("lost")).get("do"))),
    )


def with_used(data: JsonValue, loaded: LoadedFlow) -> JsonValue:
    """A flow's document, with the screens, routes and interrupts of the flows it uses."""
    values = {name: param.sample() for name, param in loaded.flow.params.items()}
    screen_map = screen_map_of(loaded, values) if loaded.uses else None
    if screen_map is None:
        return data
    ways: dict[str, JsonValue] = {"routes": [*screen_map.routes], "interrupts": [*screen_map.interrupts]}
    return {**_mapping(data), "screens": screen_map.screens, **ways}


def draw(what: Plot, images: Mapping[str, bytes]) -> str:
    """`images`: by name, the PNG files that screens are recognised by."""
    edges = [(one.start, one.end) for one in what.routes]
    rows = layers(list(what.screens), edges)
    places, right, below = _place(rows)
    stages, under = _stack(what.stages, right)
    height = max(below, under, 90) + sum(LINE * (len(lines) + 2) for _, lines in what.notes()) + MARGIN
    width = (right + STAGE_WIDE + MARGIN) if what.stages else right
    body = [
        *_routes(what.routes, places),
        *(_screen(name, places[name], what.screens[name], images) for name in places),
        *_stages(what.stages, stages, places),
        *_notes(what.notes(), max(below, under)),
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    title = _text(MARGIN, 24, what.name, "name")
    ground = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{escape(what.name)}</title>", _STYLE, ground, title, *body, "</svg>"]) + "\n"


# --- where things stand ----------------------------------------------------------------------------------------


def _place(rows: Sequence[Sequence[str]]) -> tuple[dict[str, Box], int, int]:
    """Each screen's box, and where the drawing of the screens ends."""
    widest = max((len(row) for row in rows), default=0)
    full = widest * (WIDE + GAP)
    places: dict[str, Box] = {}
    for depth, row in enumerate(rows):
        left = MARGIN + (full - len(row) * (WIDE + GAP)) // 2
        for number, name in enumerate(row):
            places[name] = Box(left + number * (WIDE + GAP), 50 + depth * ROW, WIDE, HIGH)
    right = MARGIN + full + (GAP if rows else 0)
    return places, right, 50 + len(rows) * ROW


def _stack(stages: Sequence[DrawnStage], left: int) -> tuple[list[Box], int]:
    boxes: list[Box] = []
    top = 50
    for stage in stages:
        boxes.append(Box(left, top, STAGE_WIDE, stage.height))
        top += stage.height + GAP // 2
    return boxes, top


# --- what is drawn ---------------------------------------------------------------------------------------------


def _screen(name: str, box: Box, image: str, images: Mapping[str, bytes]) -> str:
    parts = [_rect(box, "screen"), _text(box.x + 10, box.y + 20, name, "name")]
    if image in images:
        content = base64.b64encode(images[image]).decode()
        parts.append(
            f'<image x="{box.x + 10}" y="{box.y + 28}" width="{WIDE - 20}" height="{HIGH - 36}" '
            f'preserveAspectRatio="xMinYMid meet" href="data:image/png;base64,{content}"/>'
        )
    elif image:
        parts.append(_text(box.x + 10, box.y + 40, image, "small"))
    return "".join(parts)


def _routes(routes: Iterable[DrawnRoute], places: Mapping[str, Box]) -> Iterator[str]:
    """The words lie above all lines, on a ground of their own."""
    words: list[str] = []
    for route in routes:
        end = places.get(route.end)
        if end is None:
            continue
        start = places.get(route.start)
        path, at = _path(start, end) if start else _from_anywhere(end)
        label = route.what if start else f"{route.start}: {route.what}"
        whole = escape(f"{route.start} → {route.end}: {route.what}")
        yield f'<path class="route" d="{path}"><title>{whole}</title></path>'
        words.append(_text(*at, label, "label", limit=24))
    yield from words


def _path(start: Box, end: Box) -> tuple[str, tuple[int, int]]:
    """Down on the left, up on the right, sideways within a row; so the way there and the way back stay apart."""
    if end.y > start.y:
        one, other = (start.x + WIDE // 3, start.y + HIGH), (end.x + WIDE // 3, end.y)
    elif end.y < start.y:
        one, other = (start.x + 2 * WIDE // 3, start.y), (end.x + 2 * WIDE // 3, end.y + HIGH)
    elif end.x > start.x:
        one, other = (start.x + WIDE, start.y + HIGH // 3), (end.x, end.y + HIGH // 3)
    else:
        one, other = (start.x, start.y + 2 * HIGH // 3), (end.x + WIDE, end.y + 2 * HIGH // 3)
    bend = (other[1] - one[1]) // 2
    path = f"M{one[0]} {one[1]}C{one[0]} {one[1] + bend} {other[0]} {other[1] - bend} {other[0]} {other[1]}"
    if end.y == start.y:
        return path, (min(one[0], other[0]) + 4, one[1] - 4)
    return path, (one[0] + 6, one[1] + (16 if end.y > start.y else -10))


def _from_anywhere(end: Box) -> tuple[str, tuple[int, int]]:
    x = end.x + WIDE // 2
    return f"M{x} {end.y - 26}L{x} {end.y}", (x + 6, end.y - 14)


def _stages(stages: Sequence[DrawnStage], boxes: Sequence[Box], places: Mapping[str, Box]) -> Iterator[str]:
    for stage, box in zip(stages, boxes, strict=True):
        yield _rect(box, "stage")
        at = f"  at {stage.at}" if stage.at else ""
        yield _text(box.x + 12, box.y + 20, f"stage {stage.name}{at}", "name")
        for number, line in enumerate(stage.lines):
            yield _text(box.x + 12, box.y + 38 + number * LINE, line, "small")
        if screen := places.get(stage.at):
            x, y = screen.x + WIDE, screen.y + HIGH // 2
            mid = (x + box.x) // 2
            yield f'<path class="begins" d="M{x} {y}C{mid} {y} {mid} {box.y + 16} {box.x} {box.y + 16}"/>'
    for one, other in pairwise(boxes):
        yield f'<path class="begins" d="M{one.x + 20} {one.y + one.height}L{other.x + 20} {other.y}"/>'


def _notes(notes: Iterable[tuple[str, Sequence[str]]], top: int) -> Iterator[str]:
    for heading, lines in notes:
        yield _text(MARGIN, top + LINE, heading, "name")
        for number, line in enumerate(lines, start=2):
            yield _text(MARGIN, top + number * LINE, line, "small", limit=2 * TEXT_MAX)
        top += LINE * (len(lines) + 2)


def _rect(box: Box, kind: str) -> str:
    return f'<rect class="{kind}" x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="8"/>'


def _text(x: int, y: int, text: str, kind: str, *, limit: int = TEXT_MAX) -> str:
    shown = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(shown)}</text>'


# --- in words --------------------------------------------------------------------------------------------------


def _all_lines(stage: Mapping[str, JsonValue]) -> Iterator[str]:
    yield from _lines(stage.get("steps"))
    if stage.get("undo"):
        yield "taken back by"
        yield from _lines(stage.get("undo"), "    ")


def _lines(steps: JsonValue, indent: str = "") -> Iterator[str]:
    """A line for each step; what is in a block stands below it."""
    for step in _list(steps):
        for kind, args in _mapping(step).items():
            inner = _mapping(args)
            yield f"{indent}{kind} {_describe(args)}".rstrip()
            yield from _lines(inner.get("do"), f"{indent}    ")
            if "else" in inner:
                yield f"{indent}else"
                yield from _lines(inner["else"], f"{indent}    ")


def _describe(args: JsonValue) -> str:
    """What a step is about, and what it brings."""
    if not isinstance(args, dict):
        return "" if args is None else str(args)
    then = _mapping(args.get("then"))
    about = {name: value for name, value in args.items() if name not in {"then", "do", "else", "within", "area"}}
    text = ", ".join(_short(name, value) for name, value in about.items())
    return f"{text} → {_describe({**then})}" if then else text


def _short(name: str, value: JsonValue) -> str:
    if isinstance(value, dict):
        return f"{name} {_describe(value)}".strip()
    if isinstance(value, list):
        plain = ", ".join(_describe(one) for one in value)
        plain = f"({plain})" if any(isinstance(one, dict) for one in value) else plain
    else:
        plain = str(value).lower() if isinstance(value, bool) else str(value)
    return plain if name in {"image", "app", "name", "text", "screen", "percent"} else f"{name} {plain}"


def _image(condition: JsonValue) -> str:
    """The first image that is spoken of."""
    if isinstance(condition, dict):
        for name, value in condition.items():
            found = value if name == "image" and isinstance(value, str) else _image(value) if name != "gone" else ""
            if found:
                return str(found)
    if isinstance(condition, list):
        return next((found for one in condition if (found := _image(one))), "")
    return ""


def _mapping(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


# --- rows: near the first one stand those that are reached in few steps


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
