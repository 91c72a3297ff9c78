"""`droidherd flow`, as people type it."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from droidherd.adb.server import AdbServer
from droidherd.cli.local.reach import PREFIX
from droidherd.cli.options import unread_flows
from droidherd.domain.ports import Recalled
from droidherd.emulator import lease
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.emulator.probe import probe
from droidherd.emulator.token import Token
from droidherd.evidence.recording import PackedRecordingWriter, RecordedPart
from droidherd.flows.catalogue import GALLERY
from droidherd.settings import load
from droidherd.testing.flows import FlowEmulator, virtual_emulator
from tests.support.terminal import Terminal


@pytest.fixture(scope="module")
def running() -> Iterator[FlowEmulator]:
    with virtual_emulator() as one:
        yield one


@pytest.fixture
def droidherd(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """In an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Terminal(capsys, monkeypatch)


@pytest.fixture
def emulator(running: FlowEmulator, droidherd: Terminal) -> FlowEmulator:
    """In this host's list, signed out."""
    running.shell("pm clear com.example.herd; input keyevent KEYCODE_HOME")
    home = Path(".droidherd")
    home.mkdir()
    Inventory(home).add(InventoryEntry(emulator_id="e1", address=running.address))
    return running


def test_a_new_flow_lints_clean_and_runs_as_it_is(droidherd: Terminal, emulator: FlowEmulator):
    code, printed = droidherd("flow", "new", "daily_gift", "--from", "e1")
    assert 0 == code
    assert "next: droidherd flow run flows/daily_gift --virtual" in printed
    assert Path("flows/screen.png").read_bytes().startswith(b"\x89PNG")
    assert "recorded: 1280x720" in Path("flows/daily_gift/flow.yaml").read_text()
    assert (0, "nothing is wrong\n") == droidherd("flow", "lint")
    code, printed = droidherd("flow", "run", "flows/daily_gift")
    assert 0 == code, printed
    assert "completed" in printed
    assert "1: start com.example.herd" in printed


def test_a_run_says_as_json_what_became_of_it_and_where_the_evidence_is(droidherd: Terminal, emulator: FlowEmulator):
    words = ("flow", "run", "daily_reward", "--account", "ben", "--keep", "kept", "--emulator", emulator.address)
    document = droidherd.json(*words)
    assert (True, "", "kept", ["collect.collected.png"]) == tuple(
        document[name] for name in ("completed", "error", "folder", "frames")
    )
    assert "ben" == emulator.control.state(emulator.name)["app"]["signed_in"]
    assert {".png", ".jsonl"} == {path.suffix for path in Path("kept/evidence").iterdir()}
    assert (0, "as recorded\n") == droidherd("flow", "replay", "kept")
    changed = Path("flows/daily_reward")
    shutil.copytree(GALLERY / "daily_reward", changed)
    file = changed / "flow.yaml"
    file.write_text(file.read_text().replace('text: "${account}"', 'text: "${account}!"'))
    document = droidherd.json("flow", "replay", "kept", "--flow", str(changed))
    assert (False, [("open 6", "type ben!")]) == (
        document["same"],
        [(one["step"], one["found"]) for one in document["differences"]],
    )
    shutil.rmtree(changed)  # it came before the one of the gallery
    emulator.shell("pm clear com.example.herd; input keyevent KEYCODE_HOME")
    code, printed = droidherd("flow", "replay", "kept", "--emulator", "e1")
    assert 0 == code, printed


ASKER = """flow: asker
stages:
  - stage: only
    on_ambiguous: repeat
    steps:
      - key: {name: home}
      - ask: {what: "Again?", choices: ["yes", "no"], within: 1m, into: again}
      - when: {var: again, is: "yes", do: [{key: {name: menu}}], else: [{key: {name: back}}]}
"""


def test_a_question_of_a_flow_is_answered_beforehand_and_replayed_with_it(droidherd: Terminal, emulator: FlowEmulator):
    flow = Path("flows/asker")
    flow.mkdir(parents=True)
    (flow / "flow.yaml").write_text(ASKER)
    code, printed = droidherd("flow", "run", "asker", "--answer", "no", "--keep", "kept")
    assert (0, 1) == (code, printed.count("key home\n"))
    assert "3.0.1: key back" in printed
    assert (0, "as recorded\n") == droidherd("flow", "replay", "kept")
    code, printed = droidherd("flow", "run", "asker", "--answer", "maybe")
    assert 1 == code
    assert "'maybe' is none of: yes, no" in printed
    assert "answer with --answer: yes, no" in printed


