"""A flow that was read and judged, with everything that belongs to it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from pydantic import JsonValue

from droidherd.domain.errors import FlowError
from droidherd.flows.model.flow import Flow
from droidherd.flows.model.params import ACCOUNT, Param

CARRIED = "@/"
"""Between the name of a used flow and that of its file: `sign_in@/ok.png`."""
SCREEN_PARTS = ("screens", "routes", "interrupts", "lost")
"""Of a flow: what it knows of its app's screens, beside the guards."""

Library: TypeAlias = Callable[[str], Path | None]
"""Where the flow of this name is."""


@dataclass(frozen=True, slots=True)
class LoadedFlow:
    flow: Flow
    stages: tuple[JsonValue, ...]
    """The steps of each stage as they are written, with their placeholders."""
    undos: tuple[JsonValue, ...]
    cleanup: JsonValue
    folder: Path
    images: Mapping[str, Path]
    """Those of used flows, too, under names such as `sign_in@/ok.png`."""
    payloads: Mapping[str, Path]
    """The files in its folder `files`, by their name there; those of used flows like their images."""
    hash: str
    """Of what it does: the document, the images, the payloads and the used flows together."""
    screen_map: Mapping[str, JsonValue] = field(default_factory=dict)
    """What is written under `screens`, `routes`, `interrupts`, `lost` and `guards`, with its placeholders."""
    uses: Mapping[str, "LoadedFlow"] = field(default_factory=dict)
    """The flows it uses itself, by name."""
    needs_account: bool = False
    """It, or a flow that it uses, speaks of the task's account or types a credential of it."""

    @property
    def params(self) -> Mapping[str, Param]:
        """Those it declares, and the account if it acts for one."""
        if not self.needs_account:
            return self.flow.params
        used = (used.params[ACCOUNT] for used in self.uses.values() if used.needs_account)
        return {ACCOUNT: next(used, Param()), **self.flow.params}

    def all_used(self) -> dict[str, "LoadedFlow"]:
        """All flows that are used, also by those it uses; each once."""
        found: dict[str, LoadedFlow] = {}
        for name, used in self.uses.items():
            found |= {name: used, **used.all_used()}
        return found

    def recorded_size(self, image: str) -> tuple[int, int] | None:
        """The size of the screen an image was cut from, as its flow says."""
        name, mark, _ = image.partition(CARRIED)
        if not mark:
            return self.flow.screen()
        used = self.all_used().get(name)
        if used is None:
            raise FlowError(f"uses no flow {name[:60]}", to=self.flow.flow)
        return used.flow.screen()


def all_files(files: Mapping[str, Path], uses: Mapping[str, Mapping[str, Path]]) -> dict[str, Path]:
    """A flow's own files and those of the flows it uses, each under a name of its own."""
    found = dict(files)
    for flow, theirs in uses.items():
        found |= {carried_name(flow, name): path for name, path in theirs.items()}
    return found


def carried_name(flow: str, name: str) -> str:
    """A used flow's file as the using flow names it."""
    return name if CARRIED in name else f"{flow}{CARRIED}{name}"


def uses_in(value: JsonValue, place: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], JsonValue]]:
    """The arguments of every `use` among steps, with their places: in a block as well."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            if isinstance(item, dict):
                for kind, args in item.items():
                    yield from _uses_of(kind, args, (*place, number, kind))


def _uses_of(
    kind: str, args: JsonValue, place: tuple[str | int, ...]
) -> Iterator[tuple[tuple[str | int, ...], JsonValue]]:
    if kind == "use":
        yield place, args
    if isinstance(args, dict):
        for block in ("do", "else"):
            yield from uses_in(args.get(block), (*place, block))
