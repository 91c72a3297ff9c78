"""The interpreter's `Finder`: images of one planned flow, sought on frames."""

from pathlib import Path

from droidherd.domain.ports import Box, Frame, Match
from droidherd.flows.catalogue import Catalogue
from droidherd.vision.match import find
from droidherd.vision.template import TemplateCache

TEMPLATES = TemplateCache()
"""Shared by all stages of a process: a hundred emulators run the same few flows."""


class FlowFinder:
    """Finds the images of a flow as it was when the task was planned."""

    def __init__(self, catalogue: Catalogue, flow: str, flow_hash: str, templates: TemplateCache = TEMPLATES) -> None:
        """Resolves the flow now. FlowError when it changed since the plan."""
        self._catalogue = catalogue
        self._flow = flow
        self._hash = flow_hash
        self._templates = templates
        self._loaded = catalogue.planned(flow, flow_hash)

    def find(self, frame: Frame, image: str, *, threshold: float, area: Box | None) -> Match:
        path: Path = self._catalogue.asset(self._flow, self._hash, image)
        template = self._templates.get(path, (frame.width, frame.height), self._loaded.recorded(image))
        return find(frame, template, threshold=threshold, area=area)
