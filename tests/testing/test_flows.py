"""Flows on a virtual emulator, in this process."""

import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from pydantic import JsonValue

from droidherd.domain.errors import (
    AddressRefusedError,
    BadParametersError,
    FlowError,
    ScreenNotReachedError,
    StageTimeoutError,
    StuckError,
)
from droidherd.flows.catalogue import GALLERY
from droidherd.flows.run.context import Tempo
from droidherd.testing.flows import FlowAccount, FlowEmulator, FlowRun, run_flow, virtual_emulator
from tests.handlers.server import serving

PNG = b"\x89PNG"
NEVER = """
flow: never
app: com.example.herd
policy: {{time_limit: {limit}}}
stages:
  - stage: hope
    steps:
      - start_app: {{then: {{gone: app_icon.png, within: 15s}}}}
      - wait: {{image: gift.png, within: {within}}}
cleanup:
  - stop_app: {{}}
"""
"""Nobody is signed in, so the gift never comes, and the screen does not change."""


@pytest.fixture(scope="module")
def running() -> Generator[FlowEmulator]:
    with virtual_emulator() as one:
        yield one


@pytest.fixture
def emulator(running: FlowEmulator) -> FlowEmulator:
    """At the launcher, signed out, with nothing collected."""
    running.shell("pm clear com.example.herd; input keyevent KEYCODE_HOME")
    return running


def never(root: Path, *, within: str = "20s", limit: str = "1m") -> Path:
    folder = root / "never"
    folder.mkdir()
    (folder / "flow.yaml").write_text(NEVER.format(within=within, limit=limit))
    for name in ("gift.png", "app_icon.png"):
        shutil.copy(GALLERY / "daily_reward" / name, folder / name)
    return folder


def completed(run: FlowRun) -> bool:
    return run.error is None and run.clean


@pytest.mark.parametrize(
    ("name", "params", "frames"),
    [
        ("sign_in", {}, ["enter.home.png"]),
        ("browse_list", {"pages": 2}, ["browse.page-1.png", "browse.page-2.png"]),
        ("start_app", {"app": "com.example.herd"}, []),
    ],
)
def test_a_flow_of_the_gallery_runs_through(
    emulator: FlowEmulator, name: str, params: dict[str, JsonValue], frames: list[str]
):
    run = run_flow(GALLERY / name, emulator, params, account="ann")
    assert completed(run), run.log
    assert frames == sorted(run.frames)
    assert all(content.startswith(PNG) for content in run.frames.values())


def test_a_run_says_which_way_it_went_and_what_the_emulator_became(emulator: FlowEmulator):
    run = run_flow(GALLERY / "daily_reward", emulator, account="ann")
    assert completed(run), run.log
    assert ["open", "collect", "close"] == list(dict.fromkeys(step.split()[0] for step in run.steps))
    assert 3 == len(run.stages)
    assert "collect 4" in run.steps
    state = emulator.control.state(emulator.name)["app"]
    assert ("ann", True) == (state["signed_in"], state["gift_taken"])


def test_a_flow_may_be_a_text(emulator: FlowEmulator):
    steps = "[{tap: {percent: [50, 97]}}, {screenshot: {name: after}}]"
    text = f"flow: tip\nstages: [{{stage: only, on_ambiguous: repeat, steps: {steps}}}]"
    run = run_flow(text, emulator)
    assert (None, ["only.after.png"]) == (run.error, list(run.frames))
    assert ["only 1", "only 2"] == [step for step in run.steps if not step.startswith("only c")]


def test_frames_of_one_name_from_two_uses_of_a_flow_are_all_kept(emulator: FlowEmulator, tmp_path: Path):
    (tmp_path / "look").mkdir()
    (tmp_path / "both").mkdir()
    shot = "{screenshot: {name: seen}}"
    once = f"[{{repeat: {{at_most: 2, do: [{shot}]}}}}, {shot}]"
    (tmp_path / "look" / "flow.yaml").write_text(f"flow: look\nstages: [{{stage: a, steps: {once}}}]")
    use = "{use: {flow: look}}"
    both = f"[{use}, {{key: {{name: home}}}}, {use}]"
    (tmp_path / "both" / "flow.yaml").write_text(f"flow: both\nstages: [{{stage: only, steps: {both}}}]")
    run = run_flow(tmp_path / "both", emulator)
    first = ["only.seen-1.png", "only.seen-2.png", "only.seen.png"]
    second = ["only.seen-1.2.png", "only.seen-2.2.png", "only.seen.2.png"]
    assert (None, sorted([*first, *second])) == (run.error, sorted(run.frames))


