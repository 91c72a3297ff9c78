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

from droidherd.virtual.controls import LINE_LIMIT, Controls
from droidherd.virtual.frames import Frames
from droidherd.virtual.machine import Body, VirtualEmulator
from droidherd.virtual.seat import Seat

_PARENT_POLL_S = 0.5
_FILES = 8192


@dataclass(frozen=True, slots=True)
class Plan:
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


async def host(plan: Plan) -> None:
    """Until SIGTERM or SIGINT."""
    _raise_file_limit()
    frames = Frames()
    seats = {seat.emulator.body.emulator_id: seat for seat in _seats(plan, frames)}
    stop = _stop_signal()
    server = None
    try:
        for seat in seats.values():
            await _start(seat, plan)
        server = await asyncio.start_server(
            Controls(seats, frames).serve, "127.0.0.1", plan.control_port, limit=LINE_LIMIT
        )
        if plan.ready_file:
            _announce(plan.ready_file, seats, int(server.sockets[0].getsockname()[1]))
        await _until(stop, plan.parent)
    finally:
        if server:
            server.close()
        for seat in seats.values():
            await seat.close()
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


def _seats(plan: Plan, frames: Frames) -> list[Seat]:
    seats: list[Seat] = []
    for number in range(1, plan.count + 1):
        name = f"virtual-{number}"
        body = Body(name, f"VIRT{number:04d}", *plan.size, plan.state / name)
        emulator = VirtualEmulator(body, frames)
        seats.append(Seat(emulator, plan.ports[number - 1] if plan.ports else 0))
    return seats


async def _start(seat: Seat, plan: Plan) -> None:
    """On the port asked for; else on that of the last time if it is free; else on any."""
    store = seat.emulator.store
    if not plan.ports:
        seat.port = int(str(store.load("seat").get("port", 0)))
    try:
        await seat.start(plan.boot_s)
    except OSError:
        if plan.ports:
            raise
        seat.port = 0
        seat.listen()
    store.save("seat", {"port": seat.port})


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


def _announce(path: Path, seats: dict[str, Seat], control_port: int) -> None:
    emulators = [
        {"emulator_id": name, "address": seat.address, "serialno": seat.emulator.body.serialno}
        for name, seat in seats.items()
    ]
    content = {"pid": os.getpid(), "control": f"127.0.0.1:{control_port}", "emulators": emulators}
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(json.dumps(content), "utf-8")
    os.replace(fresh, path)  # noqa: PTH105 - atomic, named as such
