"""One emulator, one task that changes it, and a worker whose thread can be cut off at any call to the emulator."""

import contextlib
import itertools
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import JsonValue
from typing_extensions import override

from droidherd.adb.client import AdbClient
from droidherd.adb.files import DeviceFiles
from droidherd.adb.wire import CallInterrupt, Deadline, Wire
from droidherd.artifacts.store import DirectoryStore
from droidherd.contracts.changes import Undo, Value
from droidherd.contracts.plan import Plan
from droidherd.contracts.stage import Captured, StageReport, StageWork, UndoReport
from droidherd.domain.messages import Key
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.emulator.probe import DeviceLink
from droidherd.flows.catalogue import Catalogue
from droidherd.flowtools.records import credential_store
from droidherd.stage.attempt import StageAttempt
from droidherd.stage.capture import CaptureAttempt
from droidherd.stage.context import ConfirmedLifeline, StageServices
from droidherd.stage.undo import UndoAttempt
from droidherd.virtual.tinyapk import tiny_apk
from droidherd.web.allow import AllowList
from droidherd.web.client import WebClient, WebLimits
from tests.emulator.farm import LONG_S, One

APP = "com.example.extra"
OLD, NEW = tiny_apk(APP, 1, "1.0", b"old" * 5000), tiny_apk(APP, 2, "2.0", b"new" * 5000)
SETTLED = "/data/local/tmp/settled.cfg"
FRESH = "/sdcard/fresh.cfg"
GONE = "/sdcard/to be gone.bin"
GONE_CONTENT = bytes(range(256)) * 300
RUNS = itertools.count(1)

REARRANGE: list[JsonValue] = [
    {"set": {"setting": "global/animator_duration_scale", "to": "0.5"}},
    {"set": {"setting": "system/screen_brightness", "to": 7}},
    {"set": {"wm": "size", "to": "720x1280"}},
    {"set": {"wm": "density", "to": 240}},
    {"set": {"property": "debug.hwui.renderer", "to": "skiavk"}},
    {"put": {"file": SETTLED, "text": "mode=fast\n"}},
    {"optional": {"do": [{"put": {"file": FRESH, "from": "fresh.bin"}}]}},
    {"delete": {"file": GONE}},
    {"install": {"apk": "extra.apk"}},
    {"repeat": {"at_most": 2, "do": [{"set": {"setting": "secure/long_press_timeout", "to": "900"}}]}},
    {"set": {"setting": "global/animator_duration_scale", "to": "0.25"}},
    {"uninstall": {"package": "com.example.second"}},
]


class CutOffError(BaseException):
    """The thread is gone. Nothing in the product may catch this."""


class Life:
    """Always confirmed."""

    def __init__(self) -> None:
        self.beats: list[str] = []
        self.stops_after = 0
        """Asked to stop after so many beats; 0: never."""

    def beat(self, progress: str = "") -> None:
        self.beats.append(progress)

    def stopping(self) -> str:
        return "cancel" if 0 < self.stops_after < len(self.beats) else ""

    def leaving(self) -> bool:
        return False

    def confirmed_s(self) -> float:
        return time.monotonic()

    def begin_writing(self) -> None:
        pass

    def send(self, progress: str = "") -> Callable[[], None]:
        self.beat(progress)
        return lambda: None


class MortalAdb(AdbClient):
    """Counts its calls; at the given one the thread that makes it is cut off, before or after the call was sent."""

    dies_at = 0
    sent = False
    calls = 0

    @override
    @contextlib.contextmanager
    def service(
        self, serial: str, service: bytes, deadline: Deadline, interrupt: CallInterrupt | None = None, *, step: str
    ) -> Generator[Wire]:
        self.calls += 1
        if self.calls == self.dies_at and not self.sent:
            raise CutOffError(service)
        with super().service(serial, service, deadline, interrupt, step=step) as wire:
            if self.calls == self.dies_at:
                raise CutOffError(service)
            yield wire


