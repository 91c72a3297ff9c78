"""The side channel, emulator side: JSON lines on a loopback port. Nothing of it goes through ADB."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import JsonValue

from droidherd.domain.task.things import OWN_FOLDER, OWN_PROPERTIES
from droidherd.virtual.endpoint import EmulatorEndpoint
from droidherd.virtual.faults import UnknownFaultError
from droidherd.virtual.files import WRITABLE
from droidherd.virtual.frames import VirtualFrames
from droidherd.virtual.machine import REBOOT_S, VirtualDevice
from droidherd.virtual.tables import NAMESPACES

LINE_LIMIT = 1 << 20

Request: TypeAlias = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ControlServer:
    """Carries out requests on the emulators of one process."""

    endpoints: Mapping[str, EmulatorEndpoint]
    frames: VirtualFrames

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one answer per line. A line that is no request ends it.

        A web page can send any lines to a port of this machine, but the head of an HTTP request comes first.
        """
        try:
            while line := await reader.readline():
                answer = await self.answer(line)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
                if not line.startswith(b"{"):
                    return
        except (ConnectionError, ValueError):
            return
        finally:
            writer.close()

    async def answer(self, line: bytes) -> dict[str, JsonValue]:
        try:
            request: JsonValue = json.loads(line)
            if not isinstance(request, dict):
                return _refusal("a request is an object")
            return {"ok": True, "result": await self._perform(request)}
        except (ValueError, UnknownFaultError, OSError) as problem:
            return _refusal(str(problem))

    async def _perform(self, request: Request) -> JsonValue:
        op = str(request.get("op", ""))
        if op == "list":
            return [self._list(endpoint) for endpoint in self.endpoints.values()]
        acts: dict[str, Callable[[EmulatorEndpoint, Request], Awaitable[JsonValue]]] = {
            "state": _state, "counters": _counters, "set_fault": _set_fault, "clear_fault": _clear_fault, "kill": _kill,
            "start": _start, "reboot": _reboot, "drop": _drop, "app": _app, "log": _log, "swap_ports": self._swap,
            "dump": _dump,
        }  # fmt: skip
        if op not in acts:
            raise ValueError(f"no operation {op!r}; known: {', '.join(['list', 'frames', *acts])}")
        return await acts[op](self._endpoint(request.get("emulator")), request)

    def _endpoint(self, name: JsonValue) -> EmulatorEndpoint:
        if not isinstance(name, str) or name not in self.endpoints:
            raise ValueError(f"no emulator {name!r}; known: {', '.join(self.endpoints)}")
        return self.endpoints[name]

    def _list(self, endpoint: EmulatorEndpoint) -> JsonValue:
        body = endpoint.emulator.body
        return {
            "emulator_id": body.emulator_id,
            "serialno": body.serialno,
            "address": endpoint.address,
            "listening": endpoint.listening,
        }

    async def _swap(self, endpoint: EmulatorEndpoint, request: Request) -> JsonValue:
        """Two emulators swap ports, as after a restart in another order."""
        other = self._endpoint(request.get("other"))
        for each in (endpoint, other):
            await each.deafen()
            await each.drop()
        endpoint.port, other.port = other.port, endpoint.port
        for each in (endpoint, other):
            each.listen()
        return {endpoint.emulator.body.emulator_id: endpoint.address, other.emulator.body.emulator_id: other.address}


async def _state(endpoint: EmulatorEndpoint, _request: Request) -> JsonValue:
    return {**endpoint.emulator.state(), "address": endpoint.address, "listening": endpoint.listening}


async def _counters(endpoint: EmulatorEndpoint, _request: Request) -> JsonValue:
    return dict(endpoint.emulator.counters())


async def _dump(endpoint: EmulatorEndpoint, _request: Request) -> JsonValue:
    return dump(endpoint.emulator)


