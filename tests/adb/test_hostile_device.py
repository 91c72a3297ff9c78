"""A device that answers garbage, endless, huge, slowly, nothing, or closes, at each step of the protocol.

Behind the real adb server. For each step and manner: the call ends with an error that names device and step, the
process takes no more memory than a whole answer may have, and other emulators are served meanwhile.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from droidherd.adb import cameras, parse
from droidherd.adb.client import AdbClient
from droidherd.adb.files import DeviceFiles
from droidherd.adb.server import AdbServer, AdbServerLimits
from droidherd.adb.shell import ShellResult
from droidherd.domain.errors import DroidherdError, FinalError
from droidherd.domain.text import visible
from droidherd.emulator.eyes import FOCUS_LINE, answered_by, dump_tree
from droidherd.emulator.hands import EmulatorHands
from droidherd.emulator.probe import DeviceLink, probe
from droidherd.emulator.things import EmulatorThings
from droidherd.emulator.token import Token
from droidherd.vision.pixels import decode_png
from tests.adb import hostile
from tests.adb.hostile import MANNERS, HostileDevice, Step, hostile_device
from tests.emulator.farm import LONG_S, Farm, small_farm

DEADLINES_S = (0.5, 5.0, 25.0)
"""Of a call; a longer one where the machine was too busy for the device to be asked in time."""
HANG_S = 60.0
OURS_MAX_BYTES = 160 << 20
"""More than before, of this process at its peak: an answer of a shell has 32 MB, and is copied while it is read."""
SERVER_MAX_BYTES = 96 << 20
"""Of the adb server."""
PROGRAM_BYTES = 16 << 20
"""What it has mapped of its program, which is no part of its limit."""
CONTENT = b"x" * 400_000
LIMIT = 32 << 20


@dataclass(frozen=True)
class Call:
    """One call to a device that misbehaves."""

    adb: AdbClient
    address: str
    within_s: float

    @property
    def files(self) -> DeviceFiles:
        return DeviceFiles(self.adb, self.address)

    def shell(self, line: str) -> object:
        return self.adb.shell(self.address, line, self.within_s)

    def connect(self) -> object:
        return DeviceLink(self.adb, (self.within_s,)).ensure(self.address, deadline_s=self.within_s)

    def camera(self, number: int) -> object:
        return cameras.every_camera(self.adb, decode_png)[number].take(self.address, self.within_s)

    def thing(self, thing: str, name: str) -> object:
        things = EmulatorThings(cast("EmulatorHands", Asking(self)), lambda: self.files, Token(1), lambda: None)
        return things.read(thing, name)

    def focus(self) -> object:
        with answered_by(self.address, "dumpsys window"):
            return parse.focus(self.adb.shell(self.address, FOCUS_LINE, self.within_s).text)


@dataclass(frozen=True)
class Asking:
    """Hands that nobody guards: the device would answer the guard, too."""

    call: Call

    @property
    def serial(self) -> str:
        return self.call.address

    def ask(self, question: str, takes_s: float = 0.0) -> ShellResult:
        return self.call.adb.shell(self.serial, question, self.call.within_s + takes_s)


OPERATIONS: dict[str, Callable[[Call], object]] = {
    "CNXN": Call.connect,
    "AUTH": Call.connect,
    "screencap -p": lambda call: call.camera(1),
    **dict.fromkeys((one.name for one in hostile.FRAMEBUFFERS), lambda call: call.camera(2)),
    "probe": lambda call: probe(call.adb, call.address, call.within_s),
    "dumpsys": Call.focus,
    "uiautomator dump": lambda call: dump_tree(call.adb, call.address, call.within_s),
    "pm": lambda call: call.thing("package", "com.example.herd"),
    "getprop": lambda call: call.thing("property", "debug.x"),
    "settings": lambda call: call.thing("setting", "global/x"),
    "file facts": lambda call: call.thing("file", "/sdcard/x"),
    **dict.fromkeys((one.name for one in hostile.STATS), lambda call: call.files.stat("/sdcard/x", call.within_s)),
    **dict.fromkeys(
        (one.name for one in hostile.PULLS), lambda call: call.files.pull("/sdcard/x", call.within_s, LIMIT)
    ),
    **dict.fromkeys(
        (one.name for one in hostile.PUSHES), lambda call: call.files.push(CONTENT, "/sdcard/x", call.within_s)
    ),
    **dict.fromkeys((one.name for one in hostile.SCREENS), lambda call: call.camera(0)),
}
"""By step; all others run a shell line."""
NAMED = {
    "CNXN": ("the adb server", "nothing answers", "shell"), "AUTH": ("the adb server", "nothing answers", "shell"),
    "dumpsys": ("shell", "dumpsys window"),
    "probe": ("shell", "probe", "uptime", "expected"), "uiautomator dump": ("shell", "elements of the screen"),
    "pm": ("shell", "pm path", "package"), "getprop": ("shell", "property"), "settings": ("shell", "setting"),
    "file facts": ("shell", "the emulator answered", "file "),
    **dict.fromkeys((one.name for one in hostile.STATS), ("stat /sdcard/x",)),
    **dict.fromkeys((one.name for one in hostile.PULLS), ("pull /sdcard/x", "/sdcard/x")),
    **dict.fromkeys((one.name for one in hostile.PUSHES), ("push /sdcard/x", "/sdcard/x")),
    **dict.fromkeys((one.name for one in (*hostile.SCREENS, *hostile.PNGS)), ("screencap", "pixels", "PNG")),
    **dict.fromkeys((one.name for one in hostile.FRAMEBUFFERS), ("framebuffer", "pixels")),
}  # fmt: skip
"""Words one of which an error has to have, so that a person knows what was asked; of all others `shell`."""
ANSWERS = {"dumpsys", "getprop", "settings", "sync STAT"}
"""Where rubbish may be an answer like any other: a text is a text."""


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Generator[Farm]:
    with small_farm(tmp_path_factory.mktemp("hostile-device")) as made:
        yield made


def _status(pid: int | str, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:"))) << 10


@contextmanager
def takes_little(server_pid: int) -> Generator[None]:
    """The peak of what this process holds, by the kernel: also what OpenCV and zlib take."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _status("self", "VmRSS")
    yield
    assert _status("self", "VmHWM") - before < OURS_MAX_BYTES
    assert _status(server_pid, "VmRSS") < SERVER_MAX_BYTES


