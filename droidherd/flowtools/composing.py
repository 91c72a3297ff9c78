"""A flow out of what a person did: steps, images, post-conditions. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from droidherd.domain.ports import Box, Frame
from droidherd.flows.model.params import ACCOUNT
from droidherd.flows.model.scalars import format_duration
from droidherd.flowtools import cutting
from droidherd.flowtools.cutting import Cut
from droidherd.flowtools.elements import Element
from droidherd.flowtools.new import SCHEMA
from droidherd.flowtools.recorder import Episode, View
from droidherd.flowtools.replay import NEAR
from droidherd.flowtools.words import name_of, unused_name
from droidherd.vision.pixels import Pixels

WITHIN = "10s"
STAGE = "recorded"

_SHOWS_NOTHING_NEW = frozenset({"type", "stop_app", "clear_app"})
"""What was typed is another text next time; what an app leaves behind is not the flow's."""

TAPS_A_PLACE = "taps a place: nothing around it can be told from the rest of the screen"

Step = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Composed:
    """A flow that is not on disk yet."""

    text: str
    images: Mapping[str, bytes]
    """By their file names."""
    notes: tuple[str, ...]
    """What a person should look at."""


@dataclass(frozen=True, slots=True)
class _Anchor:
    """An image, and how a step speaks of it."""

    name: str
    rgb: Pixels
    area: tuple[float, float, float, float] | None = None
    offset: tuple[float, float] | None = None
    """Where the person tapped, if that was not about its middle."""

    def as_target(self, key: str = "image") -> dict[str, Any]:
        return {key: self.name} | ({"area": list(self.area)} if self.area else {})


@dataclass(slots=True)
class _Composer:
    episodes: Sequence[Episode]
    app: str
    images: dict[str, bytes] = field(default_factory=dict)
    params: dict[str, Step] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    anchors: dict[int, _Anchor] = field(default_factory=dict)

    def steps(self) -> list[Step]:
        for number, episode in enumerate(self.episodes):
            if episode.action.kind == "tap":
                self._anchor(number, episode)
        return [self._step(number, episode) for number, episode in enumerate(self.episodes)]

    # --- images

    def _anchor(self, number: int, episode: Episode) -> None:
        view, point = episode.before, (episode.action.x, episode.action.y)
        cut = _cut(episode)
        if cut is None:
            self.notes.append(f"step {number + 1} {TAPS_A_PLACE}")
            return
        anchor = self._keep(cut, view, f"tap_{number + 1}")
        self.anchors[number] = replace(anchor, offset=_offset(cut.box, point, view.frame))

    def _keep(self, cut: Cut, view: View, otherwise: str) -> _Anchor:
        rgb = cutting.picture(view.frame, cut.box)
        content = cutting.png(rgb)
        name = next((name for name, kept in self.images.items() if kept == content), "")
        if not name:
            name = unused_name(name_of(_label(view.elements, cut.box), otherwise), self.taken) + ".png"
            self.images[name] = content
        return _Anchor(name, rgb, _percent(cut.area, view.frame))

    # --- steps

    def _step(self, number: int, episode: Episode) -> Step:
        action, frame = episode.action, episode.before.frame
        then = self._then(number, episode)
        match action.kind:
            case "tap":
                anchor = self.anchors.get(number)
                args = anchor.as_target() if anchor else {"percent": _place(action.x, action.y, frame)}
                args |= {"offset": list(anchor.offset)} if anchor and anchor.offset else {}
                args |= {"hold": format_duration(action.hold_ms / 1000)} if action.hold_ms else {}
            case "swipe":
                args = {"from": _place(action.x, action.y, frame), "to": _place(action.to_x, action.to_y, frame)}
            case "type":
                args = {"text": self._text(episode)}
            case "key":
                args = {"name": action.key}
            case _:
                args = {} if action.app == self.app else {"app": action.app}
        return {action.kind: args | ({"then": then} if then else {})}

    def _text(self, episode: Episode) -> str | Step:
        action = episode.action
        if action.secret:
            return {"secret": action.secret}
        if action.param == ACCOUNT:
            return f"${{{ACCOUNT}}}"
        if action.param:
            self.params.setdefault(action.param, {"type": "string", "default": action.text})
            return f"${{{action.param}}}"
        return action.text.replace("$", "$$")

    def _then(self, number: int, episode: Episode) -> Step:
        """What the next tap aims at, when it was not there before; else something new; else that the target went."""
        before, after = episode.before, episode.after
        ahead = self.anchors.get(number + 1)
        if ahead and _appears(ahead, before.frame, after.frame):
            return ahead.as_target() | {"within": WITHIN}
        kind = episode.action.kind
        cut = None if kind in _SHOWS_NOTHING_NEW else cutting.news(before.frame, after.frame, after.boxes)
        if cut is not None:
            return self._keep(cut, after, f"after_{number + 1}").as_target() | {"within": WITHIN}
        own = self.anchors.get(number if kind == "tap" else number - 1)
        if kind in {"tap", "type"} and own and not cutting.is_seen(after.frame, own.rgb, gap=0.0):
            return own.as_target("gone") | {"within": WITHIN}
        if kind == "tap" and not self._types_next(number):
            self.notes.append(f"step {number + 1} has no post-condition: nothing on the screen shows what came of it")
        return {}

    def _types_next(self, number: int) -> bool:
        """A field that gets the focus shows no more than a cursor; the typing that follows will be seen."""
        return number + 1 < len(self.episodes) and self.episodes[number + 1].action.kind == "type"


