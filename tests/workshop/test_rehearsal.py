"""One attempt of a flow without an engine. What runs through is in tests/testing/test_flows.py."""

from pathlib import Path

from droidherd.artifacts.store import DirectoryStore
from droidherd.emulator.inventory import Inventory
from droidherd.flows.catalogue import Catalogue
from droidherd.stay import Outfit
from droidherd.tapes.recording import read
from droidherd.tapes.tape import Tape
from droidherd.testing.flows import VirtualEmulator
from droidherd.web.allow import AllowList
from droidherd.web.client import Web
from droidherd.workshop.records import keeper
from droidherd.workshop.rehearsal import FlowRun, Manner, recorded
from droidherd.workshop.seat import take


def run(emulator: VirtualEmulator, folder: Path, manner: Manner, heard: list[str]) -> FlowRun:
    catalogue = Catalogue()
    with Web(AllowList.of(())) as web:
        outfit = Outfit(
            emulator.adb,
            Inventory(emulator.home),
            catalogue,
            DirectoryStore(folder),
            "test",
            keeper({}),
            web,
            folder / "scratch",
            heard=heard.append,
        )
        plan = catalogue.plan("daily_reward", {})
        seat = take(emulator.adb, emulator.name, emulator.address)
        return recorded(plan, outfit, seat, manner, Tape(folder / "tape"))


def test_a_run_that_is_asked_to_stop_does_so_at_a_step_and_cleans_up(emulator: VirtualEmulator, tmp_path: Path):
    steps: list[str] = []
    heard: list[str] = []
    manner = Manner(stopping=lambda: "Ctrl-C" if "open 6" in steps else "", stepped=steps.append)
    done = run(emulator, tmp_path, manner, heard)
    assert ("Ctrl-C", None, True, ()) == (done.stopped, done.error, done.clean, done.stages)
    assert "open 7" not in done.steps
    assert not emulator.control.state(emulator.name)["app"]["running"]
    assert [*done.log] == heard
    assert "stopped: Ctrl-C" == read(tmp_path / "tape").end


def test_one_flow_may_be_tried_again_and_again(emulator: VirtualEmulator, tmp_path: Path):
    for number in range(2):
        done = run(emulator, tmp_path / str(number), Manner(), [])
        assert (None, True, 3) == (done.error, done.clean, len(done.stages)), done.log
