"""Flows on a virtual emulator, without an engine: the real adb server, the real stages, in this process."""

import itertools
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import JsonValue

from droidherd.adb.client import AdbClient
from droidherd.adb.server import AdbServer
from droidherd.artifacts.store import DirectoryStore
from droidherd.contracts.plan import Plan
from droidherd.domain.errors import BadParametersError
from droidherd.emulator import lease
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.emulator.probe import DeviceLink
from droidherd.emulator.token import Token
from droidherd.evidence.recording import RecordingWriter
from droidherd.flows.catalogue import Catalogue
from droidherd.flows.loading.document import parse_document
from droidherd.flows.loading.folder import FILE
from droidherd.flows.run.context import Tempo
from droidherd.flowtools.records import credential_store
from droidherd.flowtools.rehearsal import FlowRun, ManualSession, RunOptions, record_run, rehearse
from droidherd.flowtools.replay import FlowReplay
from droidherd.flowtools.replay import replay as replay_recording
from droidherd.handlers.registry import AnyHandler, Registry, build_registry
from droidherd.stage.context import StageServices
from droidherd.testing.arguments import (
    check_folder,
    check_kind,
    check_mapping,
    check_texts,
    flow_folder,
    handlers_of,
)
from droidherd.virtual.control import VirtualControl
from droidherd.virtual.process import VirtualFleet
from droidherd.web.allow import AllowList
from droidherd.web.client import WebClient

__all__ = [
    "FlowAccount",
    "FlowEmulator",
    "FlowReplay",
    "FlowRun",
    "record_flow",
    "replay",
    "run_flow",
    "virtual_emulator",
]

NAME, TASK = "virtual-1", "a-flow"
CONNECT_S, SHELL_S = 10.0, 10.0


@dataclass
class FlowEmulator:
    """A running one, behind an adb server of its own."""

    home: Path
    address: str
    adb: AdbClient
    control: VirtualControl
    """What happens to it: popups, faults, what its app shows. It goes by the name `virtual-1`."""
    name: str = NAME
    handlers: Registry = field(default_factory=build_registry)
    allow: tuple[str, ...] = ()
    leases: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def shell(self, line: str) -> str:
        """What a shell on it says."""
        return self.adb.shell(self.address, line, SHELL_S).text


@contextmanager
def virtual_emulator(
    size: tuple[int, int] = (1280, 720), *, handlers: Iterable[AnyHandler] = (), allow: Iterable[str] = ()
) -> Generator[FlowEmulator]:
    """One virtual emulator at its launcher, with nobody signed in.

    What its host would offer: `handlers`, beside ours and those of installed packages; `allow`, the servers that may
    be asked, as in the settings.
    """
    check_kind(size, tuple, "size", "write (1280, 720)")
    if [*map(type, size)] != [int, int] or min(size) < 1:
        raise BadParametersError(f"is {size!r}", to="size", remedy="write (1280, 720)")
    servers = check_texts(allow, "allow", "example.com")
    registry = build_registry(handlers_of(handlers))
    with TemporaryDirectory(prefix="droidherd-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        with (
            VirtualFleet.start(state=home / "virtual", count=1, size=size) as fleet,
            AdbServer(0, home / "adb", environment=os.environ) as server,
            fleet.control() as control,
        ):
            emulator = FlowEmulator(
                home,
                fleet.addresses[NAME],
                server.client(),
                control,
                handlers=registry,
                allow=servers,
            )
            DeviceLink(emulator.adb).ensure(emulator.address, deadline_s=CONNECT_S)
            lease.floor(emulator.adb, emulator.address, Token(next(emulator.leases)))
            Inventory(home).add(InventoryEntry(emulator_id=NAME, address=emulator.address))
            yield emulator


@dataclass(frozen=True, slots=True)
class FlowAccount:
    """The account a flow acts for, with the credentials it types."""

    name: str
    secrets: Mapping[str, str] = field(default_factory=dict)
    """By the name of the credential, the text itself."""

    @classmethod
    def of(cls, account: "str | FlowAccount") -> "FlowAccount":
        check_kind(account, str | FlowAccount, "account", "write its name, or FlowAccount('ann', {'password': '...'})")
        return cls(account) if isinstance(account, str) else account


