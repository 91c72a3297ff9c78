"""Flows on a virtual emulator, without an engine: the real adb server, the real stages, in this process."""

import itertools
import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import JsonValue

from droidherd.adb.client import AdbClient
from droidherd.adb.server import AdbServer
from droidherd.artifacts.store import DirectoryStore
from droidherd.contracts.plan import Plan, TaskPhysics
from droidherd.contracts.stage import StageReport, StageWork
from droidherd.domain.errors import BadParametersError, DroidherdError
from droidherd.domain.messages import Key
from droidherd.domain.ports import Artifacts
from droidherd.emulator import lease
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.emulator.probe import Link
from droidherd.emulator.token import Token
from droidherd.flows.catalogue import Catalogue
from droidherd.flows.folder import FILE
from droidherd.flows.loader import parse_document
from droidherd.flows.run import Tempo
from droidherd.handlers.registry import AnyHandler, Registry, registered
from droidherd.stay import Outfit, Stay, StayError
from droidherd.testing.records import ACCOUNT, NO_SECRETS, keeper
from droidherd.virtual.control import Control
from droidherd.virtual.process import VirtualFleet
from droidherd.web.allow import AllowList
from droidherd.web.client import Web

NAME, TASK = "virtual-1", "a-flow"
CONNECT_S, SHELL_S = 10.0, 10.0


@dataclass
class VirtualEmulator:
    """A running one, behind an adb server of its own."""

    home: Path
    address: str
    adb: AdbClient
    control: Control
    """What happens to it: popups, faults, what its app shows. It goes by the name `virtual-1`."""
    name: str = NAME
    handlers: Registry = field(default_factory=registered)
    allow: tuple[str, ...] = ()
    leases: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def shell(self, line: str) -> str:
        """What a shell on it says."""
        return self.adb.shell(self.address, line, SHELL_S).text


@dataclass(frozen=True, slots=True)
class FlowRun:
    """What became of a flow."""

    error: DroidherdError | None
    """Why it did not complete."""
    clean: bool
    """The emulator was cleaned up and let go."""
    stages: tuple[StageReport, ...]
    """Those that completed."""
    steps: tuple[str, ...]
    """The way it went: `collect 2` is the second step of the stage collect, `open 3.1.2` one inside a block."""
    frames: Mapping[str, bytes]
    """PNG files by the names the flow gives them; `<stage>.failed.png` is what was seen last."""
    log: tuple[str, ...]


@contextmanager
def virtual_emulator(
    size: tuple[int, int] = (1280, 720), *, handlers: Iterable[AnyHandler] = (), allow: Iterable[str] = ()
) -> Generator[VirtualEmulator]:
    """One virtual emulator at its launcher, with nobody signed in.

    What its host would offer: `handlers`, beside ours and those of installed packages; `allow`, the servers that may
    be asked, as in the settings.
    """
    with TemporaryDirectory(prefix="droidherd-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        with (
            VirtualFleet.start(state=home / "virtual", count=1, size=size) as fleet,
            AdbServer(0, home / "adb", environment=os.environ) as server,
            fleet.control() as control,
        ):
            emulator = VirtualEmulator(
                home,
                fleet.addresses[NAME],
                server.client(),
                control,
                handlers=registered(handlers),
                allow=tuple(allow),
            )
            Link(emulator.adb).ensure(emulator.address, deadline_s=CONNECT_S)
            lease.floor(emulator.adb, emulator.address, Token(next(emulator.leases)))
            Inventory(home).add(InventoryEntry(emulator_id=NAME, address=emulator.address))
            yield emulator


def run_flow(
    flow: Path | str,
    emulator: VirtualEmulator,
    params: Mapping[str, JsonValue] | None = None,
    tempo: Tempo | None = None,
    secrets: Mapping[str, str] = NO_SECRETS,
) -> FlowRun:
    """One attempt of a flow, stage by stage: a folder, or the text of a `flow.yaml` that needs no images.

    `secrets`: by name, the credentials it types.

    What does not fit (an unsound flow, a wrong parameter) is raised; what happens on the way is in the result.
    """
    folder = flow if isinstance(flow, Path) else _written(flow, emulator.home / "flows")
    catalogue = Catalogue([folder.parent], handlers=emulator.handlers)
    plan = catalogue.plan(folder.name, params or {})
    number = next(emulator.leases)
    store = DirectoryStore(emulator.home / f"artifacts-{number}")
    with Web(AllowList.of(emulator.allow)) as web:
        outfit = Outfit(
            emulator.adb,
            Inventory(emulator.home),
            catalogue,
            store,
            "test",
            keeper(secrets),
            web,
            emulator.home / "scratch",
            tempo or Tempo(),
        )
        return _run(plan, outfit, number, ACCOUNT if secrets else "")


def _run(plan: Plan, outfit: Outfit, number: int, account: str) -> FlowRun:
    steps: list[str] = []
    log: list[str] = []
    reports: list[StageReport] = []
    error: DroidherdError | None = None
    clean = False
    for index, stage in enumerate(plan.stages):
        work = StageWork(
            task_id=TASK,
            key=Key(TASK, f"{number:08}", 1),
            emulator_id=NAME,
            lease=number,
            stage_index=index,
            tries=index + 1,
            task_type=plan.task_type,
            account=account,
            flow=plan.flow,
            flow_hash=plan.flow_hash,
            app=plan.app,
            stage=stage,
            cleanup=plan.cleanup,
            chart=plan.chart,
            last=index + 1 == len(plan.stages),
            physics=TaskPhysics(),
        )
        stay = Stay(outfit, work, _Life(stage.name, steps))
        try:
            reports.append(stay.run())
            clean = reports[-1].clean
        except StayError as stopped:
            error, clean = stopped.cause, stopped.clean
        log.extend(str(line["text"]) for line in stay.log)
        if error is not None:
            break
    return FlowRun(error, clean, tuple(reports), tuple(steps), _frames(outfit.artifacts), tuple(log))


@dataclass(slots=True)
class _Life:
    """Nobody listens, so every beat is confirmed at once; what beats say is the way."""

    stage: str
    steps: list[str]

    def beat(self, progress: str = "") -> None:
        step = f"{self.stage} {progress}"
        if any(letter.isdigit() for letter in progress) and step not in self.steps[-1:]:
            self.steps.append(step)

    def send(self, progress: str = "") -> Callable[[], None]:
        return lambda: self.beat(progress)

    def stopping(self) -> str:
        return ""

    def leaving(self) -> bool:
        return False

    def confirmed_s(self) -> float:
        return time.monotonic()


def _written(text: str, root: Path) -> Path:
    """A folder of the flow's own name."""
    data = parse_document(text.encode()).data
    name = data.get("flow") if isinstance(data, dict) else None
    if not isinstance(name, str) or not name.isidentifier():
        raise BadParametersError("the text names no flow", to="flow", remedy="begin with flow: <name>")
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(text, encoding="utf-8")
    return folder


def _frames(store: Artifacts) -> dict[str, bytes]:
    """Without the attempt, stage and try before their names."""
    names: Sequence[str] = [ref.name for ref in store.list(TASK) if ref.name.endswith(".png")]
    return {name.split("-", 3)[-1]: store.get(TASK, name) for name in names}
