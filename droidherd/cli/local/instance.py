"""Which processes make an instance on one machine, from the settings: Temporal, virtual emulators, worker, API."""

import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from droidherd.adb.server import pid_path
from droidherd.cli.local import embedded, ports
from droidherd.cli.local.embedded import Profile
from droidherd.cli.local.layout import Layout
from droidherd.cli.local.ports import HostPort, PortRegistry, PortSetting, parse_address
from droidherd.cli.local.supervise import ProcessSpec
from droidherd.contracts import inbound, names
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.engine.encryption import EncryptionKeys
from droidherd.processes import children, pidfile
from droidherd.settings import Settings, config_file

UI = "web-ui"
END_ORDER = ("up", UI, "api", "worker", "virtual", "temporal")
"""Who is ended first when somebody cleans up."""

HURRY_SLACK_S = 25.0
"""Beside the cleanup of its stages: what a worker may need to leave."""
VIRTUAL = "virtual"
TEMPORAL_PORT = "temporal.address"
UI_PORT = "DROIDHERD_TEMPORAL__UI_PORT"
USUAL_S = 5.0
"""A worker that is not ready after this may wait for a key: then the API is asked, too."""
ANSWER_S = 2.0
"""How long a process that starts may take for one answer: meanwhile nobody looks after the others."""
KEY = re.compile(r"encrypted with the key '([^']+)'")
"""What `/readyz` says while the dispatcher waits for a key."""
WORKER_REFUSED, API_REFUSED = 3, 2
"""Exit codes of processes that cannot work with these settings."""


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
        return HostPort(given.host, self.ports.get(TEMPORAL_PORT, given.port))

    @cached_property
    def api(self) -> HostPort:
        return HostPort(self.settings.api.host, self.ports["api.port"])

    @cached_property
    def ports(self) -> Mapping[str, int]:
        """By setting. PortTakenError names all that cannot be had."""
        kept = {"adb.port"} if self._adb_port_kept else set[str]()
        return self._ports.claim_all(*(one for one in wanted_ports(self.settings) if one.name not in kept))

    @cached_property
    def _keys(self) -> EncryptionKeys:
        """Those that its processes read."""
        return EncryptionKeys.of(self.settings)

    @cached_property
    def _adb_port_kept(self) -> int:
        """That is not tried: a port somebody chose, or one of an orphan of ours, which the worker ends."""
        if "port" in self.settings.adb.model_fields_set and self.settings.adb.port:
            return self.settings.adb.port
        orphan = pidfile.read(pid_path(self.layout.adb))
        return parse_address(orphan.address).port if orphan is not None and orphan.lives() else 0

    def settle(self) -> None:
        """Judge the policies and claim every port, so that what is wrong is named before anything starts."""
        from droidherd.flows.catalogue import (
            catalogue_of,  # the whole language of flows: only who starts an instance needs it
        )

        catalogue_of(self.settings).check_policies()
        _ = self._keys, self.ports

    @cached_property
    def _chosen(self) -> Mapping[str, str]:
        """What every process of the instance is told: flags and chosen ports reach them as settings."""
        return {
            "DROIDHERD_DATA": str(self.layout.data),
            "DROIDHERD_CONFIG": str(config_file(os.environ).absolute()),
            "DROIDHERD_TEMPORAL__ADDRESS": str(self.temporal),
            "DROIDHERD_API__HOST": self.api.host,
            "DROIDHERD_API__PORT": str(self.api.port),
            "DROIDHERD_ADB__PORT": str(self._adb_port_kept or self.ports["adb.port"]),
            "DROIDHERD_VIRTUAL": str(self.settings.virtual),
            **({"DROIDHERD_TEMPORAL__UI": "true", UI_PORT: str(self.ui_port)} if self.ui_port else {}),
        }

    @property
    def ui_port(self) -> int:
        """Of the Temporal Web UI; 0: there is none."""
        return self.ports.get("temporal.ui_port", 0)

    @property
    def worker_environment(self) -> Mapping[str, str]:
        return children.compiled_in({**children.worker_environment(os.environ), **self._chosen}, self.layout.compiled)

    @property
    def api_environment(self) -> Mapping[str, str]:
        return children.compiled_in({**children.api_environment(os.environ), **self._chosen}, self.layout.compiled)

    @property
    def urls(self) -> dict[str, str]:
        """Where a person finds what."""
        base = f"http://{self.api.reachable}"
        namespace = self.settings.temporal.namespace
        found = {"api": base, "docs": f"{base}/docs", "temporal": str(self.temporal), "namespace": namespace}
        if self.ui_port:
            found["temporal_ui"] = f"http://127.0.0.1:{self.ui_port}/namespaces/{namespace}/workflows"
        return found

    def missing_key(self, why: str) -> str:
        """The key that an API which is not ready waits for. Empty: none, or one that it had to wait for before."""
        found = KEY.search(why)
        return found[1] if found and found[1] not in self._keys.secrets else ""

    def _api_not_ready(self) -> str:
        why = not_serving(f"http://{self.api.reachable}/readyz", serves=serves)
        key = self.missing_key(why)
        return f"waits for a key: what the dispatcher has to know cannot be read: {inbound.locked(key)}" if key else why

    def _is_without_key(self, why: str) -> bool:
        """Keys are read when a process starts: waiting brings none."""
        return bool(self.missing_key(why))

    @property
    def _encrypts(self) -> bool:
        return bool(self.settings.encryption.keys or self.settings.encryption_file)

    def specs(self) -> Sequence[Sequence[Callable[[], ProcessSpec]]]:
        """What to start: group after group, each at once. A spec is made when its turn comes."""
        first = [self._temporal] if self.settings.temporal.embedded else []
        if self.settings.virtual:
            first.append(self._virtual)
        second = [self._worker, self._api]
        if "temporal.ui_port" in self.ports:
            second.append(self._web_ui)
        return [first, second]

    def _temporal(self) -> ProcessSpec:
        temporal = self.settings.temporal
        program = embedded.find_program(self.layout.programs)
        self.layout.database.parent.mkdir(parents=True, exist_ok=True)
        embedded.check_program(program, self.layout.database.with_name(embedded.CHECKED), temporal.program_digest)
        embedded.discard_unfinished(self.layout.database)
        embedded.claim_database(self.layout.database, embedded.program_version(program))
        profile = Profile(
            port=self.temporal.port,
            # Below the folder in which it runs: its metrics name this path to whoever asks.
            database=Path(self.layout.database.name),
            namespace=temporal.namespace,
            retention_days=temporal.retention_days,
            ui=self._hidden_ui if "temporal.ui_port" in self.ports else None,
            codec_endpoint=f"http://{self.api.reachable}/codec" if self._encrypts else "",
            metrics_port=self.ports["temporal.metrics_port"],
        )
        environment = children.system_environment(os.environ)

        def ready(_pid: int) -> str:
            if not ports.answers(profile.port):
                return f"does not listen at {profile.address}"
            return embedded.not_ready(program, profile)

        line = embedded.command(program, profile)

        def before() -> None:
            embedded.discard_unfinished(self.layout.database)

        at, folder = profile.address, self.layout.database.parent
        return ProcessSpec("temporal", line, ready, environment, address=at, before=before, folder=folder)

    def _virtual(self) -> ProcessSpec:
        self.layout.virtual.mkdir(parents=True, exist_ok=True)
        self.layout.virtual_ready.unlink(missing_ok=True)
        control = self._ports.claim(PortSetting("virtual.control_port", 0, chosen=False))
        line = children.python("droidherd.virtual", "--count", str(self.settings.virtual))
        line += ["--state", str(self.layout.virtual), "--ready-file", str(self.layout.virtual_ready)]
        line += ["--control-port", str(control)]

        def ready(pid: int) -> str:
            content = written_by(self.layout.virtual_ready, pid)
            if content is None:
                return f"does not say that it is ready ({self.layout.virtual_ready.name})"
            enlist(Inventory(self.layout.data), content["emulators"])
            return ""

        environment = children.compiled_in(children.system_environment(os.environ), self.layout.compiled)
        # After a restart they may be at other addresses.
        return ProcessSpec(VIRTUAL, line, ready, environment, address=f"127.0.0.1:{control}", checks_again=True)

    def _worker(self) -> ProcessSpec:
        if not self.settings.virtual:
            enlist(Inventory(self.layout.data), [])
        program = embedded.find_program(self.layout.programs)
        began_s = time.monotonic()
        # The host's own queue is the last one a worker opens; who polls it says so by pid and machine.
        queue = names.host_id(self.settings.host.id)

        def ready(pid: int) -> str:
            who = f"{pid}@{socket.gethostname()}"
            polling = embedded.pollers(program, str(self.temporal), self.settings.temporal.namespace, queue)
            if who in polling:
                return ""
            # The host's workflow waits for the same key as the dispatcher, and cannot say so.
            why = self._api_not_ready() if time.monotonic() - began_s > USUAL_S else ""
            return why if self._is_without_key(why) else f"does not poll {queue}"

        # By its path: its folder, ours, is the first in which it looks for modules.
        line = [sys.executable, str(children.ROOT / "worker_main.py"), "run"]
        metrics = self.settings.telemetry.worker_metrics_port
        timing = self.settings.timing
        return ProcessSpec(
            "worker",
            line,
            ready,
            self.worker_environment,
            f"127.0.0.1:{metrics}" if metrics else "",
            grace_s=timing.drain_s,
            hurry_s=timing.cleanup_s + HURRY_SLACK_S,
            refusals=frozenset({WORKER_REFUSED}),
            is_hopeless=self._is_without_key,
            standby=True,
        )

    @cached_property
    def _hidden_ui(self) -> HostPort:
        """Where Temporal serves its Web UI, which asks nobody who they are."""
        return ports.hidden()

    def _web_ui(self) -> ProcessSpec:
        """What stands in front of it."""
        at = HostPort("127.0.0.1", self.ports["temporal.ui_port"])

        def ready(_pid: int) -> str:
            return not_serving(f"http://{at}/")

        line = children.python("api.web_ui", "--port", str(at.port), "--behind", str(self._hidden_ui))
        environment = children.compiled_in(children.system_environment(os.environ), self.layout.compiled)
        return ProcessSpec(UI, line, ready, environment, address=str(at))

    def _api(self) -> ProcessSpec:
        def ready(_pid: int) -> str:
            return self._api_not_ready()

        return ProcessSpec(
            "api",
            children.python("api"),
            ready,
            self.api_environment,
            address=str(self.api),
            refusals=frozenset({API_REFUSED}),
            is_hopeless=self._is_without_key,
            standby=True,
        )


