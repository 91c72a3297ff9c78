"""A recorded run is a test without an emulator."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from droidherd.domain.ports import Frame
from droidherd.evidence.recording import FILE, Recording, RecordingWriter, read
from droidherd.flows.catalogue import GALLERY, Catalogue
from droidherd.flowtools.replay import Player, compare
from droidherd.flowtools.replay import replay as replay_recording
from droidherd.testing.flows import FlowEmulator, record_flow, replay


@pytest.fixture(scope="module")
def recorded(running: FlowEmulator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The flow `daily_reward` on an emulator where a popup comes up."""
    folder = tmp_path_factory.mktemp("runs") / "daily_reward"
    running.shell("pm clear com.example.herd; input keyevent KEYCODE_HOME")
    running.control.popup(running.name)
    run = record_flow(GALLERY / "daily_reward", running, folder, account="ann")
    assert run.error is None, run.log
    return folder


def flow_with(root: Path, old: str, new: str) -> Path:
    """The flow that was recorded, changed."""
    folder = root / "daily_reward"
    shutil.copytree(GALLERY / "daily_reward", folder)
    text = (folder / "flow.yaml").read_text()
    assert old in text
    (folder / "flow.yaml").write_text(text.replace(old, new))
    return folder


def test_an_unchanged_flow_does_as_was_recorded(recorded: Path):
    done = replay(recorded)
    assert (True, ()) == (done.same, done.differences), done.log
    assert len(read(recorded).acts()) == done.acts > 8
    assert Catalogue().flow("daily_reward").hash == read(recorded).flow_hash


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            'text: "${account}"',
            'text: "x${account}"',
            "open 6: expected type ann (recorded at open 6), found type xann",
        ),
        (
            "      - stop_app: {}\n",
            "",
            "open 1: expected stop_app com.example.herd (recorded at open 1), found start_app",
        ),
        (
            "      - tap: {image: ok.png, then: {image: gift_collected.png, within: 10s}}\n",
            "",
            "expected tap 744, 456 (recorded at collect 3), found stop_app com.example.herd",
        ),
        (
            "then: {image: gift_collected.png, within: 10s}",
            "then: {image: app_icon.png, within: 10s}",
            "collect 3: expected stop_app com.example.herd (recorded at close 1), found step 3: app_icon.png did not",
        ),
    ],
)
def test_a_flow_that_goes_another_way_is_shown_where(recorded: Path, tmp_path: Path, old: str, new: str, expected: str):
    (difference,) = replay(recorded, flow_with(tmp_path, old, new)).differences
    assert expected in str(difference)


def test_a_flow_that_ends_too_early_leaves_something_out(recorded: Path, tmp_path: Path):
    text = (GALLERY / "daily_reward" / "flow.yaml").read_text()
    last = text[text.index("  - stage: close") :]
    (difference,) = replay(recorded, flow_with(tmp_path, last, "")).differences
    assert "close 1: expected stop_app com.example.herd, found nothing" in str(difference)


def test_a_flow_that_goes_on_is_reported(recorded: Path, tmp_path: Path):
    (difference,) = replay(recorded, flow_with(tmp_path, "cleanup:\n", "cleanup:\n  - key: {name: home}\n")).differences
    assert "expected stop_app" in str(difference)


def test_two_runs_are_held_against_each_other(recorded: Path):
    whole = read(recorded)
    assert () == compare(whole, whole)
    acts = whole.acts()
    some = whole.moments[: whole.moments.index(acts[-1])]
    shorter = Recording(recorded, whole.flow, whole.params, some, end="StuckError")
    (less,) = compare(whole, shorter)
    (more,) = compare(shorter, whole)
    assert "found nothing; it ended: StuckError" in str(less)
    assert "expected nothing more" in str(more)
    (end,) = compare(whole, Recording(recorded, whole.flow, whole.params, whole.moments, end="failed"))
    assert "the end: expected completed, found failed" == str(end)


def test_a_recording_that_was_cut_off_replays_as_far_as_it_goes(recorded: Path, tmp_path: Path):
    copy = tmp_path / "cut"
    shutil.copytree(recorded, copy)
    lines = (copy / FILE).read_text().splitlines()
    (copy / FILE).write_text("\n".join(lines[:8]) + "\n")
    (difference,) = replay(copy).differences
    assert "expected nothing more" in str(difference) or "did not" in str(difference)


@pytest.mark.parametrize(
    ("steps", "ended"),
    [
        ("[{start_app: {app: com.no.such}}, {key: {name: home}}]", "step 1: effect 1 failed: "),
        ("[{repeat: {at_most: 20, while: {gone: {ui: {id: x}}}, do: [{tap: {percent: [1, 99]}}]}}]", "12 times of"),
        ("[{repeat: {at_most: 2, until: {ui: {id: x}}, do: [{key: {name: back}}]}}]", "its turns: "),
    ],
)
def test_a_run_that_failed_fails_again_at_the_same_step(running: FlowEmulator, tmp_path: Path, steps: str, ended: str):
    flow = tmp_path / "failing"
    flow.mkdir()
    cleanup = "cleanup: [{key: {name: back}}]"
    (flow / "flow.yaml").write_text(f"flow: failing\nstages: [{{stage: only, steps: {steps}}}]\n{cleanup}\n")
    run = record_flow(flow, running, tmp_path / "run")
    assert ended in str(run.error)
    done, whole = replay(tmp_path / "run", flow), read(tmp_path / "run")
    assert ((), len(whole.acts())) == (done.differences, done.acts), done.log
    assert () == compare(whole, Recording(tmp_path, "", {}, whole.moments, end=whole.end))
    flow.joinpath("flow.yaml").write_text(
        f"flow: failing\nstages: [{{stage: only, steps: [{{key: {{name: menu}}}}]}}]\n{cleanup}\n"
    )
    assert replay(tmp_path / "run", flow).differences


def test_a_recording_of_the_emulator_alone_is_held_against_the_same_end(running: FlowEmulator, tmp_path: Path):
    flow = tmp_path / "failing"
    flow.mkdir()
    steps = "[{key: {name: home}}, {start_app: {app: com.no.such}}]"
    (flow / "flow.yaml").write_text(f"flow: failing\nstages: [{{stage: only, steps: {steps}}}]\n")
    record_flow(flow, running, tmp_path / "run")
    whole = read(tmp_path / "run")
    assert whole.end.startswith("step 2: effect 2 failed: ")
    older = dataclasses.replace(whole, end=whole.end.replace("step 2", "127.0.0.1:5555"))
    assert () == replay_recording(older, flow).differences
    assert () == compare(whole, older)


def test_the_elements_that_are_seen_are_those_of_the_frame_before(tmp_path: Path):
    tape = RecordingWriter(tmp_path)
    tape.begin("visit", {})
    for level in (1, 2):
        tape.look(Frame(2, 1, bytes([level, 0, 0, 255]) * 2, 0.0))
        tape.tree(f"<hierarchy><node text='{level}'/></hierarchy>")
    player = Player(read(tmp_path))
    player.look()
    player.look()
    assert "text='2'" in player.tree()
    assert "text='2'" in player.tree()
    assert 2 == player.look().rgba[0]
