"""Steps that change things by value: what is known of them before they run, and how they run."""

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from droidherd.contracts.changes import Change, Thing
from droidherd.contracts.plan import Stage
from droidherd.domain.errors import BadParametersError, FlowError, UnknownOutcomeError
from droidherd.domain.ports import Acted, Recalled, Wanted
from droidherd.domain.task.things import ABSENT, State
from droidherd.flows.catalogue import Catalogue, PlannedFlow
from droidherd.flows.loading.changes import CHANGES_MAX, changes, left_by
from droidherd.flows.model.steps.base import kind_of
from droidherd.flows.model.steps.changes import ChangeStep
from droidherd.flows.model.steps.registry import STEP_TYPES, STEPS
from droidherd.flows.run.interpreter import run_stage
from droidherd.handlers.registry import build_registry
from droidherd.virtual.app import HerdState
from droidherd.virtual.tinyapk import tiny_apk
from tests.flows.fakes import Bench, Trouble
from tests.flows.stages import stage
from tests.flows.test_lint import HEAD, flow_at, problems

CHANGE_KINDS = [word for word, step in STEP_TYPES.items() if issubclass(step, ChangeStep)]

APK = tiny_apk("com.example.other", 3)
SET = {"set": {"setting": "global/x", "to": "1"}}
PUT = {"put": {"file": "/sdcard/x", "text": "hello"}}
DELETE = {"delete": {"file": "/sdcard/y"}}
INSTALL = {"install": {"apk": "other.apk", "package": "com.example.other"}}
UNINSTALL = {"uninstall": {"package": "com.example.gone"}}
WM = {"set": {"wm": "size", "to": "720x1280"}}
HANDLERS = build_registry()
ALL = (SET, PUT, DELETE, INSTALL, UNINSTALL)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class FakeThings:
    """Things in memory, journaled by the bench's hands."""

    bench: Bench
    states: dict[str, State] = field(default_factory=dict[str, State])
    made: list[str] = field(default_factory=list[str])

    def make(self, effect: str, wanted: Wanted) -> Acted:
        def change(state: HerdState) -> HerdState:
            self.made.append(f"{effect} {wanted.name}")
            self.states[wanted.name] = wanted.state
            return state

        return self.bench.hands._act(effect, f"make {wanted.name}", change)

    def read(self, thing: str, name: str) -> State:
        return self.states.get(name, ABSENT)


def payloads(tmp_path: Path) -> Path:
    (tmp_path / "other.apk").write_bytes(APK)
    return tmp_path


def run(bench: Bench, things: FakeThings, of: Stage, folder: Path) -> None:
    run_stage(of, replace(bench.run(), things=things, payload=payloads(folder).joinpath))


# --- known before they run -----------------------------------------------------------------------------------


def test_all_kinds_of_changes_have_a_subject_and_a_wanted_state(tmp_path: Path):
    steps = STEPS.validate_python(ALL)
    assert set(CHANGE_KINDS) == {kind_of(step) for step in steps}
    assert [
        Change(step="1", thing=Thing.SETTING, name="global/x"),
        Change(step="2", thing=Thing.FILE, name="/sdcard/x"),
        Change(step="3", thing=Thing.FILE, name="/sdcard/y"),
        Change(step="4", thing=Thing.PACKAGE, name="com.example.other"),
        Change(step="5", thing=Thing.PACKAGE, name="com.example.gone"),
    ] == [*changes(steps, HANDLERS)]
    states = [s.wanted(payloads(tmp_path).joinpath).state for s in steps if isinstance(s, ChangeStep)]
    assert [State("1"), State(digest(b"hello")), ABSENT, State(digest(APK)), ABSENT] == states


def test_changes_inside_options_and_loops_are_known_with_their_paths():
    nested = ({"optional": {"do": [{"repeat": {"at_most": 3, "do": [{"key": {"name": "home"}}, SET]}}, DELETE]}},)
    assert [("1.1#1.2", "global/x"), ("1.2", "/sdcard/y")] == [
        (change.step, change.name) for change in changes(STEPS.validate_python(nested), HANDLERS)
    ]