@contextmanager
def serving_others(farm: Farm) -> Generator[None]:
    """All the while, a good emulator behind the same adb server answers."""
    over = threading.Event()
    wrong: list[object] = []
    good = farm.fleet.addresses["virtual-1"]

    def ask() -> None:
        while not over.wait(0.05):
            try:
                answer = farm.adb.shell(good, "echo well", LONG_S).text
            except DroidherdError as error:
                answer = str(error)
            if answer != "well\n":
                wrong.append(answer)

    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(ask)
        try:
            yield
        finally:
            over.set()
        asking.result(HANG_S)
    assert [] == wrong


def _attempt(farm: Farm, device: HostileDevice, step: Step, manner: str) -> tuple[object, DroidherdError | None]:
    """What a call gave, or raised, once the device had its turn."""
    given: object = None
    for within_s in DEADLINES_S:
        device.step = None
        if step.service not in {"greeting", "auth"}:
            DeviceLink(farm.adb).ensure(device.address, deadline_s=LONG_S)
        device.turn(step, manner)
        call = Call(farm.adb, device.address, within_s)
        try:
            given = OPERATIONS.get(step.name, partial(Call.shell, line="echo secret-of-a-player"))(call)
        except DroidherdError as error:
            if device.struck.is_set():
                return None, error
        else:
            return given, None
        farm.adb.disconnect(device.address)
    raise AssertionError("the device was never asked")


