"""A person's acts on a live emulator become a flow. The person is an HTTP client here, as their browser is."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from droidherd.cli.commands.flow_recording import RecordOptions, write_flow
from droidherd.evidence.recording import RecordingWriter
from droidherd.flows.lint.judge import lint
from droidherd.flowtools.composing import TAPS_A_PLACE, Composed, compose
from droidherd.flowtools.cutting import png
from droidherd.flowtools.elements import elements
from droidherd.flowtools.manual_session import take
from droidherd.flowtools.page import PageServer, RecorderPage
from droidherd.flowtools.recorder import RecordedAction, Recorder, without
from droidherd.testing.flows import FlowAccount, FlowEmulator, replay, run_flow
from droidherd.virtual.app import PACKAGE
from droidherd.virtual.layout import BASE_HEIGHT, BASE_WIDTH
from tests.flowtools.person import Person


@contextmanager
def page(emulator: FlowEmulator, folder: Path) -> Generator[tuple[Person, Recorder]]:
    tape = RecordingWriter(folder)
    tape.begin("mine", {}, by_person=True)
    recorder = Recorder(emulator.adb, emulator.address, take(emulator.adb, emulator.name, emulator.address), tape)
    server = PageServer(RecorderPage(recorder))
    end = server.run()
    try:
        with Person(server.address, emulator.control, emulator.name) as person:
            yield person, recorder
    finally:
        end()


def written(composed: Composed, folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, content in composed.images.items():
        (folder / name).write_bytes(content)
    (folder / "flow.yaml").write_text(composed.text)
    return folder


@pytest.fixture(scope="module")
def recorded(running: FlowEmulator, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Composed]:
    """A person signs in and takes the gift. The flow, the recording, what was composed."""
    root = tmp_path_factory.mktemp("recorded")
    with page(running, root / "run") as (person, recorder):
        recorder.do(RecordedAction(kind="clear_app", app=PACKAGE))
        recorder.do(RecordedAction(kind="start_app", app=PACKAGE))
        person.taps("account", across=60)
        person.types("ann", param="who")
        person.taps("password")
        person.types("Canary7", secret="password")  # noqa: S106 - its name
        for label in ("Sign in", "Daily gift", "OK"):
            person.taps(label)
        given = person.ask("finish")
        assert (True, 9) == (given["over"], len(given["steps"]))
        assert "Canary7" not in str(given)
        composed = compose("mine", recorder.episodes, PACKAGE)
    recorder.tape.end("completed")
    return written(composed, root / "flows" / "mine"), root / "run", composed


def test_a_recorded_flow_has_nothing_to_complain_about(recorded: tuple[Path, Path, Composed]):
    flow, _, composed = recorded
    assert ([], ()) == ([str(problem) for problem in lint([flow])], composed.notes)
    assert {"account.png", "password.png", "sign_in.png", "daily_gift.png", "ok.png"} <= set(composed.images)


def test_every_act_has_a_post_condition_and_it_is_what_comes_next(recorded: tuple[Path, Path, Composed]):
    text = recorded[2].text
    for line in (
        "- start_app: {then: {image: account.png, within: 10s}}",
        "- tap: {image: sign_in.png, then: {image: daily_gift.png, within: 10s}}",
        "- tap: {image: daily_gift.png, then: {image: ok.png, within: 10s}}",
        "- type: {text: '${who}', then: {gone: account.png, within: 10s}}",
        "who: {type: string, default: ann}",
    ):
        assert line in text


def test_a_tap_beside_the_middle_stays_beside_it(recorded: tuple[Path, Path, Composed]):
    assert "- tap: {image: account.png, offset: [" in recorded[2].text
    assert 1 == recorded[2].text.count("offset")


def test_a_secret_stands_nowhere(recorded: tuple[Path, Path, Composed]):
    flow, recording, composed = recorded
    assert "text: {secret: password}" in composed.text
    assert "Canary7" not in composed.text + (recording / "run.jsonl").read_text()
    assert flow.is_dir()


def test_a_secret_shown_by_a_field_is_masked_in_elements_and_nothing_else():
    dump = '<node text="me &amp; &quot;x&quot;" class="me" content-desc="no"/><node text="hi me"/>'
    assert '<node text="***" class="me" content-desc="no"/><node text="hi me"/>' == without({'me & "x"'}, dump)
    assert dump == without((), dump)
    assert "no" not in without({"no"}, dump).replace("node", "")


def test_a_recorded_flow_does_on_an_emulator_what_the_person_did(
    emulator: FlowEmulator, recorded: tuple[Path, Path, Composed]
):
    run = run_flow(recorded[0], emulator, {"who": "ben"}, account=FlowAccount("ben", {"password": "other"}))
    assert (None, True) == (run.error, run.clean), run.log
    state = emulator.control.state(emulator.name)["app"]
    assert ("ben", True) == (state["signed_in"], state["gift_taken"])


def test_a_recorded_flow_replays_against_its_own_recording(recorded: tuple[Path, Path, Composed]):
    flow, recording, _ = recorded
    done = replay(recording, flow)
    assert () == done.differences
    assert 9 == done.acts


def test_a_forgotten_step_is_in_neither_the_flow_nor_the_recording(emulator: FlowEmulator, tmp_path: Path):
    with page(emulator, tmp_path / "run") as (person, recorder):
        person.taps("Herd")
        person.ask("act", kind="key", key="back")
        assert ["tap 648, 306"] == person.ask("undo")["steps"]
        person.ask("act", kind="swipe", x=640, y=600, to_x=640, to_y=200)
        person.ask("finish")
        composed = compose("mine", recorder.episodes)
    assert "key" not in composed.text
    assert ("- swipe: {from: [50.04, 83.45], to: [50.04, 27.82]" in composed.text, 1) == (
        True,
        len(composed.notes) or 1,
    )
    assert [] == [one for one in lint([written(composed, tmp_path / "mine")]) if one.severity == "error"]


def test_a_tap_on_an_unnamed_place_is_named_while_it_can_be_taken_back(emulator: FlowEmulator, tmp_path: Path):
    with page(emulator, tmp_path / "run") as (person, recorder):
        (given,) = person.ask("act", kind="tap", x=640, y=40)["steps"]
        assert f"tap 640, 40 ({TAPS_A_PLACE}; forget it and tap what stands out, if you can)" == given
        person.ask("undo")
        assert ["tap 648, 306"] == person.ask("act", kind="tap", x=648, y=306)["steps"]
        assert not any("place" in note for note in compose("mine", recorder.episodes).notes)


def test_a_recorded_flow_is_judged_by_the_pixels_of_its_images_too(tmp_path: Path):
    text = "flow: mine\nrecorded: 640x360\nstages: [{stage: a, steps: [{tap: {image: plain.png}}]}]\n"
    plain = png(np.full((30, 30, 3), 90, np.uint8))
    session, folder = RecordOptions("mine", tmp_path), tmp_path / "mine"
    done = write_flow(session, Composed(text, {"plain.png": plain}, ()), folder / "flow.yaml", tmp_path / "run")
    (problem,) = done.problems
    assert "plain.png: is nearly uniform" in str(problem)
    assert not done.good


def test_a_tap_that_holds_is_recorded_and_replayed_as_one(emulator: FlowEmulator, tmp_path: Path):
    with page(emulator, tmp_path / "run") as (person, recorder):
        given = person.ask("act", kind="tap", x=648, y=306, hold_ms=700)
        assert ["tap 648, 306 for 700 ms"] == given["steps"]
        composed = compose("mine", recorder.episodes)
    recorder.tape.end("completed")
    assert "hold: 700ms" in composed.text
    assert () == replay(tmp_path / "run", written(composed, tmp_path / "mine")).differences


def test_who_does_not_know_the_address_sees_and_does_nothing(emulator: FlowEmulator, tmp_path: Path):
    with page(emulator, tmp_path) as (person, recorder), httpx.Client(trust_env=False, timeout=60) as other:
        root = person.address.rsplit("/", 2)[0]
        answers = [
            other.get(f"{root}/"),
            other.get(f"{root}/guess/frame.png"),
            other.post(f"{root}/guess/act", json={"kind": "key", "key": "home"}),
            other.get(person.address, headers={"Host": "evil.example"}),
        ]
        assert [403] * 4 == [one.status_code for one in answers]
        form = other.post(f"{person.address}act", content="{}", headers={"Content-Type": "text/plain"})
        assert 400 == form.status_code
        assert "<img id=" in other.get(person.address).text
        assert other.get(f"{person.address}frame.png").content.startswith(b"\x89PNG")
        assert 404 == other.get(f"{person.address}nothing").status_code
        assert [] == recorder.episodes


@pytest.mark.parametrize("body", [{"kind": "dance"}, {"kind": "tap", "x": -1}, {"kind": "tap", "z": 1}, []])
def test_what_cannot_be_recorded_is_refused(emulator: FlowEmulator, tmp_path: Path, body: Any):
    with page(emulator, tmp_path) as (person, recorder), httpx.Client(trust_env=False, timeout=60) as client:
        answer = client.post(f"{person.address}act", json=body)
        assert (400, []) == (answer.status_code, recorder.episodes)
        assert "error" in answer.json()


def test_a_task_that_takes_the_emulator_ends_the_recording_with_a_sentence(emulator: FlowEmulator, tmp_path: Path):
    with page(emulator, tmp_path) as (person, _):
        emulator.shell(
            "setprop debug.droidherd.token 000000000000900.000.000; setprop debug.droidherd.free 000000000000900"
        )
        answer = httpx.post(f"{person.address}act", json={"kind": "key", "key": "home"}, trust_env=False, timeout=60)
        assert 502 == answer.status_code
        assert "000000000000900" in answer.json()["error"]


def test_elements_without_a_place_are_left_out():
    dump = (
        '<hierarchy><node text="A &amp; B" resource-id="a:id/one" class="x.EditText" bounds="[0,0][10,20]"/>'
        '<node text="B" bounds="[5,5][5,9]"/><node text="C" bounds="what"/></hierarchy>'
    )
    (one,) = elements(dump)
    assert ("A & B", "one", True, (BASE_WIDTH, BASE_HEIGHT)) == (one.text, one.id, one.editable, (1280, 720))


def test_a_page_that_is_closed_prints_no_traceback(
    emulator: FlowEmulator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with page(emulator, tmp_path) as (_, recorder):
        server = PageServer(RecorderPage(recorder))
        for error, expected in (
            (ConnectionResetError("gone"), ""),
            (BrokenPipeError("gone"), ""),
            (ValueError("ours"), "ours"),
        ):
            try:
                raise error
            except (OSError, ValueError):
                server.handle_error(None, ("127.0.0.1", 1))
            printed = capsys.readouterr().err
            assert (bool(expected), expected in printed) == (bool(printed), True)
        server.server_close()