def test_a_screen_override_changes_a_setting_which_is_restored_after_it():
    assert [(Thing.SETTING, "global/display_size_forced"), (Thing.WM, "size")] == [
        (change.thing, change.name) for change in changes(STEPS.validate_python((WM,)), HANDLERS)
    ]


def test_every_state_a_stage_may_leave_behind_is_known(tmp_path: Path):
    twice = ({"set": {"setting": "global/x", "to": "2"}}, *ALL, WM)
    left = left_by(STEPS.validate_python(twice), payloads(tmp_path).joinpath, HANDLERS)
    assert {State("1"), State("2")} == left[Thing.SETTING, "global/x"]
    assert {State("720,1280")} == left[Thing.SETTING, "global/display_size_forced"]


def flow_with(tmp_path: Path, *steps: str, head: str = HEAD, tail: str = "") -> Path:
    folder = flow_at(tmp_path / "demo", head + "".join(f"      - {step}\n" for step in steps) + tail)
    (folder / "files").mkdir(exist_ok=True)
    (folder / "files" / "other.apk").write_bytes(APK)
    return folder


def test_a_plan_names_what_each_stage_changes_with_parameters_resolved(tmp_path: Path):
    head = HEAD.replace("stages:", "params:\n  key: {type: string, example: a}\n  times: {type: integer}\nstages:")
    flow_with(tmp_path, 'set: {setting: "global/${key}", to: "${times}"}', "install: {apk: other.apk}", head=head)
    (one,) = Catalogue([tmp_path]).plan("demo", {"key": "my_key", "times": 5}).stages
    assert ["global/my_key", "com.example.other"] == [change.name for change in one.changes]
    assert {"install": {"apk": "other.apk", "package": "com.example.other"}} == one.steps[1]
    with pytest.raises(BadParametersError, match=r"params\.key: makes an impossible step 0\.set") as caught:
        Catalogue([tmp_path]).plan("demo", {"key": "x; reboot", "times": 5})
    assert "reboot" not in str(caught.value)


def test_a_plan_holds_the_undo_of_a_stage(tmp_path: Path):
    flow_with(tmp_path, "set: {setting: global/x, to: 1}", tail="    undo: [{stop_app: {}}]\n")
    (one,) = Catalogue([tmp_path]).plan("demo", {}).stages
    assert ({"stop_app": {"app": "com.example.game"}},) == one.undo


def test_more_changes_than_a_stage_may_have_are_refused(tmp_path: Path):
    flow_with(tmp_path, *(f"set: {{setting: global/x{n}, to: 1}}" for n in range(CHANGES_MAX + 1)))
    with pytest.raises(BadParametersError, match="changes 101 things, at most 100"):
        Catalogue([tmp_path]).plan("demo", {})


def test_a_flow_is_another_one_when_a_file_it_carries_changes(tmp_path: Path):
    folder = flow_with(tmp_path, "install: {apk: other.apk}")
    catalogue = Catalogue([tmp_path])
    plan = catalogue.plan("demo", {})
    planned = PlannedFlow("demo", plan.flow_hash, plan.stages[0].files)
    assert APK == catalogue.payload(planned, "other.apk").read_bytes()
    (folder / "files" / "other.apk").write_bytes(tiny_apk("com.example.other", 33))
    with pytest.raises(FlowError, match="changed on disk"):
        catalogue.payload(planned, "other.apk")


def test_a_file_the_flow_does_not_contain_is_not_found(tmp_path: Path):
    flow_with(tmp_path, "install: {apk: other.apk}")
    catalogue = Catalogue([tmp_path])
    with pytest.raises(FlowError, match="has no file"):
        catalogue.payload(PlannedFlow("demo", catalogue.flow("demo").hash), "../flow.yaml")


# --- judged before they run ----------------------------------------------------------------------------------