def run_flow(
    flow: Path | str,
    emulator: FlowEmulator,
    params: Mapping[str, JsonValue] | None = None,
    tempo: Tempo | None = None,
    account: str | FlowAccount = "",
) -> FlowRun:
    """One attempt of a flow, stage by stage: a folder, or the text of a `flow.yaml` that needs no images.

    `account`: whom it acts for, if it acts for one.

    What does not fit (an unsound flow, a wrong parameter) is raised; what happens on the way is in the result.
    """
    check_running(emulator)
    folder = _write_flow(flow, emulator.home / "flows") if isinstance(flow, str) else flow_folder(flow)
    return _run(_wanted(folder, params, account, tempo), emulator, rehearse)


def record_flow(
    flow: Path,
    emulator: FlowEmulator,
    recording: Path,
    params: Mapping[str, JsonValue] | None = None,
    account: str | FlowAccount = "",
) -> FlowRun:
    """As `run_flow`, and writes down what is seen and done into the folder `recording`, for `replay`."""
    check_running(emulator)
    check_folder(recording, "recording")
    wanted = _wanted(flow_folder(flow), params, account, None)
    return _run(wanted, emulator, partial(record_run, tape=RecordingWriter(recording)))


@dataclass(frozen=True, slots=True)
class _Wanted:
    folder: Path
    params: Mapping[str, JsonValue]
    account: FlowAccount
    tempo: Tempo = field(default_factory=Tempo)


def replay(recording: Path, flow: Path | None = None) -> FlowReplay:
    """Run a flow against a recording, without an emulator. Default: the flow that was recorded, from the gallery."""
    check_folder(recording, "recording")
    return replay_recording(recording, None if flow is None else flow_folder(flow))


def check_running(emulator: object) -> None:
    if not hasattr(emulator, "home"):
        remedy = "write `with virtual_emulator() as emulator:`, and hand on what that gives"
        raise BadParametersError(f"is {emulator!r}", to="emulator", remedy=remedy)


def _wanted(
    folder: Path, params: Mapping[str, JsonValue] | None, account: str | FlowAccount, tempo: Tempo | None
) -> _Wanted:
    check_kind(tempo, Tempo | None, "tempo", "write Tempo(progress_s=1.0)")
    given = check_mapping({} if params is None else params, "params", "{'who': 'ann'}")
    return _Wanted(folder, given, FlowAccount.of(account), tempo or Tempo())


def _run(
    wanted: _Wanted, emulator: FlowEmulator, run: Callable[[Plan, StageServices, ManualSession, RunOptions], FlowRun]
) -> FlowRun:
    catalogue = Catalogue([wanted.folder.parent], handlers=emulator.handlers)
    plan = catalogue.plan(wanted.folder.name, wanted.params, account=wanted.account.name)
    number = next(emulator.leases)
    with WebClient(AllowList.of(emulator.allow)) as web:
        services = StageServices(
            emulator.adb,
            Inventory(emulator.home),
            catalogue,
            DirectoryStore(emulator.home / f"artifacts-{number}"),
            "test",
            credential_store(wanted.account.secrets, wanted.account.name),
            web,
            emulator.home / "scratch",
            wanted.tempo,
        )
        manner = RunOptions(task_id=TASK, account=wanted.account.name)
        return run(plan, services, ManualSession(NAME, number), manner)


def _write_flow(text: str, root: Path) -> Path:
    """A folder of the flow's own name."""
    data = parse_document(text.encode()).data
    name = data.get("flow") if isinstance(data, dict) else None
    if not isinstance(name, str) or not name.isidentifier():
        remedy = "begin with flow: <name>" if "\n" in text or ":" in text else f"write Path({text!r})"
        raise BadParametersError("the text names no flow", to="flow", remedy=remedy)
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(text, encoding="utf-8")
    return folder