def _judge(farm: Farm, step: Step, manner: str, *, rude: bool = False) -> list[str]:
    """What is wrong with how the call ended."""
    wrong: list[str] = []
    with hostile_device(farm.fleet.addresses["virtual-1"]) as device:
        device.rude = rude
        given, error = _attempt(farm, device, step, manner)
        farm.adb.disconnect(device.address)
        if error is None:
            if not (step.name in ANSWERS and manner in {"garbage", "huge"}):
                wrong.append(f"{manner}: it gave {str(given)[:100]}")
            return wrong
        text = str(error)
        if device.address not in text and not isinstance(error, FinalError):  # of a value: the task names its emulator
            wrong.append(f"{manner}: the device is not named: {text[:300]}")
        if not any(word in text for word in NAMED.get(step.name, ("shell",))):
            wrong.append(f"{manner}: the step is not named: {text[:300]}")
        if visible(text) != text or "secret-of-a-player" in text:
            wrong.append(f"{manner}: {text[:300]!r}")
    return wrong


SILENCES = {("AUTH", "endless")}
"""The adb server signs each token first, so it answers nobody: `tests/e2e/test_hostile_device.py`."""
FLOODS = {("CNXN", "endless")}
"""The adb server collects them: they may end it."""


@pytest.mark.parametrize("step", hostile.EVERY, ids=lambda step: step.name.replace(" ", "-"))
def test_a_hostile_device_costs_its_own_call_and_nothing_else(farm: Farm, step: Step):
    farm.emulator("virtual-1")
    with (
        takes_little(farm.server.pid),
        serving_others(farm),
        ThreadPoolExecutor(len(MANNERS)) as threads,
    ):
        manners = [manner for manner in MANNERS if (step.name, manner) not in SILENCES | FLOODS]
        judged = [threads.submit(_judge, farm, step, manner) for manner in manners]
        assert [] == [problem for one in judged for problem in one.result(HANG_S * 2)]


@pytest.mark.parametrize(
    ("step", "rude"),
    [
        (hostile.PROTOCOL[0], False),
        *((step, True) for step in (hostile.SHELLS[0], hostile.PULLS[0], hostile.SCREENS[0])),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_a_device_that_floods_the_adb_server_takes_no_more_than_its_limit(
    tmp_path: Path, farm: Farm, step: Step, *, rude: bool
):
    with AdbServer(
        0, tmp_path / "adb", environment=os.environ, limits=AdbServerLimits(memory_bytes=SERVER_MAX_BYTES)
    ) as server:
        flooded = Farm(farm.fleet, server, farm.control)
        flooded.emulator("virtual-1")
        pid = server.pid
        with hostile_device(farm.fleet.addresses["virtual-1"]) as device:
            device.rude = rude
            _, error = _attempt(flooded, device, step, "endless")
            assert error is not None
            with contextlib.suppress(FileNotFoundError, StopIteration):  # gone at its limit, or not yet reaped
                assert _status(pid, "VmHWM") < SERVER_MAX_BYTES + PROGRAM_BYTES
        server.ensure()
        good = flooded.emulator("virtual-1").address
        assert "well\n" == flooded.adb.shell(good, "echo well", LONG_S).text


def test_a_device_that_takes_nothing_in_ends_a_push_at_its_deadline(farm: Farm):
    farm.emulator("virtual-1")
    with hostile_device(farm.fleet.addresses["virtual-1"]) as device, takes_little(farm.server.pid):
        device.deaf = True
        step = hostile.PUSHES[0]
        DeviceLink(farm.adb).ensure(device.address, deadline_s=LONG_S)
        device.turn(step, "nothing")
        with pytest.raises(DroidherdError, match=rf"{device.address}: push /sdcard/x: no answer within"):
            DeviceFiles(farm.adb, device.address).push(CONTENT * 20, "/sdcard/x", 2.0)
        farm.adb.disconnect(device.address)
