"""Runs handlers inside an attempt, each with a `HandlerContext`: one emulator, under one token."""

import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from droidherd.adb import parse
from droidherd.artifacts.names import checked_name
from droidherd.contracts.stage import StageWork
from droidherd.domain.errors import CommandFailedError, NotSentError
from droidherd.domain.fleet.facts import InstalledPackage, Screen, Storage, Window
from droidherd.domain.ports import NO_RECORDER, Eyes, StageRecorder
from droidherd.domain.task.things import State
from droidherd.emulator.eyes import FOCUS_LINE, TREE_LINE
from droidherd.emulator.hands import EmulatorHands
from droidherd.emulator.inventory import Inventory
from droidherd.emulator.lines import NOBODY_THERE
from droidherd.emulator.things import EmulatorThings
from droidherd.flows.model.steps.handlers import CallStep
from droidherd.flows.run.doing import HandlerActs
from droidherd.handlers.base import HandlerContext
from droidherd.stage.context import StageServices
from droidherd.vision import tree

QUESTION_S = 20.0
"""How long a question may take, beside what an act may."""
OUTPUT_LIMIT = 300


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
class StageHandlers:
    """Implements `flows.run.Handlers` for one attempt: gives each handler its `HandlerContext`."""

    services: StageServices
    work: StageWork
    hands: EmulatorHands
    things: EmulatorThings
    eyes: Eyes
    before: Mapping[tuple[str, str], State]
    """When something is undone: what was there before it was done."""
    keep: Callable[[str, bytes, str], None]
    """A name, a content, and the step it is of."""
    note: Callable[[str], None]
    summarize: Callable[[Mapping[str, JsonValue]], None]
    recorder: StageRecorder = NO_RECORDER

    def run(self, args: CallStep, doing: HandlerActs) -> None:
        """Do it, or take it back. For the record a handler is one act: what it does inside is its own."""
        self.recorder.act("call", doing.path, by=args.by)
        self.recorder.muted += 1
        done = False
        try:
            self._run(args, doing)
            done = True
        finally:
            self.recorder.muted -= 1
            if not done:
                self.recorder.broke_off(args.by)

    def _run(self, args: CallStep, doing: HandlerActs) -> None:
        registry = self.services.catalogue.handlers
        with self._handler_context(doing) as context:
            if args.undo:
                registry.undo(args.by, args.params, context, self.before)
            else:
                self.summarize(registry.run(args.by, args.params, context))

    @contextmanager
    def _handler_context(self, doing: HandlerActs) -> Generator[HandlerContext]:
        """With a folder on the host that is this try's alone: one that was given up may still write to its own."""
        services, work = self.services, self.work
        services.scratch.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=services.scratch))
        try:
            yield HandlerContext(
                task_id=work.task_id,
                emulator_id=work.emulator_id,
                account=work.account,
                doing=doing,
                things=self.things,
                facts=EmulatorFacts(self._ask),
                ask=self._ask,
                eyes=self.eyes,
                web=services.web,
                labels=InventoryLabels(services.inventory, work.emulator_id),
                scratch=folder,
                create=lambda name, size_max: services.writer.file(folder / checked_name(name), size_max),
                keep=lambda name, content: self.keep(name, content, doing.path),
                note=self.note,
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _ask(self, question: str) -> str:
        result = self.hands.ask(question, QUESTION_S)
        if result.rc and NOBODY_THERE in result.error_text + result.text:
            raise NotSentError("its services are not up", to=self.work.emulator_id)
        if result.rc:
            what = f"`{question[:80]}` said: {(result.error_text or result.text).strip()[:OUTPUT_LIMIT]}"
            raise CommandFailedError(what, rc=result.rc, to=self.work.emulator_id)
        return result.text


PACKAGES = "pm list packages -f --show-versioncode"
PLAIN_PACKAGES = "pm list packages -f"
"""Before Android 8 the versions are not told."""


class EmulatorFacts:
    """Asks through `ask`, which raises CommandFailedError when the emulator says no."""

    def __init__(self, ask: Callable[[str], str]) -> None:
        """`ask` carries one question to the emulator's shell."""
        self._ask = ask

    def properties(self) -> dict[str, str]:
        return parse.properties(self._ask("getprop"))

    def packages(self) -> tuple[InstalledPackage, ...]:
        try:
            return parse.installed_packages(self._ask(PACKAGES))
        except CommandFailedError:
            return parse.installed_packages(self._ask(PLAIN_PACKAGES))

    def storage(self) -> Storage | None:
        return parse.storage(self._ask("df -k /data"))

    def screen(self) -> Screen | None:
        size, density = parse.window_size(self._ask("wm size")), parse.density(self._ask("wm density"))
        return Screen(f"{size.width}x{size.height}", density) if size and density else None

    def window(self) -> Window | None:
        found = parse.focus(self._ask(FOCUS_LINE))
        return Window(found.window, found.not_responding) if found else None

    def labels(self) -> frozenset[str]:
        nodes = tree.parse(self._ask(TREE_LINE))
        return frozenset(word for node in nodes for word in (node.text, node.id) if word)