def test_a_flow_that_types_a_credential_is_replayed_on_an_emulator(
    droidherd: Terminal, emulator: FlowEmulator, monkeypatch: pytest.MonkeyPatch
):
    flow = Path("flows/typist")
    flow.mkdir(parents=True)
    (flow / "flow.yaml").write_text(
        "flow: typist\nstages: [{stage: only, on_ambiguous: repeat, steps: [{type: {text: {secret: word}}}]}]\n"
    )
    monkeypatch.setenv("WORD", "canary")
    secret = ("--secret", "word=env:WORD", "--emulator", "e1")
    assert 0 == droidherd("flow", "run", "typist", "--account", "ann", "--keep", "kept", *secret)[0]
    code, printed = droidherd("flow", "replay", "kept", *secret)
    assert 0 == code
    assert "as recorded\n" in printed


def test_a_flow_that_fails_names_the_step_and_its_page_and_ends_with_1(droidherd: Terminal, emulator: FlowEmulator):
    flow = Path("flows/never")
    flow.mkdir(parents=True)
    shutil.copy(GALLERY / "daily_reward" / "gift.png", flow)
    (flow / "flow.yaml").write_text(
        "flow: never\nstages: [{stage: only, steps: [{wait: {image: gift.png, within: 100ms}}]}]\n"
    )
    code, printed = droidherd("flow", "run", str(flow), "--junit", "out/report.xml")
    report = Path("out/report.xml").read_text()
    assert '<testcase name="never" classname="flow"' in report
    assert "ScreenNotReachedError" in report
    assert 1 == code
    assert "failed ScreenNotReachedError: step 1: gift.png did not appear within 100ms" in printed
    (folder,) = re.findall(r"evidence: (\S+)", printed)
    assert [*Path(folder, "evidence").glob("*only.failed.png")]
    (page,) = re.findall(r"open in a browser: (\S+)", printed)
    assert "gift.png did not appear within 100ms" in Path(page).read_text()


GIVES_UP = """flow: gives_up
stages:
  - stage: first
    steps: [{key: {name: home}}]
  - stage: only
    steps: [{key: {name: menu}}, {key: {name: back}}, {fail: {what: "no way"}}]
"""


def left_by(task: str, part: RecordedPart) -> None:
    """As a stage of this task would have left it."""
    flow, kept = Path("flows/gives_up"), Path(".droidherd/artifacts", task)
    flow.mkdir(parents=True, exist_ok=True)
    kept.mkdir(parents=True)
    (flow / "flow.yaml").write_text(GIVES_UP)
    tape = PackedRecordingWriter(where="only 2")
    tape.begin("gives_up", {})
    tape.part(part)
    tape.act("key", key="back")
    tape.end("step 3: no way")
    (kept / "1-1-1-only.run.zip").write_bytes(tape.content())


def test_what_is_odd_about_a_flow_is_reported_by_a_run_as_by_the_linter(droidherd: Terminal, emulator: FlowEmulator):
    flow = Path("flows/odd")
    flow.mkdir(parents=True)
    shutil.copy(GALLERY / "daily_reward" / "gift.png", flow)
    (flow / "flow.yaml").write_text("flow: odd\nstages: [{stage: only, steps: [{key: {name: home}}]}]\n")
    warning = "flow.yaml:1: warning: gift.png is not used (remove it)\n"
    assert warning in droidherd("flow", "lint", "flows/odd")[1]
    code, printed = droidherd("flow", "run", "odd", "--emulator", "e1")
    assert (0, 1) == (code, printed.count(warning))
    (document,) = droidherd.json("flow", "run", "odd", "--emulator", "e1")["warnings"]
    assert ("gift.png is not used", "warning", 1) == (document["what"], document["severity"], document["line"])


def test_what_a_task_left_is_replayed_by_its_id_or_its_file(droidherd: Terminal):
    left_by("task-1", RecordedPart("only", {"1": Recalled.DONE}, missing=2))
    expected = (
        "begins at only, behind step 1: of what was before, no frames are left\n2 looks have no frame here\n"
        "acts as recorded: 1, and it ends at the same place\n"
    )
    assert (0, expected) == droidherd("flow", "replay", "task-1")
    file = ".droidherd/artifacts/task-1/1-1-1-only.run.zip"
    document = droidherd.json("flow", "replay", file)
    assert (True, [], 1, 2) == (document["same"], document["differences"], document["acts"], len(document["notes"]))
    flow = Path("flows/gives_up/flow.yaml")
    flow.write_text(GIVES_UP.replace("name: back", "name: home"))
    code, printed = droidherd("flow", "replay", file)
    assert 1 == code
    assert "only 2: expected key back (recorded at only 2), found key home\nacts as recorded: 0, before that" in printed
    flow.write_text(GIVES_UP.replace("{fail:", "{sleep: {for: 1s}}, {fail:"))
    code, printed = droidherd("flow", "replay", file)
    assert 1 == code
    assert "expected step 3: no way, found step 4: no way" in printed, "the same acts, and another end"
    code, printed = droidherd("flow", "replay", "task-1", "--virtual")
    assert 1 == code
    assert "no emulator can be brought there" in printed


