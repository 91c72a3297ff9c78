"""The interpreter's `Finder`: what a planned flow looks for, searched on looks at the screen."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from droidherd.domain.ports import Box, Frame, Match
from droidherd.flows import patterns
from droidherd.flows.catalogue import Catalogue, PlannedFlow
from droidherd.flows.model.geometry import Area, box_in, expected_margin, grow, pixel
from droidherd.flows.model.targets import ColourQuery, Target, TextQuery, UiQuery, can_read
from droidherd.flows.run.look import Look
from droidherd.vision import area as areas
from droidherd.vision import colour, features, match, text, tree
from droidherd.vision.look import PreparedFrame
from droidherd.vision.match import LastPlaces
from droidherd.vision.template import Template, TemplateCache, recorded_in

TEMPLATES = TemplateCache()
"""Shared by all stages of a process: a hundred emulators run the same few flows."""

PLACES = LastPlaces()
"""Shared likewise: on screens of one size the same picture is mostly at the same place."""

WORDS_MAX, WORD_MAX = 12, 60
"""Of the words of elements that an error names: so many, whole ones of at most so many characters."""


class FlowFinder:
    """Finds what a flow speaks of, as it was when the task was planned."""

    def __init__(self, catalogue: Catalogue, planned: PlannedFlow, templates: TemplateCache = TEMPLATES) -> None:
        """FlowError when what the task may need of its flow changed since the plan."""
        self._catalogue = catalogue
        self._planned = planned
        self._templates = templates
        catalogue.check_files(planned)

    def find(self, look: Look, target: Target) -> Match:
        """One thing, on one look."""
        frame = look.frame
        area = box_in(frame, target.area)
        if target.ui is not None:
            return find_element(look, target.ui, area)
        if target.text is not None:
            return _find_text(target.text, self._lines(look, area))
        if target.colour is not None:
            return _find_colour(frame, target.colour, area)
        return self._find_picture(look, target, area)

    def words(self, look: Look, area: Area | None) -> str:
        """All that can be read in an area, in one line."""
        return text.join_lines(self._lines(look, box_in(look.frame, area)))

    def moved(self, before: Frame, after: Frame, area: Area | None) -> float:
        return areas.share_moved(before, after, box_in(after, area))

    def _lines(self, look: Look, area: Box | None) -> tuple[text.Line, ...]:
        """Read off the frame; where nothing is installed for that, what the elements of the screen say."""
        read = partial(text.read, look.frame, area) if can_read() else partial(_words_of_elements, look, area)
        return look.once(("lines", area), read)

    def _find_picture(self, look: Look, target: Target, area: Box | None) -> Match:
        """Where it is expected first, and then, if it is not there, everywhere it may be."""
        frame = look.frame
        expected = box_in(frame, target.expect)
        if expected is not None:
            there = self._find_in(look, target, grow(expected, expected_margin(frame.width)))
            if there.found:
                return there
        return self._find_in(look, target, area)

    def _find_in(self, look: Look, target: Target, area: Box | None) -> Match:
        frame = look.frame
        name = target.image or target.feature or ""
        path, recorded = self._catalogue.asset(self._planned, name)
        if target.image is not None:
            template = self._templates.get(path, (frame.width, frame.height), recorded)
            looked, known = look.once("looked", partial(PreparedFrame, frame)), (path, frame.width, frame.height, area)
            found = match.find(looked, template, threshold=target.likeness, area=area, hint=PLACES.last(known))
            PLACES.note(known, found)
            return found
        return features.find(frame, self._as_recorded(path, recorded), threshold=target.likeness, area=area)

    def _as_recorded(self, path: Path, recorded: tuple[int, int] | None) -> Template:
        """As it was recorded: features are found at any size, on a screen of any shape."""
        return self._templates.get(path, recorded_in(path.name) or recorded or (0, 0), recorded)


def find_element(look: Look, wanted: UiQuery, area: Box | None) -> Match:
    """By what Android itself says is on the screen. Where nothing is like it, the text is what there is instead."""
    nodes = look.once("nodes", partial(_nodes, look))
    found = tree.find(nodes, _query(wanted), area)
    if found.found or found.score > 0:
        return found
    words = dict.fromkeys(filter(None, map(tree.words_of, nodes)))
    return replace(found, text=", ".join([repr(one) for one in words if len(one) <= WORD_MAX][:WORDS_MAX]))


def _words_of_elements(look: Look, area: Box | None) -> tuple[text.Line, ...]:
    nodes = tree.within(look.once("nodes", partial(_nodes, look)), area)
    lines = (text.Line(tree.words_of(node), node.box, 1.0) for node in nodes if tree.words_of(node))
    return tuple(sorted(lines, key=lambda line: (line.box.y, line.box.x)))


def _nodes(look: Look) -> tuple[tree.Node, ...]:
    return tree.parse(look.tree())


def _query(wanted: UiQuery) -> tree.ElementQuery:
    return tree.ElementQuery(
        wanted.text,
        wanted.description,
        wanted.id,
        wanted.class_,
        wanted.package,
        patterns.compile_pattern(wanted.matches) if wanted.matches is not None else None,
        wanted.states(),
        wanted.index,
    )


def _find_text(wanted: str | TextQuery, lines: tuple[text.Line, ...]) -> Match:
    if isinstance(wanted, TextQuery):
        return text.find(lines, patterns.compile_pattern(wanted.matches))
    return text.find(lines, text.words(wanted), like=wanted)


def _find_colour(frame: Frame, wanted: str | ColourQuery, area: Box | None) -> Match:
    asked = ColourQuery.model_validate({"is": wanted}) if isinstance(wanted, str) else wanted
    rgb = colour.rgb_of(asked.is_)
    if asked.at is not None:
        return colour.at(frame, pixel(asked.at, (frame.width, frame.height)), rgb, asked.tolerance)
    share = (asked.share or ColourQuery.SHARE) / 100
    return colour.patch(frame, rgb, share=share, tolerance=asked.tolerance, area=area)
