"""Where handlers meet a stay: the ground they stand on, on one emulator, under one token."""

import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from droidherd.artifacts.names import checked_name
from droidherd.artifacts.writer import Writer
from droidherd.domain.errors import CommandFailedError, NotSentError
from droidherd.domain.ports import Eyes
from droidherd.domain.things import State
from droidherd.emulator.answer import NOBODY_THERE
from droidherd.emulator.facts import EmulatorFacts
from droidherd.emulator.hands import EmulatorHands
from droidherd.emulator.inventory import Inventory
from droidherd.emulator.things import EmulatorThings
from droidherd.flows.doing import StepDoing
from droidherd.flows.model import Handle
from droidherd.handlers.base import Ground, Web
from droidherd.handlers.registry import Registry

QUESTION_S = 20.0
"""How long a question may take, beside what an act may."""
SAID_LIMIT = 300


@dataclass(frozen=True, slots=True)
class InventoryLabels:
    """The labels of one emulator."""

    inventory: Inventory
    emulator_id: str

    def get(self, name: str) -> str:
        entry = self.inventory.find(self.emulator_id)
        return entry.labels.get(name, "") if entry else ""

    def put(self, name: str, value: str) -> None:
        self.inventory.label(self.emulator_id, name, value)


@dataclass(frozen=True, slots=True)
class StayHandlers:
    """Implements `flows.run.Handlers` for one stay."""

    registry: Registry
    task: tuple[str, str]
    """Its id, and for whom it acts."""
    hands: EmulatorHands
    things: EmulatorThings
    eyes: Eyes
    labels: InventoryLabels
    web: Web
    scratch: Path
    writer: Writer
    before: Mapping[tuple[str, str], State]
    """When something is undone: what was there before it was done."""
    keep: Callable[[str, bytes, str], None]
    """A name, a content, and the step it is of."""
    note: Callable[[str], None]
    summarize: Callable[[Mapping[str, JsonValue]], None]

    def run(self, args: Handle, doing: StepDoing) -> None:
        """Do it, or take it back."""
        with self._ground(doing) as ground:
            if args.undo:
                self.registry.undo(args.by, args.params, ground, self.before)
            else:
                self.summarize(self.registry.run(args.by, args.params, ground))

    @contextmanager
    def _ground(self, doing: StepDoing) -> Generator[Ground]:
        """With a folder on the host that is this try's alone: one that was given up may still write to its own."""
        task_id, account = self.task
        self.scratch.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        try:
            yield Ground(
                task_id=task_id,
                emulator_id=self.labels.emulator_id,
                account=account,
                doing=doing,
                things=self.things,
                facts=EmulatorFacts(self._ask),
                ask=self._ask,
                eyes=self.eyes,
                web=self.web,
                labels=self.labels,
                scratch=folder,
                create=lambda name, size_max: self.writer.file(folder / checked_name(name), size_max),
                keep=lambda name, content: self.keep(name, content, doing.path),
                note=self.note,
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _ask(self, question: str) -> str:
        said = self.hands.ask(question, QUESTION_S)
        if said.rc and NOBODY_THERE in said.error_text + said.text:
            raise NotSentError("its services are not up", to=self.labels.emulator_id)
        if said.rc:
            what = f"`{question[:80]}` said: {(said.error_text or said.text).strip()[:SAID_LIMIT]}"
            raise CommandFailedError(what, rc=said.rc, to=self.labels.emulator_id)
        return said.text