def compose(name: str, episodes: Sequence[Episode], app: str = "") -> Composed:
    """`app`: the one that the flow drives, if there is one."""
    composer = _Composer(episodes, app)
    steps = composer.steps()
    frame = episodes[0].before.frame
    head: Step = {"flow": name, "about": "Recorded; say in one sentence what it does."}
    if app:
        head["app"] = app
    if composer.images:
        head["recorded"] = f"{frame.width}x{frame.height}"
    text = "".join(_text(head, composer.params, steps, cleanup=bool(app)))
    return Composed(text, composer.images, tuple(composer.notes))


def doubt(episode: Episode) -> str:
    """What a person should know of an act while they can still take it back and do another; mostly nothing."""
    return TAPS_A_PLACE if episode.action.kind == "tap" and _cut(episode) is None else ""


def _cut(episode: Episode) -> Cut | None:
    view = episode.before
    return cutting.around(view.frame, (episode.action.x, episode.action.y), view.boxes)


def _text(head: Step, params: Mapping[str, Step], steps: Sequence[Step], *, cleanup: bool) -> Iterator[str]:
    yield f"# yaml-language-server: $schema=../{SCHEMA}\n"
    for key, value in head.items():
        yield f"{key}: {_inline(value)}\n"
    if params:
        yield "params:\n"
        yield from (f"  {name}: {_inline(param)}\n" for name, param in params.items())
    yield "policy: {time_limit: 5m, retries: 1}\n"
    yield f"stages:\n  - stage: {STAGE}\n    steps:\n"
    for step in steps:
        yield from (f"      - {kind}: {_inline(args)}\n" for kind, args in step.items())
    yield "      - screenshot: {name: done}\n"
    if cleanup:
        yield "cleanup:\n  - stop_app: {}\n"


def _inline(value: Any) -> str:
    """On one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True, sort_keys=False)
    return text.removesuffix("...\n").strip()


def _appears(anchor: _Anchor, before: Frame, after: Frame) -> bool:
    area = _pixels(anchor.area, after)
    there = cutting.is_seen(after, anchor.rgb, area, gap=0.0)
    return there and not cutting.is_seen(before, anchor.rgb, _pixels(anchor.area, before))


def _label(elements: Sequence[Element], box: Box) -> str:
    """What the smallest element around the piece's centre says to people. What was typed into a field is no name."""
    x, y = box.centre()
    around = [one for one in elements if _holds(one.box, x, y)]
    for one in sorted(around, key=lambda element: element.box.width * element.box.height):
        if label := (one.id if one.editable else one.text or one.id):
            return label
    return ""


def _holds(box: Box, x: int, y: int) -> bool:
    return box.x <= x < box.x + box.width and box.y <= y < box.y + box.height


def _offset(box: Box, point: tuple[int, int], frame: Frame) -> tuple[float, float] | None:
    """From the middle of what was cut, in percent of it; none where a tap on the middle is as good."""
    (x, y), (across, down) = box.centre(), point
    if max(abs(across - x), abs(down - y)) <= NEAR * max(frame.width, frame.height) / 2:
        return None
    return round((across - x) / box.width * 100, 1), round((down - y) / box.height * 100, 1)


def _place(x: int, y: int, frame: Frame) -> list[float]:
    """In percent; 100 is the last pixel."""
    return [round(100 * x / max(1, frame.width - 1), 2), round(100 * y / max(1, frame.height - 1), 2)]


def _percent(area: Box | None, frame: Frame) -> tuple[float, float, float, float] | None:
    if area is None:
        return None
    across, down = 100 / frame.width, 100 / frame.height
    right, bottom = area.x + area.width, area.y + area.height
    corners = (area.x * across, area.y * down, right * across, bottom * down)
    left, top, right_, bottom_ = (round(min(100.0, corner), 2) for corner in corners)
    return left, top, right_, bottom_


def _pixels(area: tuple[float, float, float, float] | None, frame: Frame) -> Box | None:
    if area is None:
        return None
    left, right = (round(part * frame.width / 100) for part in (area[0], area[2]))
    top, bottom = (round(part * frame.height / 100) for part in (area[1], area[3]))
    return Box(left, top, right - left, bottom - top)
