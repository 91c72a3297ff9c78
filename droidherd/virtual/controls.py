"""The side channel, emulator side: JSON lines on a loopback port. Nothing of it goes through ADB."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import JsonValue

from droidherd.virtual.dump import dump
from droidherd.virtual.faults import UnknownFaultError
from droidherd.virtual.frames import Frames
from droidherd.virtual.machine import REBOOT_S
from droidherd.virtual.seat import Seat

LINE_LIMIT = 1 << 20

Request: TypeAlias = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Controls:
    """Carries out requests on the seats of one process."""

    seats: Mapping[str, Seat]
    frames: Frames

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one answer per line."""
        try:
            while line := await reader.readline():
                writer.write(json.dumps(await self.answer(line)).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):
            return
        finally:
            writer.close()

    async def answer(self, line: bytes) -> dict[str, JsonValue]:
        try:
            request: JsonValue = json.loads(line)
            if not isinstance(request, dict):
                return _refused("a request is an object")
            return {"ok": True, "result": await self._carry_out(request)}
        except (ValueError, UnknownFaultError, OSError) as problem:
            return _refused(str(problem))

    async def _carry_out(self, request: Request) -> JsonValue:
        op = str(request.get("op", ""))
        if op == "list":
            return [self._listed(seat) for seat in self.seats.values()]
        if op == "frames":
            return {"kept_bytes": self.frames.kept_bytes}
        acts: dict[str, Callable[[Seat, Request], Awaitable[JsonValue]]] = {
            "state": _state, "counters": _counters, "set_fault": _set_fault, "clear_fault": _clear_fault, "kill": _kill,
            "start": _start, "reboot": _reboot, "drop": _drop, "app": _app, "log": _log, "swap_ports": self._swap,
            "dump": _dump,
        }  # fmt: skip
        if op not in acts:
            raise ValueError(f"no operation {op!r}; known: {', '.join(['list', 'frames', *acts])}")
        return await acts[op](self._seat(request.get("emulator")), request)

    def _seat(self, name: JsonValue) -> Seat:
        if not isinstance(name, str) or name not in self.seats:
            raise ValueError(f"no emulator {name!r}; known: {', '.join(self.seats)}")
        return self.seats[name]

    def _listed(self, seat: Seat) -> JsonValue:
        body = seat.emulator.body
        return {
            "emulator_id": body.emulator_id,
            "serialno": body.serialno,
            "address": seat.address,
            "listening": seat.listening,
        }

    async def _swap(self, seat: Seat, request: Request) -> JsonValue:
        """Two emulators change places, as after a restart in another order."""
        other = self._seat(request.get("other"))
        for each in (seat, other):
            await each.deafen()
            await each.drop()
        seat.port, other.port = other.port, seat.port
        for each in (seat, other):
            each.listen()
        return {seat.emulator.body.emulator_id: seat.address, other.emulator.body.emulator_id: other.address}


async def _state(seat: Seat, _request: Request) -> JsonValue:
    return {**seat.emulator.state(), "address": seat.address, "listening": seat.listening}


async def _counters(seat: Seat, _request: Request) -> JsonValue:
    return dict(seat.emulator.counters())


async def _dump(seat: Seat, _request: Request) -> JsonValue:
    return dump(seat.emulator)


async def _set_fault(seat: Seat, request: Request) -> JsonValue:
    times, options = request.get("times"), request.get("options") or {}
    if not (times is None or (isinstance(times, int) and times > 0)) or not isinstance(options, dict):
        raise ValueError("`times` is a positive number, `options` an object")
    name = str(request.get("fault", ""))
    seat.emulator.faults.set(name, times, options)
    seat.emulator.files.full = seat.emulator.faults.has("disk_full")
    if name == "auth":
        await seat.drop()
    return list[JsonValue](seat.emulator.faults.active())


async def _clear_fault(seat: Seat, request: Request) -> JsonValue:
    name = request.get("fault")
    seat.emulator.faults.clear(str(name) if name else None)
    seat.emulator.files.full = seat.emulator.faults.has("disk_full")
    return list[JsonValue](seat.emulator.faults.active())


async def _kill(seat: Seat, _request: Request) -> JsonValue:
    await seat.kill()
    return None


async def _start(seat: Seat, request: Request) -> JsonValue:
    seat.emulator.faults.clear("stall")
    await seat.start(_seconds(request, 0.0))
    return seat.address


async def _reboot(seat: Seat, request: Request) -> JsonValue:
    await seat.reboot(_seconds(request, REBOOT_S))
    return seat.emulator.boot


async def _drop(seat: Seat, _request: Request) -> JsonValue:
    await seat.drop()
    return None


async def _app(seat: Seat, request: Request) -> JsonValue:
    changes = request.get("changes")
    if not isinstance(changes, dict):
        raise ValueError("`changes` is an object")  # noqa: TRY004 - it is the request that has no sense
    seat.emulator.show(changes)
    return seat.emulator.state()["app"]


async def _log(seat: Seat, request: Request) -> JsonValue:
    seat.emulator.log.add(str(request.get("tag", "test")), str(request.get("text", "")), str(request.get("level", "I")))
    return None


def _seconds(request: Request, default: float) -> float:
    value = request.get("boot_s", default)
    if not isinstance(value, int | float) or not 0 <= value <= 600:  # noqa: PLR2004 - ten minutes are a broken boot
        raise ValueError("`boot_s` is a number of seconds, at most 600")
    return float(value)


def _refused(why: str) -> dict[str, JsonValue]:
    return {"ok": False, "error": why}
