"""`droidherd status`: every process with pid, address and health; every emulator with its state."""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from droidherd.adb.server import pid_path
from droidherd.cli import output
from droidherd.cli.client import NOT_UP, SILENT, ApiClient, Document, NotServingError, nothing_runs, rows_of, urls_of
from droidherd.cli.errors import CliError
from droidherd.cli.local import ports
from droidherd.cli.local.instance import END_ORDER
from droidherd.cli.local.layout import Layout
from droidherd.cli.local.ports import parse_address
from droidherd.cli.options import Data, Json, Url, settings_of
from droidherd.domain import ids
from droidherd.domain.errors import DroidherdError
from droidherd.emulator.inventory import Inventory
from droidherd.processes import pidfile
from droidherd.processes.pidfile import PidFile

HEALTHY = "healthy"


app = typer.Typer()


@dataclass(frozen=True, slots=True)
class ProcessState:
    name: str
    pid: int
    address: str
    health: str
    """`healthy`, `dead`, or what is wrong."""
    up_s: float
    restarts: int


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """The whole instance."""

    data: str
    up: bool
    urls: dict[str, str]
    processes: tuple[ProcessState, ...]
    emulators: tuple[Document, ...]
    problems: tuple[str, ...]
    flows: tuple[str, ...] = ()
    """The folders in which it looks for flows."""

    @property
    def healthy(self) -> bool:
        return self.up and not self.problems and all(one.health == HEALTHY for one in self.processes)

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "healthy": self.healthy}


@app.command(epilog="Examples: droidherd host status   |   droidherd host status --json | jq .healthy")
def status(data: Data = None, url: Url = "", as_json: Json = False) -> None:
    """Every process with pid, address and health; every emulator with its state. Exit code 3: not running."""
    settings = settings_of(data)
    layout = Layout(settings.data.absolute())
    try:
        with ApiClient.of(settings, url) as api:
            found = collect(layout, api)
    except NotServingError as error:
        found = collect(layout, None, error.what)
    found = replace(found, flows=tuple(str(Path(one).absolute()) for one in settings.flows.paths))
    if as_json:
        output.emit(found.document())
    else:
        show(found)
    if not found.healthy:
        raise typer.Exit(1 if found.up else NOT_UP)


def collect(layout: Layout, api: ApiClient | None, why: str = "") -> InstanceStatus:
    """Look at everything once. Without an API: `why` there is none."""
    files = {file.name: file for file in pidfile.read_all(layout.run)}
    names = [name for name in reversed(END_ORDER) if name in files]
    states = [_state(files[name], api) for name in [*names, *sorted(set(files) - set(names))]]
    states.extend(_adb_server(layout, api))
    silent = next((one.health for one in states if one.name == "api" and one.health.startswith(SILENT)), "")
    # Whoever does not say whether it is well answers no longer question either.
    emulators, problem = _emulators(layout, None, f"the API {silent}") if silent else _emulators(layout, api, why)
    up = "up" in files and files["up"].lives()
    named = {"api": api.url, "docs": f"{api.url}/docs"} if api else {}
    urls = {**named, **(urls_of(layout) if up else {})}
    # A column of the table has no room for what is wrong.
    wrong = [f"{one.name}: {one.health}" for one in states if one.name == "api" and one.health != HEALTHY]
    problems = tuple(filter(None, [problem, *wrong])) if up else ()
    return InstanceStatus(str(layout.data), up, urls, tuple(states), emulators, problems)


def show(status: InstanceStatus) -> None:
    if not status.processes:
        output.out.print(nothing_runs(status.data))
        return
    rows = [
        [
            one.name,
            str(one.pid),
            one.address,
            one.health,
            output.age(one.up_s) if one.up_s else "",
            str(one.restarts or ""),
        ]
        for one in status.processes
    ]
    output.out.print(output.table(["process", "pid", "address", "health", "up", "restarts"], rows))
    output.out.print()
    flows = {"flows": ", ".join(map(_folder, status.flows))} if status.flows else {}
    for name, url in {"instance": status.data, **flows, **status.urls}.items():
        output.out.print(f"  {name:<12} {escape(url)}")
    if status.emulators:
        output.out.print()
        output.out.print(
            output.table(
                ["emulator", "state", "address", "host", "pool", "task"], [_row(one) for one in status.emulators]
            )
        )
    for problem in status.problems:
        output.err.print(f"[yellow]{escape(problem)}[/yellow]")


def _folder(path: str) -> str:
    return path if Path(path).is_dir() else f"{path} (not there)"


def _row(emulator: Document) -> list[str]:
    names = ("emulator_id", "state", "address", "host", "pool", "task")
    return [str(emulator.get(name) or "") for name in names]


def _state(file: PidFile, api: ApiClient | None) -> ProcessState:
    alive = file.lives()
    health = _health(file, api) if alive else "dead"
    up_s = round(time.time() - file.started_at, 1) if alive else 0.0
    return ProcessState(file.name, file.pid, file.address, health, up_s, file.restarts)


def _adb_server(layout: Layout, api: ApiClient | None) -> Iterator[ProcessState]:
    """The worker's own child, by the pid file in its home."""
    file = pidfile.read(pid_path(layout.adb))
    if file is not None and file.lives():
        yield replace(_state(file, api), name="adb")


def _health(file: PidFile, api: ApiClient | None) -> str:
    if file.name == "api":
        return (api.healthy() or HEALTHY) if api else "does not serve yet"
    if file.address:
        address = parse_address(file.address)
        if not ports.answers(address.port, address.host):
            return f"nothing answers at {file.address}"
    return HEALTHY


def _emulators(layout: Layout, api: ApiClient | None, why: str) -> tuple[tuple[Document, ...], str]:
    """What Temporal knows of them, and where this host's list says they are."""
    try:
        listed = {one.emulator_id: one.address for one in Inventory(layout.data).load()}
    except DroidherdError as error:
        return (), str(error)
    known: list[Document] = []
    if api is not None:
        try:
            known = rows_of(api.get("/api/emulators"), "emulators")
        except CliError as error:
            why = error.what
    if why:
        unknown = [{"emulator_id": name, "address": address, "state": "unknown"} for name, address in listed.items()]
        return tuple(unknown), why
    found = [{**one, "address": one.get("address") or listed.get(str(one.get("emulator_id")), "")} for one in known]
    seen = {str(one.get("emulator_id")) for one in known}
    late = [
        {"emulator_id": name, "address": address, "state": "not seen yet"}
        for name, address in listed.items()
        if name not in seen
    ]
    return tuple(sorted([*found, *late], key=lambda one: ids.natural(str(one.get("emulator_id"))))), ""
