"""What a stage that a worker runs leaves behind can be replayed."""

import gc
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from droidherd.artifacts.store import DirectoryStore
from droidherd.domain.errors import BadParametersError
from droidherd.emulator.inventory import Inventory
from droidherd.evidence import frame_buffer
from droidherd.evidence.recording import PACKED, read
from droidherd.evidence.trace import Trace
from droidherd.flows.catalogue import GALLERY, Catalogue
from droidherd.flows.run.watch import ScreenWatch
from droidherd.flowtools.manual_session import take
from droidherd.flowtools.records import credential_store
from droidherd.flowtools.rehearsal import FlowRun, RunOptions, rehearse
from droidherd.flowtools.replay import FlowReplay, compare
from droidherd.stage.context import Recordings, StageServices
from droidherd.testing.flows import FlowEmulator, record_flow, replay
from droidherd.web.allow import AllowList
from droidherd.web.client import WebClient

COLLECT = "then: {image: gift_collected.png, within: 10s}"
TASK = "a-task"


@dataclass
class Place:
    """A flow of the gallery, changed, and what its stages left."""

    emulator: FlowEmulator
    root: Path

    @property
    def flow(self) -> Path:
        return self.root / "flows" / "daily_reward"

    @property
    def left(self) -> Path:
        return self.root / "artifacts" / TASK

    def written(self, old: str, new: str) -> None:
        shutil.rmtree(self.flow, ignore_errors=True)
        shutil.copytree(GALLERY / "daily_reward", self.flow)
        file = self.flow / "flow.yaml"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    def run(self, recordings: Recordings = "failed") -> FlowRun:
        """Stage by stage, by the code of a worker."""
        catalogue = Catalogue([self.flow.parent])
        with WebClient(AllowList.of(())) as web:
            services = StageServices(
                self.emulator.adb,
                Inventory(self.emulator.home),
                catalogue,
                DirectoryStore(self.root / "artifacts"),
                "test",
                credential_store({}),
                web,
                self.root / "scratch",
                recordings=recordings,
            )
            plan = catalogue.plan("daily_reward", {}, account="ann")
            session = take(self.emulator.adb, self.emulator.name, self.emulator.address)
            return rehearse(plan, services, session, RunOptions(TASK))

    def names(self) -> list[str]:
        """Without attempt and try."""
        return sorted(path.name.split("-", 3)[-1] for path in self.left.glob(f"*{PACKED}"))

    def replayed(self) -> FlowReplay:
        return replay(self.left, self.flow)


def holding() -> int:
    """Those of past stages that hold on to a frame. (A frame buffer may: it has a limit.)"""
    return sum(type(one) in (ScreenWatch, Trace) and one.last is not None for one in gc.get_objects())


@pytest.fixture
def place(emulator: FlowEmulator, tmp_path: Path) -> Place:
    return Place(emulator, tmp_path)


def test_a_failed_stage_replays_to_the_same_end_and_a_fixed_flow_goes_on(place: Place):
    place.written(COLLECT, "then: {image: app_icon.png, within: 500ms}")
    run = place.run()
    assert "step 3: app_icon.png did not appear" in str(run.error)
    assert [f"collect{PACKED}"] == place.names(), "of stages that completed nothing is kept"
    done = place.replayed()
    assert ((), 3, ("begins at collect",)) == (done.differences, done.acts, done.notes)
    place.written(COLLECT, COLLECT)
    (difference,) = (replayed := place.replayed()).differences
    assert "step 3: app_icon.png did not appear" in difference.expected
    assert "completed" == difference.found
    assert "the flow is another one by now" in replayed.notes
    place.written("- tap: {image: ok.png, then", "- tap: {image: gift.png, then")
    (difference,) = place.replayed().differences
    assert ("collect 3", "tap 744, 456") == (difference.step, difference.expected)
    assert difference.found.startswith("nothing: step 3: gift.png did not appear")


def test_a_replay_of_what_left_the_buffer_begins_behind_an_act_and_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(frame_buffer, "PER_EMULATOR", 2)
    place.written("\n      - screenshot: {name: collected}", "\n      - wait: {image: ok.png, within: 500ms}")
    run = place.run()
    assert "step 4: ok.png did not appear" in str(run.error)
    done = place.replayed()
    assert () == done.differences, done.log
    assert done.acts < 3, "how many depends on what the frame buffer had no time for"
    assert f"begins at collect, behind step {3 - done.acts}: of what was before, no frames are left" == done.notes[0]


def test_if_asked_for_stages_that_completed_leave_one_too(place: Place, tmp_path: Path):
    place.written(COLLECT, COLLECT)
    run = place.run("always")
    assert run.error is None
    assert [f"{stage}{PACKED}" for stage in ("close", "collect", "open")] == place.names()
    for path in place.left.glob(f"*{PACKED}"):
        done = replay(path, place.flow)
        assert done.same, (path.name, done)
    place.emulator.shell("pm clear com.example.herd; input keyevent KEYCODE_HOME")
    record_flow(place.flow, place.emulator, tmp_path / "whole", account="ann")
    opened = next(read(path) for path in place.left.glob(f"*open{PACKED}"))
    assert () == compare(opened, read(tmp_path / "whole")), "of the whole run, that stage"


def test_no_frame_outlives_a_stage_that_completed(place: Place):
    """A worker ends some forty stages per second, and each frame is 4 MB."""
    place.written(COLLECT, COLLECT)
    gc.collect()
    gc.disable()
    try:
        before = holding()
        assert place.run().error is None
        assert before == holding()
    finally:
        gc.enable()


def test_if_not_wanted_none_leaves_one(place: Place):
    place.written(COLLECT, "then: {image: app_icon.png, within: 500ms}")
    assert place.run("never").error is not None
    assert [] == place.names()
    assert [*place.left.glob("*evidence.html")]


def test_a_flow_that_lost_the_stage_says_so(place: Place):
    place.written(COLLECT, "then: {image: app_icon.png, within: 500ms}")
    place.run()
    place.written("stage: collect", "stage: gather")
    with pytest.raises(BadParametersError, match="the flow has no stage collect any more"):
        place.replayed()
