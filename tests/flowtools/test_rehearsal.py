"""One attempt of a flow without an engine. What runs through is in tests/testing/test_flows.py."""

from pathlib import Path

from droidherd.artifacts.store import DirectoryStore
from droidherd.emulator.inventory import Inventory
from droidherd.evidence.recording import RecordingWriter, read
from droidherd.flows.catalogue import Catalogue
from droidherd.flowtools.manual_session import take
from droidherd.flowtools.records import credential_store
from droidherd.flowtools.rehearsal import FlowRun, RunOptions, record_run
from droidherd.stage.context import StageServices
from droidherd.testing.flows import FlowEmulator
from droidherd.web.allow import AllowList
from droidherd.web.client import WebClient


def run(emulator: FlowEmulator, folder: Path, manner: RunOptions, heard: list[str]) -> FlowRun:
    catalogue = Catalogue()
    with WebClient(AllowList.of(())) as web:
        services = StageServices(
            emulator.adb,
            Inventory(emulator.home),
            catalogue,
            DirectoryStore(folder),
            "test",
            credential_store({}),
            web,
            folder / "scratch",
            on_line=heard.append,
        )
        plan = catalogue.plan("daily_reward", {}, account="ann")
        session = take(emulator.adb, emulator.name, emulator.address)
        return record_run(plan, services, session, manner, RecordingWriter(folder / "tape"))


def test_a_run_that_is_asked_to_stop_does_so_at_a_step_and_cleans_up(emulator: FlowEmulator, tmp_path: Path):
    steps: list[str] = []
    heard: list[str] = []
    manner = RunOptions(stopping=lambda: "Ctrl-C" if "open 6" in steps else "", stepped=steps.append)
    done = run(emulator, tmp_path, manner, heard)
    assert ("Ctrl-C", None, True, ()) == (done.stopped, done.error, done.clean, done.stages)
    assert "open 7" not in done.steps
    assert not emulator.control.state(emulator.name)["app"]["running"]
    assert [*done.log] == heard
    assert "stopped: Ctrl-C" == read(tmp_path / "tape").end


def test_one_flow_may_be_tried_again_and_again(emulator: FlowEmulator, tmp_path: Path):
    for number in range(2):
        done = run(emulator, tmp_path / str(number), RunOptions(), [])
        assert (None, True, 3) == (done.error, done.clean, len(done.stages)), done.log