def wanted_ports(settings: Settings) -> Iterator[PortSetting]:
    """What an instance with these settings listens on."""
    temporal, api, adb = settings.temporal, settings.api, settings.adb
    if temporal.embedded:
        port = parse_address(temporal.address).port
        yield PortSetting(TEMPORAL_PORT, port, "address" in temporal.model_fields_set)
        if temporal.ui:
            yield PortSetting("temporal.ui_port", temporal.ui_port, "ui_port" in temporal.model_fields_set)
        yield PortSetting("temporal.metrics_port", temporal.metrics_port, "metrics_port" in temporal.model_fields_set)
    yield PortSetting("api.port", api.port, "port" in api.model_fields_set, api.host)
    yield PortSetting("adb.port", adb.port, "port" in adb.model_fields_set)


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


def written_by(path: Path, pid: int) -> dict[str, Any] | None:
    """What the process of this pid wrote when it was ready."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and content.get("pid") == pid else None


def serves(answer: httpx.Response) -> bool:
    """Whether the API is ready, or lacks nothing but disk space: whoever frees space needs the API."""
    try:
        parts = {} if answer.is_success else answer.json()["parts"]
        return answer.is_success or {name for name, why in parts.items() if why} == {"disk"}
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def _is_success(answer: httpx.Response) -> bool:
    return answer.is_success


def not_serving(url: str, *, serves: Callable[[httpx.Response], bool] = _is_success) -> str:
    """Why nobody serves there yet; empty when somebody does."""
    try:
        with httpx.Client(timeout=ANSWER_S, trust_env=False) as client:
            answer = client.get(url)
    except httpx.HTTPError as error:
        return f"{url} does not answer ({type(error).__name__})"
    return "" if serves(answer) else f"{url} answers {answer.status_code}: {answer.text[:500]}"