def test_a_run_is_not_mixed_with_what_its_folder_holds_already(droidherd: Terminal):
    Path("kept").mkdir()
    Path("kept/0001.png").write_bytes(b"of another run")
    code, printed = droidherd("flow", "run", "visit", "--virtual", "--keep", "kept")
    assert (2, True) == (code, "kept: something is in it already\n  name a folder that is empty" in printed)
    assert ["kept/0001.png"] == [str(path) for path in Path("kept").iterdir()]


def test_a_flow_whose_file_has_another_ending_is_named(droidherd: Terminal):
    Path("x").mkdir()
    Path("x/flow.yml").write_text("flow: x\n")
    for flow in ("x/flow.yml", "./x"):
        code, printed = droidherd("flow", "run", flow)
        assert (2, True) == (code, "rename x/flow.yml to flow.yaml" in printed)


def test_a_run_whose_flow_is_elsewhere_asks_where(droidherd: Terminal):
    left_by("task-1", RecordedPart("only"))
    Path("elsewhere").mkdir()
    shutil.move("flows/gives_up", "elsewhere")
    for more in ((), ("--virtual",)):
        code, printed = droidherd("flow", "replay", "task-1", *more)
        assert (1, True) == (code, "there is no flow 'gives_up' here\n  say where it is with --flow PATH" in printed)
    assert "acts as recorded: 0" in droidherd("flow", "replay", "task-1", "--flow", "elsewhere/gives_up")[1]


def test_what_cannot_be_replayed_says_why_and_what_to_do(droidherd: Terminal):
    left_by("task-2", RecordedPart("only", refused="it ended inside the handler download"))
    for more in ((), ("--virtual",)):
        code, printed = droidherd("flow", "replay", "task-2", *more)
        assert 1 == code
        assert "it ended inside the handler download" in printed
    assert "droidherd flow run" in droidherd("flow", "replay", "task-2")[1]


def test_a_whole_stage_that_a_task_left_is_held_against_an_emulator(droidherd: Terminal, emulator: FlowEmulator):
    left_by("task-3", RecordedPart("only"))
    code, printed = droidherd("flow", "replay", "task-3", "--emulator", "e1")
    assert 1 == code
    assert "only 1: expected key back, found key menu" in printed


def test_an_error_is_shown_as_it_is_whatever_stands_in_it(droidherd: Terminal, emulator: FlowEmulator):
    flow = Path("flows/giver")
    flow.mkdir(parents=True)
    (flow / "flow.yaml").write_text(
        "flow: giver\nstages: [{stage: only, steps: [{fail: {what: 'choose [/b] or [red]'}}]}]\n"
    )
    code, printed = droidherd("flow", "run", "giver")
    assert 1 == code
    assert "failed GivenUpError: step 1: choose [/b] or [red]\n" in printed


