"""Which processes make an instance on one machine, from the settings: Temporal, virtual emulators, worker, API."""

import importlib.util
import json
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from droidherd.cli.errors import CliError, NotReadyError
from droidherd.cli.local import embedded
from droidherd.cli.local.embedded import Profile
from droidherd.cli.local.layout import Layout
from droidherd.cli.local.ports import PortRegistry
from droidherd.cli.local.supervise import ProcessSpec
from droidherd.contracts import names
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.processes import pidfile
from droidherd.settings import Settings

END_ORDER = ("up", "api", "worker", "virtual", "temporal")
"""Who is ended first when somebody cleans up."""

READY_S = 60.0
HURRY_SLACK_S = 25.0
"""Beside the cleanup of its stages: what a worker may need to leave."""
POLL_S = 0.05
VIRTUAL = "virtual"


@dataclass(frozen=True, slots=True)
class HostPort:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Instance:
    """The processes, with every port settled."""

    def __init__(self, settings: Settings) -> None:
        """Nothing is claimed before it is asked for."""
        self.settings = settings
        self.layout = Layout(settings.data.absolute())
        self._ports = PortRegistry(self.layout.ports)

    @cached_property
    def temporal(self) -> HostPort:
        given = parse_address(self.settings.temporal.address)
        if not self.settings.temporal.embedded:
            return given
        return HostPort(given.host, self._ports.claim("temporal.address", given.port))

    @cached_property
    def ui_port(self) -> int:
        return self._ports.claim("temporal.ui_port", self.settings.temporal.ui_port)

    @cached_property
    def api(self) -> HostPort:
        api = self.settings.api
        return HostPort(api.host, self._ports.claim("api.port", api.port, host=api.host))

    @cached_property
    def adb_port(self) -> int:
        # A given port is not tried: an orphaned adb server may hold it, and only the worker can tell and end it.
        return self.settings.adb.port or self._ports.claim("adb.port", 0)

    @cached_property
    def metrics_port(self) -> int:
        return self._ports.claim("temporal.metrics_port", self.settings.temporal.metrics_port)

    def settle(self) -> None:
        """Judge the policies and claim every port, so that what is wrong is named before anything starts."""
        from droidherd.flows.catalogue import (
            catalogue_of,  # the whole language of flows: only who starts an instance needs it
        )

        catalogue_of(self.settings).check_policies()
        if self.settings.temporal.embedded:
            _ = (self.ui_port, self.metrics_port)
        _ = (self.temporal, self.api, self.adb_port)

    @property
    def environment(self) -> Mapping[str, str]:
        """What every process of the instance is told: flags and chosen ports reach them as settings."""
        return {
            "DROIDHERD_DATA": str(self.layout.data),
            "DROIDHERD_TEMPORAL__ADDRESS": str(self.temporal),
            "DROIDHERD_API__HOST": self.api.host,
            "DROIDHERD_API__PORT": str(self.api.port),
            "DROIDHERD_ADB__PORT": str(self.adb_port),
            "DROIDHERD_VIRTUAL": str(self.settings.virtual),
        }

    @property
    def urls(self) -> dict[str, str]:
        base = f"http://{self.api}"
        found = {"api": base, "docs": f"{base}/docs", "temporal": str(self.temporal)}
        if self.settings.temporal.embedded:
            found["temporal_ui"] = f"http://127.0.0.1:{self.ui_port}"
        return found

    def specs(self) -> list[tuple[str, Callable[[], ProcessSpec]]]:
        """What to start, in order. A spec is made when its turn comes, since it may need what came before."""
        found: list[tuple[str, Callable[[], ProcessSpec]]] = []
        if self.settings.temporal.embedded:
            found.append(("temporal", self._temporal))
        if self.settings.virtual:
            found.append((VIRTUAL, self._virtual))
        return [*found, ("worker", self._worker), ("api", self._api)]

    def _temporal(self) -> ProcessSpec:
        temporal = self.settings.temporal
        program = embedded.find_program(self.layout.programs)
        self.layout.database.parent.mkdir(parents=True, exist_ok=True)
        embedded.claim_database(self.layout.database, embedded.program_version(program))
        profile = Profile(
            port=self.temporal.port,
            database=self.layout.database,
            namespace=temporal.namespace,
            retention_days=temporal.retention_days,
            ui_port=self.ui_port,
            metrics_port=self.metrics_port,
        )

        def ready(pid: int) -> None:
            embedded.prepare(program, profile, alive=lambda: bool(pidfile.birth(pid)))

        return ProcessSpec("temporal", embedded.command(program, profile), ready, address=profile.address)

    def _virtual(self) -> ProcessSpec:
        self.layout.virtual.mkdir(parents=True, exist_ok=True)
        self.layout.virtual_ready.unlink(missing_ok=True)
        control = self._ports.claim("virtual.control_port", 0)
        line = [sys.executable, "-m", "droidherd.virtual", "--count", str(self.settings.virtual)]
        line += ["--state", str(self.layout.virtual), "--ready-file", str(self.layout.virtual_ready)]
        line += ["--control-port", str(control)]

        def ready(pid: int) -> None:
            content = wait_file(self.layout.virtual_ready, pid)
            enlist(Inventory(self.layout.data), content["emulators"])

        return ProcessSpec(VIRTUAL, line, ready, self.environment, address=f"127.0.0.1:{control}")

    def _worker(self) -> ProcessSpec:
        if not self.settings.virtual:
            enlist(Inventory(self.layout.data), [])
        found = importlib.util.find_spec("worker_main")
        if found is None or found.origin is None:
            raise CliError("worker_main.py is not installed", remedy="run `make setup` in the tree")
        program = embedded.find_program(self.layout.programs)
        # The host's own queue is the last one a worker opens; who polls it says so by pid and machine.
        queue = names.host_id(self.settings.host.id)

        def ready(pid: int) -> None:
            who = f"{pid}@{socket.gethostname()}"
            for _ in patience(READY_S, pid, f"does not poll {queue}"):
                if who in embedded.pollers(program, str(self.temporal), self.settings.temporal.namespace, queue):
                    return

        line = [sys.executable, found.origin, "run"]
        metrics = self.settings.telemetry.worker_metrics_port
        address = f"127.0.0.1:{metrics}" if metrics else ""
        timing = self.settings.timing
        hurry_s = timing.cleanup_s + HURRY_SLACK_S
        return ProcessSpec("worker", line, ready, self.environment, address, grace_s=timing.drain_s, hurry_s=hurry_s)

    def _api(self) -> ProcessSpec:
        line = [sys.executable, "-m", "api"]

        def ready(pid: int) -> None:
            wait_http(f"http://{self.api}/readyz", pid, serves=serves)

        return ProcessSpec("api", line, ready, self.environment, address=str(self.api))


