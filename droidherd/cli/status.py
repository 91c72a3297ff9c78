"""`droidherd status`: every process with pid, address and health; every emulator with its state."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from droidherd.adb.server import pid_file
from droidherd.cli import output, ports, processes
from droidherd.cli.door import Document, Door, rows_of
from droidherd.cli.errors import CliError
from droidherd.cli.house import END_ORDER, parse_address
from droidherd.cli.layout import Layout
from droidherd.cli.processes import PidFile
from droidherd.domain.errors import DroidherdError
from droidherd.emulator.inventory import Inventory

HEALTHY = "healthy"


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
class Status:
    """The whole house."""

    data: str
    up: bool
    urls: dict[str, str]
    processes: tuple[ProcessState, ...]
    emulators: tuple[Document, ...]
    problems: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        return self.up and not self.problems and all(one.health == HEALTHY for one in self.processes)

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "healthy": self.healthy}


def collect(layout: Layout, door: Door) -> Status:
    """Look at everything once."""
    files = {file.name: file for file in processes.read_all(layout.run)}
    names = [name for name in reversed(END_ORDER) if name in files]
    states = [_state(files[name], door) for name in [*names, *sorted(set(files) - set(names))]]
    states.extend(_adb_server(layout))
    emulators, problem = _emulators(layout, door)
    up = "up" in files and processes.lives(files["up"])
    return Status(
        str(layout.data), up, {"api": door.url}, tuple(states), emulators, (problem,) if problem and up else ()
    )


def show(status: Status) -> None:
    if not status.processes:
        output.out.print(f"nothing runs in {status.data}; start it with `droidherd up`")
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
    if status.emulators:
        output.out.print()
        output.out.print(
            output.table(
                ["emulator", "state", "address", "host", "pool", "task"], [_row(one) for one in status.emulators]
            )
        )
    for problem in status.problems:
        output.err.print(f"[yellow]{problem}[/yellow]")


def _row(emulator: Document) -> list[str]:
    names = ("emulator_id", "state", "address", "host", "pool", "task")
    return [str(emulator.get(name) or "") for name in names]


def _state(file: PidFile, door: Door) -> ProcessState:
    alive = processes.lives(file)
    health = _health(file, door) if alive else "dead"
    up_s = round(time.time() - file.started_at, 1) if alive else 0.0
    return ProcessState(file.name, file.pid, file.address, health, up_s, file.restarts)


def _adb_server(layout: Layout) -> Iterator[ProcessState]:
    """The worker's own child, by the worker's own pid file."""
    file = pid_file(layout.adb)
    process = file.process()
    if process is None:
        return
    try:
        port = int(json.loads(file.path.read_text(encoding="utf-8"))["port"])
        up_s = round(time.time() - process.create_time(), 1)
    except (OSError, ValueError, KeyError, psutil.Error):
        return  # it was replaced while we looked; the next look sees the new one
    health = HEALTHY if ports.answers(port) else f"nothing answers at port {port}"
    yield ProcessState("adb", process.pid, f"127.0.0.1:{port}", health, up_s, 0)


def _health(file: PidFile, door: Door) -> str:
    if file.name == "api":
        return door.healthy() or HEALTHY
    if file.address:
        address = parse_address(file.address)
        if not ports.answers(address.port, address.host):
            return f"nothing answers at {file.address}"
    return HEALTHY


def _emulators(layout: Layout, door: Door) -> tuple[tuple[Document, ...], str]:
    """What the engine knows of them, and where this host's list says they are."""
    try:
        listed = {one.emulator_id: one.address for one in Inventory(layout.data).load()}
    except DroidherdError as error:
        return (), str(error)
    try:
        known = rows_of(door.get("/api/emulators"), "emulators")
    except CliError as error:
        unknown = [{"emulator_id": name, "address": address, "state": "unknown"} for name, address in listed.items()]
        return tuple(unknown), error.what
    found = [{**one, "address": one.get("address") or listed.get(str(one.get("emulator_id")), "")} for one in known]
    seen = {str(one.get("emulator_id")) for one in known}
    late = [
        {"emulator_id": name, "address": address, "state": "not seen yet"}
        for name, address in listed.items()
        if name not in seen
    ]
    return tuple(sorted([*found, *late], key=lambda one: _natural(str(one.get("emulator_id"))))), ""


def _natural(text: str) -> tuple[str | int, ...]:
    """`virtual-10` after `virtual-9`."""
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text))