STEP_PROBLEMS = [
    ("set: {setting: global/x}", "error: to is missing (say the value, as in to: 1)"),
    ("set: {setting: x, to: 1}", "error: setting: a setting is system/, secure/ or global/ and its key"),
    ("set: {setting: global/x, wm: size, to: 1}", "error: set: exactly one of setting, wm and property is needed"),
    ("set: {setting: global/x, to: true}", "error: to: is ambiguous: put it in quotes"),
    ("set: {setting: global/x, to: 0.5}", "error: to: is ambiguous: put it in quotes"),
    ("set: {wm: size, to: big}", "error: set: to: is no size of a screen: write 1280x720"),
    ("set: {property: ro.x, to: 1}", "error: property: a property that can be set once cannot be restored"),
    ("set: {property: debug.droidherd.token, to: 1}", "error: property: is droidherd's own"),
    ("put: {file: /sdcard/x}", "error: put: exactly one of text and from is needed"),
    ("put: {file: x.cfg, text: a}", "error: file: is not a plain absolute path, as in /sdcard/game.cfg"),
    ("put: {file: /data/local/tmp/droidherd/j/x, text: a}", "is droidherd's own"),
    ("put: {file: /sdcard/x, from: none.cfg}", "error: none.cfg: no such file (put it at {folder}/files/none.cfg)"),
    ("put: {file: /sdcard/x, from: ../x}", "error: from: '../x' is not the name of a file"),
    ("put: {file: /sdcard/x, form: a}", "error: unknown key 'form' (did you mean from?)"),
    ("delete: {}", "error: file is missing (say which, as in file: /sdcard/game.cfg)"),
    ("install: {apk: none.apk}", "error: none.apk: no such file (put it at {folder}/files/none.apk)"),
    ("install: {apk: bad.apk}", "error: bad.apk: is not an APK: it is not a zip file (build it again)"),
    (
        "install: {apk: other.apk, package: com.example.game}",
        "error: other.apk holds com.example.other, not com.example.game (correct the package, or leave it out)",
    ),
    ("uninstall: {}", "error: package is missing (say which, as in package: com.example.game)"),
    ("uninstall: {package: game}", "error: package: 'game' is not a package (as in com.example.game)"),
]  # fmt: skip


@pytest.mark.parametrize(("step", "expected"), STEP_PROBLEMS)
def test_a_faulty_change_is_named_with_file_line_and_fix(tmp_path: Path, step: str, expected: str) -> None:
    folder = flow_with(tmp_path)
    for name, content in {"bad.apk": b"no apk", "other.apk": APK}.items():
        (folder / "files" / name).write_bytes(content)
    found = problems(tmp_path, f"{HEAD}      - key: {{name: home}}\n      - {step}\n")
    wanted_text = expected.replace("{folder}", str(tmp_path / "demo"))
    assert any(problem.startswith("flow.yaml:7: error: ") and wanted_text in problem for problem in found), found


FLOW_PROBLEMS = [
    (
        "flow.yaml:7: error: set cannot stand in cleanup: nobody would take it back (put it into a stage)",
        HEAD + "      - key: {name: home}\ncleanup: [{set: {setting: global/x, to: 1}}]\n",
    ),
    (
        (
            "flow.yaml:7: error: delete cannot stand in undo: nobody would take it back "
            "(changes by value are taken back by themselves)"
        ),
        HEAD + "      - key: {name: home}\n    undo: [{delete: {file: /sdcard/x}}]\n",
    ),
    (
        (
            "flow.yaml:5: error: set changes the emulator, and the effect of its stage is in the account "
            "(leave `effect: account` out, or put it into a stage of its own)"
        ),
        "flow: demo\nstages:\n  - stage: main\n    effect: account\n    steps: [{set: {setting: global/x, to: 1}}]\n",
    ),
    (
        "flow.yaml:4: error: ${n}.apk: the name of a file cannot hold a parameter (write one step per file)",
        (
            "flow: demo\nparams: {n: {type: string, example: a}}\nstages:\n"
            "  - {stage: a, steps: [{install: {apk: '${n}.apk'}}]}\n"
        ),
    ),
    ("flow.yaml:1: warning: files/other.apk is not used (remove it)", HEAD + "      - key: {name: home}\n"),
    (
        "flow.yaml:7: error: parameter 'who' is not declared (add params: {who: {type: ...}})",
        HEAD + "      - key: {name: home}\n    undo: [{type: {text: '${who}'}}]\n",
    ),
]


