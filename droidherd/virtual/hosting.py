"""A process full of virtual emulators."""

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

from droidherd.virtual.control_server import LINE_LIMIT, ControlServer
from droidherd.virtual.endpoint import EmulatorEndpoint
from droidherd.virtual.frames import VirtualFrames
from droidherd.virtual.machine import Body, VirtualDevice
from droidherd.virtual.store import VirtualStore, readable

_PARENT_POLL_S = 0.5
_FILES = 8192
PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class HostingPlan:
    """What to host, and where."""

    count: int
    ports: tuple[int, ...]
    """One per emulator, or none: then those of the last time, or any free ones."""
    state: Path
    size: tuple[int, int] = (1280, 720)
    control_port: int = 0
    ready_file: Path | None = None
    boot_s: float = 0.0
    parent: int = 0
    """End when this process is gone."""


async def host(plan: HostingPlan) -> None:
    """Until SIGTERM or SIGINT."""
    _raise_file_limit()
    frames = VirtualFrames()
    endpoints = {endpoint.emulator.body.emulator_id: endpoint for endpoint in _endpoints(plan, frames)}
    stop = _stop_signal()
    server = None
    try:
        for endpoint in endpoints.values():
            await _start(endpoint, plan)
        server = await asyncio.start_server(
            ControlServer(endpoints, frames).serve, "127.0.0.1", plan.control_port, limit=LINE_LIMIT
        )
        if plan.ready_file:
            _announce(plan.ready_file, endpoints, int(server.sockets[0].getsockname()[1]))
        await _until(stop, plan.parent)
    finally:
        if server:
            server.close()
        for endpoint in endpoints.values():
            await endpoint.close()
        frames.close()


def _raise_file_limit() -> None:
    """Each emulator holds a listener, a journal and its connections."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _endpoints(plan: HostingPlan, frames: VirtualFrames) -> list[EmulatorEndpoint]:
    endpoints: list[EmulatorEndpoint] = []
    for number in range(1, plan.count + 1):
        name = f"virtual-{number}"
        body = Body(name, f"VIRT{number:04d}", *plan.size, plan.state / name)
        with readable(body.folder):
            emulator = VirtualDevice(body, frames)
        endpoints.append(EmulatorEndpoint(emulator, plan.ports[number - 1] if plan.ports else 0))
    return endpoints


def last_port(store: VirtualStore) -> int:
    """Where it listened the last time; 0: any."""
    kept = int(str(store.load("endpoint").get("port", 0)))
    return kept if 0 <= kept <= PORT_MAX else 0


async def _start(endpoint: EmulatorEndpoint, plan: HostingPlan) -> None:
    """On the port asked for; else on that of the last time if it is free; else on any."""
    store = endpoint.emulator.store
    if not plan.ports:
        with readable(endpoint.emulator.body.folder):
            endpoint.port = last_port(store)
    try:
        await endpoint.start(plan.boot_s)
    except OSError:
        if plan.ports:
            raise
        endpoint.port = 0
        endpoint.listen()
    store.save("endpoint", {"port": endpoint.port})


def _stop_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(stop.set)

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, on_signal)
    return stop


async def _until(stop: asyncio.Event, parent: int) -> None:
    while not stop.is_set() and (not parent or psutil.pid_exists(parent)):
        try:
            # The time-out also lets Windows notice a signal, which its event loop does not wake up for.
            await asyncio.wait_for(stop.wait(), _PARENT_POLL_S)
        except TimeoutError:
            continue


def _announce(path: Path, endpoints: dict[str, EmulatorEndpoint], control_port: int) -> None:
    emulators = [
        {"emulator_id": name, "address": endpoint.address, "serialno": endpoint.emulator.body.serialno}
        for name, endpoint in endpoints.items()
    ]
    content = {"pid": os.getpid(), "control": f"127.0.0.1:{control_port}", "emulators": emulators}
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(json.dumps(content), "utf-8")
    os.replace(fresh, path)  # noqa: PTH105 - atomic, named as such
