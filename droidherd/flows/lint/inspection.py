"""What is known of a flow while it is linted: each rule reads it, and yields complaints."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from pydantic import JsonValue

from droidherd.flows.loading.document import Document
from droidherd.flows.loading.loaded import LoadedFlow
from droidherd.flows.model.flow import Flow
from droidherd.flows.model.params import Param
from droidherd.flows.model.part import Complaint, Place
from droidherd.flows.model.steps.base import HandlerChecks

Complaints: TypeAlias = Iterator[Complaint]


@dataclass(slots=True)
class Inspection:
    """One flow on its way from a folder to a plan."""

    folder: Path
    document: Document
    images: Mapping[str, Path]
    payloads: Mapping[str, Path]
    handlers: HandlerChecks
    params: Mapping[str, Param]
    texts: list[tuple[Place, str]]
    """Those that may hold parameters."""
    sampled: dict[str, JsonValue]
    """The document with samples in the place of parameters."""
    parsed: Flow | None = None
    uses: Mapping[str, LoadedFlow] = field(default_factory=dict)
    whole: LoadedFlow | None = None

    @property
    def data(self) -> JsonValue:
        return self.document.data

    @property
    def flow(self) -> Flow:
        """The flow, once it was parsed without an error."""
        if self.parsed is None:
            raise ValueError("a rule reads the flow before it is parsed")
        return self.parsed

    @property
    def loaded(self) -> LoadedFlow:
        """The flow with those it uses, once nothing is wrong with any of them alone."""
        if self.whole is None:
            raise ValueError("a rule reads the used flows before they are loaded")
        return self.whole


Rule: TypeAlias = Callable[[Inspection], Complaints]