@pytest.mark.parametrize(("expected", "text"), FLOW_PROBLEMS)
def test_a_change_where_nobody_captures_it_is_named(tmp_path: Path, expected: str, text: str) -> None:
    flow_with(tmp_path)
    assert expected in problems(tmp_path, text)


def test_a_flow_that_contains_files_is_valid(tmp_path: Path) -> None:
    folder = flow_with(tmp_path, "install: {apk: other.apk}", "put: {file: /sdcard/x, from: deep/er.cfg}")
    (folder / "files" / "deep").mkdir()
    (folder / "files" / "deep" / "er.cfg").write_bytes(b"x")
    (folder / "files" / ".hidden").write_bytes(b"x")
    assert [] == problems(tmp_path, (folder / "flow.yaml").read_text())


def test_a_file_that_links_out_of_the_folder_is_not_carried(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    folder = flow_with(tmp_path, "install: {apk: other.apk}", "put: {file: /sdcard/x, from: a}")
    (folder / "files" / "a").symlink_to(tmp_path / "secret")
    assert any(
        "a: it leads outside its folder" in problem
        for problem in problems(tmp_path, (folder / "flow.yaml").read_text())
    )


# --- run -----------------------------------------------------------------------------------------------------


def test_changes_are_made_in_their_order_under_the_names_of_their_steps(tmp_path: Path):
    bench = Bench()
    things = FakeThings(bench)
    loop = {"repeat": {"at_most": 2, "do": [SET]}}
    run(bench, things, stage(PUT, loop, UNINSTALL), tmp_path)
    assert ["1 /sdcard/x", "2#1.1 global/x", "2#2.1 global/x", "3 com.example.gone"] == things.made


@pytest.mark.parametrize("point", ["sent", "begun", "acted", "answered"])
@pytest.mark.parametrize("step", ALL, ids=CHANGE_KINDS)
def test_a_change_of_unknown_outcome_is_made_again_and_asks_nobody(tmp_path: Path, step: dict[str, Any], point: str):
    def lost(_: str) -> UnknownOutcomeError:
        return UnknownOutcomeError("no answer")

    bench = Bench()
    things = FakeThings(bench)
    # The first point is the recall of the journal.
    bench.hands._point = Trouble({"sent": 2, "begun": 3, "acted": 4, "answered": 5}[point], lost)
    run(bench, things, stage(step), tmp_path)
    assert things.states
    assert bench.emulator.journal["main/1"] == "done"


def test_what_an_earlier_try_changed_is_not_changed_again(tmp_path: Path):
    bench = Bench()
    things = FakeThings(bench)
    run(bench, things, stage(SET, PUT), tmp_path)
    run(bench, things, stage(SET, PUT), tmp_path)
    assert ["1 global/x", "2 /sdcard/x"] == things.made


def test_a_cleanup_in_the_journal_is_no_past_of_the_steps(tmp_path: Path):
    """A stage that was paused cleaned up under the same journal; when it goes on, nothing of it was left out."""
    bench = Bench()
    bench.emulator.journal = {"main/1": "done", "main/c1.1": "done", "main/c1.2": "done"}
    things = FakeThings(bench)
    run(bench, things, stage(SET, PUT), tmp_path)
    assert ["2 /sdcard/x"] == things.made
    assert {"c1.1": Recalled.DONE} == {k: v for k, v in bench.hands.recall().items() if k == "c1.1"}


def test_without_anything_to_change_a_change_is_an_error_and_not_left_out(tmp_path: Path):
    with pytest.raises(FlowError, match="cannot be changed here"):
        run_stage(stage(SET), Bench().run())