def parse_address(text: str) -> HostPort:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise CliError(f"`temporal.address` is {text!r}", remedy="write host:port, for example 127.0.0.1:7243")
    return HostPort(host, int(port))


def enlist(inventory: Inventory, emulators: list[dict[str, str]]) -> None:
    """Put the virtual emulators of this start into the host's list, and take those of earlier starts out."""
    wanted = [
        InventoryEntry(
            emulator_id=one["emulator_id"],
            address=one["address"],
            serialno=one["serialno"],
            labels={"kind": VIRTUAL},
            controller=VIRTUAL,
        )
        for one in emulators
    ]
    inventory.enlist(VIRTUAL, wanted)


def wait_file(path: Path, pid: int, *, seconds: float = READY_S) -> dict[str, Any]:
    """What the process of this pid wrote when it was ready."""
    for _ in patience(seconds, pid, f"does not say that it is ready ({path.name})"):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(content, dict) and content.get("pid") == pid:
            return content
    return {}


def serves(answer: httpx.Response) -> bool:
    """Whether the API is ready, or lacks nothing but disk space: whoever frees space needs the API."""
    try:
        parts = {} if answer.is_success else answer.json()["parts"]
        return answer.is_success or {name for name, why in parts.items() if why} == {"disk"}
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def _is_success(answer: httpx.Response) -> bool:
    return answer.is_success


def wait_http(
    url: str, pid: int, *, seconds: float = READY_S, serves: Callable[[httpx.Response], bool] = _is_success
) -> None:
    with httpx.Client(timeout=5, trust_env=False) as client:
        for _ in patience(seconds, pid, f"{url} does not answer 200"):
            try:
                if serves(client.get(url)):
                    return
            except httpx.HTTPError:
                continue


def patience(seconds: float, pid: int, what: str) -> Iterator[None]:
    """Turns of a waiting loop; NotReadyError when time is up or the process is gone."""
    until = time.monotonic() + seconds
    while pidfile.birth(pid):
        yield
        if time.monotonic() >= until:
            raise NotReadyError(what)
        time.sleep(POLL_S)
    raise NotReadyError("it ended while it started")