async def _set_fault(endpoint: EmulatorEndpoint, request: Request) -> JsonValue:
    times, options = request.get("times"), request.get("options") or {}
    if not (times is None or (isinstance(times, int) and times > 0)) or not isinstance(options, dict):
        raise ValueError("`times` is a positive number, `options` an object")
    name = str(request.get("fault", ""))
    endpoint.emulator.faults.set(name, times, options)
    endpoint.emulator.files.full = endpoint.emulator.faults.has("disk_full")
    if name == "auth":
        await endpoint.drop()
    return list[JsonValue](endpoint.emulator.faults.active())


async def _clear_fault(endpoint: EmulatorEndpoint, request: Request) -> JsonValue:
    name = request.get("fault")
    endpoint.emulator.faults.clear(str(name) if name else None)
    endpoint.emulator.files.full = endpoint.emulator.faults.has("disk_full")
    return list[JsonValue](endpoint.emulator.faults.active())


async def _kill(endpoint: EmulatorEndpoint, _request: Request) -> JsonValue:
    await endpoint.kill()
    return None


async def _start(endpoint: EmulatorEndpoint, request: Request) -> JsonValue:
    endpoint.emulator.faults.clear("stall")
    await endpoint.start(_seconds(request, 0.0))
    return endpoint.address


async def _reboot(endpoint: EmulatorEndpoint, request: Request) -> JsonValue:
    await endpoint.reboot(_seconds(request, REBOOT_S))
    return endpoint.emulator.boot


async def _drop(endpoint: EmulatorEndpoint, _request: Request) -> JsonValue:
    await endpoint.drop()
    return None


async def _app(endpoint: EmulatorEndpoint, request: Request) -> JsonValue:
    changes = request.get("changes")
    if not isinstance(changes, dict):
        raise ValueError("`changes` is an object")  # noqa: TRY004 - it is the request that has no sense
    endpoint.emulator.show(changes)
    return endpoint.emulator.state()["app"]


async def _log(endpoint: EmulatorEndpoint, request: Request) -> JsonValue:
    endpoint.emulator.log.add(
        str(request.get("tag", "test")), str(request.get("text", "")), str(request.get("level", "I"))
    )
    return None


def _seconds(request: Request, default: float) -> float:
    value = request.get("boot_s", default)
    if not isinstance(value, int | float) or not 0 <= value <= 600:  # noqa: PLR2004 - ten minutes are a broken boot
        raise ValueError("`boot_s` is a number of seconds, at most 600")
    return float(value)


def _refusal(why: str) -> dict[str, JsonValue]:
    return {"ok": False, "error": why}


def dump(emulator: VirtualDevice) -> dict[str, JsonValue]:
    """Settings, screen, properties, packages and files; droidherd's own lease and journal aside.

    A property that is empty counts as absent, since nobody can ask whether it is there. Where Android installed a
    package is left out: that is another place each time.
    """
    window = emulator.window
    settings = {namespace: dict[str, JsonValue](emulator.settings.all(namespace)) for namespace in NAMESPACES}
    properties = {
        name: value
        for name, value in emulator.properties.all().items()
        if value and not name.startswith(OWN_PROPERTIES)
    }
    packages = {
        name: {"version_code": each.version_code, "version_name": each.version_name, "digest": each.digest}
        for name, each in emulator.packages.third_party().items()
    }
    return {
        "settings": dict[str, JsonValue](settings),
        "wm": {"size": "{}x{}".format(*window.size), "density": window.density},
        "properties": dict[str, JsonValue](properties),
        "packages": dict[str, JsonValue]({name: dict[str, JsonValue](each) for name, each in packages.items()}),
        "files": dict[str, JsonValue]({path: facts for root in WRITABLE for path, facts in _tree(emulator, root)}),
    }


def _tree(emulator: VirtualDevice, folder: str) -> list[tuple[str, JsonValue]]:
    found: list[tuple[str, JsonValue]] = []
    files = emulator.files
    for name in files.names(folder):
        path = f"{folder}/{name}"
        if path == OWN_FOLDER:
            continue
        mode = f"{files.stat(path).mode:o}"
        if files.kind(path) == "directory":
            found += [(path, mode), *_tree(emulator, path)]
        else:
            digest = hashlib.sha256(files.read(path)).hexdigest()
            found.append((path, f"{mode} {files.size(path)} {digest}"))
    return found