@dataclass
class World:
    """A task on `one`, as its workflow would drive it."""

    one: One
    root: Path
    steps: list[JsonValue] = field(default_factory=lambda: [*REARRANGE])
    undo_steps: list[JsonValue] = field(default_factory=list[JsonValue])
    cleanup: list[JsonValue] = field(default_factory=list[JsonValue])
    tries: int = 0
    rollbacks: int = 1
    account: str = ""
    allow: tuple[str, ...] = ()
    read_s: float = 30.0
    """How long a server may be silent."""
    open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    """What is closed when the test ends."""

    def __post_init__(self) -> None:
        self.run = f"run{next(RUNS):08d}"
        self.flows = self.root / "flows"
        self.write_flow()
        self.inventory = Inventory(self.root)
        self.inventory.add(InventoryEntry(emulator_id="e1", address=self.one.address))
        self.store = DirectoryStore(self.root / "artifacts")
        self.adb = MortalAdb(self.one.adb.port)
        self.life = Life()
        self.catalogue = Catalogue([self.flows])
        self.plan: Plan = self.catalogue.plan("rearrange", {})

    def write_flow(self) -> None:
        folder = self.flows / "rearrange"
        (folder / "files").mkdir(parents=True, exist_ok=True)
        stage: dict[str, Any] = {"stage": "main", "on_ambiguous": "repeat", "steps": self.steps}
        if self.undo_steps:
            stage["undo"] = self.undo_steps
        flow = {"flow": "rearrange", "stages": [stage], **({"cleanup": self.cleanup} if self.cleanup else {})}
        (folder / "flow.yaml").write_text(yaml.safe_dump(flow), encoding="utf-8")
        used = str(self.steps)
        for name, content in (("extra.apk", NEW), ("fresh.bin", b"\0fresh\r\n" * 999)):
            if name in used:
                (folder / "files" / name).write_bytes(content)

    def replan(self, steps: list[JsonValue], **parts: list[JsonValue]) -> None:
        self.steps = steps
        self.undo_steps = parts.get("undo", [])
        self.cleanup = parts.get("cleanup", [])
        self.write_flow()
        self.plan = self.catalogue.plan("rearrange", {}, account=self.account)

    def gallery(self, task_type: str, *, account: str = "", **params: JsonValue) -> None:
        """Be a task of a built-in type."""
        self.catalogue, self.account = Catalogue(), account
        self.plan = self.catalogue.plan(task_type, params, account=account)

    # --- the emulator -----------------------------------------------------------------------------------------

    def clear(self) -> None:
        """As the task will find it: something to change, to replace, to delete and to take away."""
        self.shell("rm -rf /sdcard/* /data/local/tmp/*; wm size reset; wm density reset")
        self.shell("for s in animator_duration_scale display_size_forced x long; do settings delete global $s; done")
        self.shell("for s in long_press_timeout display_density_forced; do settings delete secure $s; done")
        self.shell("settings put system screen_brightness 102; setprop debug.hwui.renderer ''")
        self.shell(f"printf 'mode=slow\\n' >{SETTLED}; chmod 640 {SETTLED}")
        self.push(GONE, GONE_CONTENT)
        self.install(OLD)
        self.install(tiny_apk("com.example.second", 9, "9", b"second"))

    def reconnect(self) -> None:
        """As the host's probe loop does after a connection broke."""
        DeviceLink(self.one.adb).ensure(self.one.address, deadline_s=LONG_S)

    def shell(self, line: str) -> str:
        return self.one.adb.shell(self.one.address, line, LONG_S).text

    def push(self, path: str, content: bytes) -> None:
        DeviceFiles(self.one.adb, self.one.address).push(content, path, LONG_S)

    def install(self, apk: bytes) -> None:
        self.push("/data/local/tmp/x.apk", apk)
        name = "com.example.second" if b"second" in apk else APP
        output = self.shell(
            f"pm uninstall {name} >/dev/null; pm install /data/local/tmp/x.apk; rm /data/local/tmp/x.apk"
        )
        assert "Success" in output

    def dump(self) -> dict[str, Any]:
        return self.one.control.dump(self.one.name)

    # --- the task ---------------------------------------------------------------------------------------------

    def services(self) -> StageServices:
        limits = WebLimits(connect_s=30.0, read_s=self.read_s, wait_s=30.0)
        web, scratch = WebClient(AllowList.of(self.allow), limits), self.root / "scratch"
        self.open.enter_context(web)
        at_hand = (self.inventory, self.catalogue, self.store, "worker", credential_store({}), web, scratch)
        return StageServices(self.adb, *at_hand, writer=self.store.writer)

    def work(self, *, last: bool = False, lease: int = 0) -> StageWork:
        self.tries += 1
        return StageWork(
            task_id="task-1",
            key=Key("task-1", self.run, 1),
            emulator_id="e1",
            lease=lease or self.one.lease,
            stage_index=0,
            tries=self.tries,
            task_type="rearrange",
            flow=self.plan.flow,
            flow_hash=self.plan.flow_hash,
            account=self.account,
            stage=self.plan.stages[0],
            cleanup=self.plan.cleanup,
            last=last,
        )

    def life_line(self) -> ConfirmedLifeline:
        return self.life

    def all(self) -> tuple[Captured, StageReport]:
        """Capture, then run."""
        return self.capture(), self.stage(last=True)

    def capture(self) -> Captured:
        return CaptureAttempt(self.services(), self.work(), self.life_line()).capture()

    def stage(self, *, last: bool = False) -> StageReport:
        return StageAttempt(self.services(), self.work(last=last), self.life_line()).run()

    def undo(
        self,
        before: tuple[Value, ...],
        after: tuple[Value, ...] = (),
        *,
        force: bool = False,
        last: bool = True,
        unsaid: bool = False,
    ) -> UndoReport:
        """In the rollback that `rollbacks` counts. `unsaid`: it began once more since `after`."""
        stage = self.plan.stages[0]
        undo = Undo(
            stage_index=0,
            stage="main",
            emulator="e1",
            lease=self.one.lease,
            before=before,
            after=after,
            unsaid=unsaid,
            steps=stage.undo if after else stage.undo_anyway,
        )
        key = Key("task-1", f"{self.run}-undo", self.rollbacks)
        work = self.work(last=last).model_copy(update={"key": key})
        return UndoAttempt(self.services(), work, self.life_line(), undo=undo, force=force).take_back()

    # --- death ------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def cut_off(self, at: int, *, sent: bool) -> Generator[None]:
        """The thread dies at its call number `at` to the emulator, counted from here."""
        adb = self.adb
        adb.calls, adb.dies_at, adb.sent = 0, at, sent
        try:
            yield
        finally:
            adb.dies_at = 0