def test_what_a_killed_command_left_is_ended_by_the_next_one(
    droidherd: Terminal, emulator: FlowEmulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead, alive = (tmp_path / f"{PREFIX}{pid}-x" for pid in (gone.pid, os.getpid()))
    left, kept = (AdbServer(0, home / "adb", environment=os.environ) for home in (dead, alive))
    with left, kept:
        assert 0 == droidherd("flow", "new", "x", "--from", "e1")[0]
        assert (0, False) == (left.pid, dead.exists())
        assert kept.pid > 0
    assert [alive] == [*tmp_path.glob(f"{PREFIX}*")]


def test_a_link_laid_where_a_killed_command_was_ends_nothing_it_leads_to(
    droidherd: Terminal, emulator: FlowEmulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (tmp_path / f"{PREFIX}{gone.pid}-x").symlink_to(tmp_path / "home")
    with AdbServer(0, tmp_path / "home" / "adb", environment=os.environ) as server:
        assert 0 == droidherd("flow", "new", "x", "--from", "e1")[0]
        assert server.pid > 0


def test_nobody_tries_a_flow_where_a_task_is_at_work(droidherd: Terminal, emulator: FlowEmulator):
    before = Token.parse(probe(emulator.adb, emulator.address).token)
    lease.seize(emulator.adb, emulator.address, Token(before.lease + 1))
    code, printed = droidherd("flow", "run", "visit")
    lease.release(emulator.adb, emulator.address, Token(before.lease + 1))
    assert 1 == code
    assert "is held by a task" in printed
    assert "--virtual" in printed


def test_lint_names_file_line_and_fix(droidherd: Terminal):
    flow = Path("flows/demo")
    flow.mkdir(parents=True)
    (flow / "flow.yaml").write_text("flow: demo\nstages:\n  - stage: main\n    steps:\n      - tap: {imgae: x.png}\n")
    code, printed = droidherd("flow", "lint", "flows")
    assert 1 == code
    assert "flows/demo/flow.yaml:5: error: unknown key 'imgae' (did you mean image?)" in printed
    code, printed = droidherd("flow", "lint", "--json")
    document = json.loads(printed)
    assert (1, False, 5) == (code, document["valid"], document["problems"][0]["line"])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("new", "Daily"), "is not a name"),
        (("new", "x", "--from", "e9"), "there is no instance here"),
        (("new", "x", "--app", "a b"), "--app: 'a b' is not an app"),
        (("record", "x", "--app", "game"), "--app: 'game' is not an app"),
        (("show", "visit", "-o", "none/x.svg"), "none/x.svg: No such file or directory"),
        (("show", "visit", "-o", "/dev/full"), "No space left on device"),
        (("run", "visit", "--emulator", "here:99999"), "address: 'here:99999' is not an address; write host:port"),
        (("run", "visit", "--emulator", "e9"), "there is no instance here"),
        (("run", "visit"), "there is no instance here"),
        (("inspect", "--virtual", "--emulator", "e1"), "do not go together"),
        (("run", "visit", "--virtual", "--emulator", "e1"), "do not go together"),
        (
            ("run", "browse_list", "--virtual", "--account", "ann", "--param", "pages=99"),
            "params.pages: must be at most",
        ),
        (("run", "flows/none"), "no flow here"),
        (("run", "vist"), "did you mean visit?"),
        (("run", "visit", "--secret", "p=env:NOBODY"), "nothing is at 'env:NOBODY'"),
        (("replay", "none"), "none: is no recorded run"),
        (("record", "x", "--fresh"), "add --app"),
        (("record", "-x"), "No such option"),
    ],
)
def test_what_cannot_be_is_reported_in_a_sentence(droidherd: Terminal, words: tuple[str, ...], expected: str):
    code, printed = droidherd("flow", *words)
    assert code > 0
    assert expected in printed
    assert not Path("flows").exists()


def test_an_emulator_is_chosen_in_an_instance_only(droidherd: Terminal):
    code, printed = droidherd("flow", "inspect")
    assert (3, True) == (code, "there is no instance here" in printed), printed
    Path(".droidherd").mkdir()
    code, printed = droidherd("flow", "inspect")
    assert (2, True) == (code, "this host has no emulator" in printed), printed
    assert "no emulator 'e9' is in this host's list" in droidherd("flow", "inspect", "--emulator", "e9")[1]


def test_inspect_lists_targets_of_the_screen_and_they_are_found(droidherd: Terminal, emulator: FlowEmulator):
    emulator.shell("monkey -p com.example.herd 1")
    code, printed = droidherd("flow", "inspect", "--emulator", "e1")
    assert 0 == code
    assert re.search(r"^\[50\.0, \d+\.\d\]  \{ui: \{id: sign_in\}\}  Button 'Sign in'$", printed, re.MULTILINE), printed
    code, printed = droidherd("flow", "inspect", "--json")
    elements = json.loads(printed)["elements"]
    assert {"ui": {"id": "account"}} in [one["target"] for one in elements]


def test_flows_of_an_instance_are_found_from_every_folder_below_it(
    droidherd: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / ".droidherd").mkdir()
    monkeypatch.chdir(tmp_path)
    assert 0 == droidherd("flow", "new", "gift")[0]
    (tmp_path / "sub" / "flows" / "lost").mkdir(parents=True)
    for folder in ("flows/gift", "sub", ".droidherd"):
        monkeypatch.chdir(tmp_path / folder)
        code, printed = droidherd("flow", "lint")
        assert (0, True) == (code, "nothing is wrong" in printed), printed
        assert 0 == droidherd("flow", "show", "gift")[0]
        assert f'"flows": [ "{tmp_path / "flows"}" ]' in " ".join(droidherd("status", "--json")[1].split())
    (tmp_path / "sub/flows/lost/flow.yaml").touch()
    monkeypatch.chdir(tmp_path / "sub")
    odd = [*unread_flows(load())]
    assert [f"the flows in {tmp_path}/sub/flows are not read: this instance reads {tmp_path}/flows"] == odd
    monkeypatch.setenv("DROIDHERD_FLOWS__PATHS", '["gone"]')
    assert f"flows.paths: there is no folder {tmp_path}/gone" in unread_flows(load())