def test_what_is_wrong_with_a_flow_or_its_parameters_is_raised(emulator: FlowEmulator):
    with pytest.raises(BadParametersError, match="the text names no flow"):
        run_flow("stages: []", emulator)
    with pytest.raises(FlowError):
        run_flow("flow: empty\nstages: []", emulator)
    with pytest.raises(BadParametersError):
        run_flow(GALLERY / "sign_in", emulator, {"pasword": "x"}, account="ann")


# --- the two clocks ------------------------------------------------------------------------------------------


def test_a_flow_that_waits_in_vain_on_a_still_screen_is_stuck_with_evidence(emulator: FlowEmulator, tmp_path: Path):
    run = run_flow(never(tmp_path), emulator, tempo=Tempo(progress_s=0.5))
    assert isinstance(run.error, StuckError), run.error
    assert "step 2" == run.error.to
    assert run.clean
    assert (1, True) == (len(run.frames), run.frames["hope.failed.png"].startswith(PNG))
    assert any("StuckError: step 2: nothing moved for" in line for line in run.log)
    assert not emulator.control.state(emulator.name)["app"]["running"]


def test_a_flow_out_of_total_time_ends_with_evidence(emulator: FlowEmulator, tmp_path: Path):
    run = run_flow(never(tmp_path, limit="2s"), emulator)
    assert isinstance(run.error, StageTimeoutError), run.error
    assert (["hope.failed.png"], True) == (list(run.frames), run.clean)


def test_the_evidence_of_a_run_without_a_task_is_titled_for_what_it_is(emulator: FlowEmulator, tmp_path: Path):
    before = {*emulator.home.rglob("*.evidence.html")}
    assert run_flow(never(tmp_path, within="300ms"), emulator).error is not None
    (page,) = {*emulator.home.rglob("*.evidence.html")} - before
    text = page.read_text()
    assert "<title>trial of never, no task: ScreenNotReachedError</title>" in text
    assert "<dt>flow</dt><dd>never</dd>" in text
    assert "<dt>task</dt>" not in text


def test_a_wait_that_ends_before_either_clock_says_what_did_not_come(emulator: FlowEmulator, tmp_path: Path):
    run = run_flow(never(tmp_path, within="300ms"), emulator)
    assert isinstance(run.error, ScreenNotReachedError), run.error
    assert ["hope.failed.png"] == list(run.frames)


def test_a_credential_is_typed_and_masked(emulator: FlowEmulator) -> None:
    flow = """
flow: secretive
app: com.example.herd
stages:
  - stage: enter
    steps:
      - start_app: {}
      - type: {text: {secret: password}}
"""
    assert "has no credential password" in str(run_flow(flow, emulator, account="ann").error)
    run = run_flow(flow, emulator, account=FlowAccount("ann", {"password": "Canary7"}))
    assert (None, False) == (run.error, "Canary7" in str(run))
    assert "type the credential password" in str(run.log)


def test_a_flow_may_ask_the_servers_that_are_allowed_and_no_others():
    with serving() as site, virtual_emulator(allow=[site.address]) as emulator:
        site.files["/x"] = b"content"
        run = run_flow(GALLERY / "download", emulator, {"url": site.url("/x"), "file": "/sdcard/x"})
        assert (True, "content") == (completed(run), emulator.shell("cat /sdcard/x"))
        emulator.allow = ()
        run = run_flow(GALLERY / "download", emulator, {"url": site.url("/x"), "file": "/sdcard/y"})
        assert isinstance(run.error, AddressRefusedError)
