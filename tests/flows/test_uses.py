"""Flows that use flows: found, checked, expanded into the plan, part of the hash."""

from pathlib import Path

import pytest

from droidherd.contracts.plan import Plan
from droidherd.domain.errors import BadParametersError, FlowError
from droidherd.flows.catalogue import Catalogue, PlannedFlow
from droidherd.flows.model.secret import secrets_of
from droidherd.flows.run.finder import FlowFinder
from droidherd.flows.run.interpreter import run_stage
from droidherd.virtual.app import HerdState, Scene
from tests.flows.fakes import Bench, Emulator
from tests.flows.test_lint import flow_at, png, problems

INNER = """flow: inner
app: com.example.inner
recorded: 640x360
params: {who: {type: string, pattern: "[a-z]+", example: ann}, times: {type: integer, default: 2}}
requires: {size: small}
screens: {entry: {image: entry.png}, hall: {image: hall.png}}
routes: [{from: entry, to: hall, do: [{type: {text: {secret: key}}}, {type: {text: "${who}"}}]}]
interrupts: [{when: {image: x.png}, do: [{tap: {image: x.png}}]}]
stages:
  - stage: one
    at: hall
    steps: [{start_app: {}}, {repeat: {at_most: "${times}", do: [{tap: {image: entry.png}}]}}]
    undo: [{tap: {image: x.png}}]
  - stage: two
    steps: [{put: {file: /sdcard/a, from: a.cfg}}]
cleanup: [{stop_app: {}}]
"""
OUTER = """flow: outer
app: com.example.outer
recorded: 1280x720
params: {name: {type: string, example: bob, pattern: "[a-z0-9]+"}}
screens: {hall: {image: hall.png}}
stages:
  - stage: main
    steps:
      - key: {name: home}
      - use: {flow: inner, with: {who: "${name}"}}
      - tap: {image: hall.png}
    undo: [{key: {name: menu}}]
"""


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    inner = flow_at(tmp_path / "inner", INNER, "entry.png", "hall.png", "x.png")
    (inner / "files").mkdir()
    (inner / "files" / "a.cfg").write_text("a")
    flow_at(tmp_path / "outer", OUTER, "hall.png")
    return tmp_path


def planned(shelf: Path) -> Plan:
    return Catalogue([shelf]).plan("outer", {"name": "cyd"}, account="ann")


def test_a_used_flow_stands_in_the_plan_with_its_parameters_app_and_files(shelf: Path) -> None:
    (stage,) = planned(shelf).stages
    body = [
        {"goto": "hall"},
        {"start_app": {"app": "com.example.inner"}},
        {"repeat": {"at_most": "2", "do": [{"tap": {"image": "inner@/entry.png"}}]}},
        {"put": {"file": "/sdcard/a", "from": "inner@/a.cfg"}},
    ]
    assert (
        {"key": {"name": "home"}},
        {"use": {"flow": "inner", "with": {"who": "cyd"}, "do": body}},
        {"tap": {"image": "hall.png"}},
    ) == stage.steps
    assert ({"key": {"name": "menu"}}, {"tap": {"image": "inner@/x.png"}}) == stage.undo
    assert [("2.4", "/sdcard/a")] == [(change.step, change.name) for change in stage.changes]


def test_its_screens_join_those_of_the_using_flow_which_has_the_last_word(shelf: Path) -> None:
    plan = planned(shelf)
    assert plan.screen_map is not None
    assert {"entry": {"image": "inner@/entry.png"}, "hall": {"image": "hall.png"}} == plan.screen_map.screens
    assert 1 == len(plan.screen_map.routes)
    assert (
        {"when": {"image": "inner@/x.png"}, "do": [{"tap": {"image": "inner@/x.png"}}]},
    ) == plan.screen_map.interrupts
    assert {"do": [{"stop_app": {"app": plan.app}}, {"start_app": {"app": plan.app}}]} == plan.screen_map.lost
    assert ("size=small",) == plan.requires
    assert ["key"] == secrets_of(plan)


def test_its_images_and_files_are_found_and_scaled_as_its_own_flow_says(shelf: Path) -> None:
    catalogue, plan = Catalogue([shelf]), planned(shelf)
    for files in (plan.stages[0].files, None):
        own = PlannedFlow("outer", plan.flow_hash, files)
        assert (shelf / "inner" / "entry.png", (640, 360)) == catalogue.asset(own, "inner@/entry.png")
        assert (shelf / "outer" / "hall.png", (1280, 720)) == catalogue.asset(own, "hall.png")
        assert shelf / "inner" / "files" / "a.cfg" == catalogue.payload(own, "inner@/a.cfg")
        FlowFinder(catalogue, own)


@pytest.mark.parametrize("changed", ["flow.yaml", "entry.png", "files/a.cfg"])
def test_a_change_of_the_used_flow_is_a_change_of_the_using_one(shelf: Path, changed: str) -> None:
    catalogue = Catalogue([shelf])
    before = catalogue.flow("outer").hash
    file = shelf / "inner" / changed
    file.write_bytes(file.read_bytes() + (b"guards: {taps: 5}\n" if changed == "flow.yaml" else b"\n"))
    assert before != catalogue.flow("outer").hash


def test_a_used_flow_that_was_fixed_fixes_the_using_one(shelf: Path) -> None:
    catalogue = Catalogue([shelf])
    (shelf / "inner" / "entry.png").rename(shelf / "entry.png")
    with pytest.raises(FlowError, match=r"flow\.yaml:10: error: flow inner is not valid: .*entry\.png: no such"):
        catalogue.flow("outer")
    (shelf / "entry.png").rename(shelf / "inner" / "entry.png")
    assert "outer" == catalogue.flow("outer").flow.flow


def test_what_the_used_flow_does_not_take_is_refused_at_submission(shelf: Path) -> None:
    with pytest.raises(BadParametersError, match=r"use inner: params\.who: must match"):
        Catalogue([shelf]).plan("outer", {"name": "r2d2"}, account="ann")


def using(name: str, flow: str, more: str = "") -> str:
    return f"flow: {name}\nstages:\n  - stage: main\n{more}    steps:\n      - use: {{flow: {flow}}}\n"


TAP = "stages: [{stage: main, steps: [{tap: {percent: [1, 1]}}]}]\n"
FAULTS = [
    (
        {"other": using("other", "demo")},
        using("demo", "other"),
        (
            "flow.yaml:5: error: flow other is not valid: {shelf}/other/flow.yaml:5: error: "
            "flows use each other in a circle: demo uses other uses demo"
        ),
    ),
    ({}, using("demo", "demo"), "flow.yaml:5: error: flows use each other in a circle: demo uses demo (move what"),
    ({}, using("demo", "nowhere"), "flow.yaml:5: error: there is no flow 'nowhere' (the name of a flow beside"),
    (
        {"other": f"flow: other\n{TAP}"},
        using("demo", "othr"),
        "flow.yaml:5: error: there is no flow 'othr' (did you mean other?)",
    ),
    (
        {f"n{n}": using(f"n{n}", f"n{n + 1}") for n in range(5)} | {"n5": f"flow: n5\n{TAP}"},
        using("demo", "n0"),
        "flow.yaml:5: error: flow n0 is not valid: ",
    ),
    (
        {"other": f"flow: other\nparams: {{who: {{type: string}}}}\n{TAP}"},
        using("demo", "other"),
        "flow.yaml:5: error: use other: params.who: is missing (a string)",
    ),
    (
        {"other": "flow: other\nstages: [{stage: main, steps: [{set: {setting: global/a, to: b}}]}]\n"},
        using("demo", "other", "    effect: account\n"),
        "flow.yaml:6: error: flow other holds set, which changes the emulator; this stage acts in the account",
    ),
    (
        {"other": "flow: other\nstages: [{stage: main, steps: [{set: {setting: global/a, to: b}}]}]\n"},
        f"flow: demo\n{TAP}cleanup: [{{use: {{flow: other}}}}]\n",
        "flow.yaml:3: error: flow other changes things by value or calls a handler, which nobody would take back here",
    ),
    (
        {"other": "flow: other\nstages: [{stage: main, steps: [{fail: {what: never}}]}]\n"},
        f"flow: demo\n{TAP}cleanup: [{{use: {{flow: other}}}}]\n",
        "flow.yaml:3: error: flow other holds fail, which does not belong into cleanup",
    ),
    (
        {"other": TAP.replace("stages: [{stage", "flow: other\nstages: [{effect: account, stage")},
        using("demo", "other"),
        "flow.yaml:5: warning: stage main of flow other acts in the account; this one is repeated after a move",
    ),
    (
        {"other": f"flow: other\nrequires: {{size: small}}\n{TAP}"},
        f"{using('demo', 'other')}requires: {{size: large}}\n",
        "flow.yaml:6: error: requires size=large, and flow other, which is used, size=small (one emulator has to fit",
    ),
    (
        {"other": f"flow: other\n{TAP.replace('[{tap', '[' + '{key: {name: menu}}, ' * 120 + '{tap')}"},
        f"flow: demo\nstages:\n  - stage: main\n    steps: [{', '.join(['{use: {flow: other}}'] * 9)}]\n",
        "flow.yaml:4: error: 1098 steps with those of used flows",
    ),
]


GATE = (
    "flow: entry\nparams: {who: {type: string}, times: {type: integer, default: 1}}\n"
    "screens: {in: {image: a.png}, out: {image: b.png}}\n"
    'routes: [{from: out, to: in, do: [{type: {text: "${who}"}}]}]\n'
    'stages: [{stage: main, at: in, steps: [{repeat: {at_most: "${times}", do: [{key: {name: menu}}]}}]}]\n'
)


def twice(first: str, second: str) -> str:
    uses = "".join(f"      - use: {{flow: {given}}}\n" for given in (first, second))
    return f"flow: demo\nparams: {{you: {{type: string}}}}\nstages:\n  - stage: main\n    steps:\n{uses}"


def test_a_route_that_two_uses_want_filled_in_otherwise_is_refused(tmp_path: Path) -> None:
    """The screens of a flow are known once; whose route it was would decide which account signs in."""
    flow_at(tmp_path / "entry", GATE, "a.png", "b.png")
    through = GATE.replace("flow: entry", "flow: hall").partition("screens")[0]
    flow_at(
        tmp_path / "hall",
        through + "stages: [{stage: main, steps: [{use: {flow: entry, with: {who: '${who}', times: '${times}'}}}]}]\n",
    )
    expected = "flow.yaml:7: error: flow entry is used with other parameters before, and its routes hold them (they are"
    for other in ("entry, with: {who: bob}", "hall, with: {who: bob}", 'entry, with: {who: "${you}"}'):
        (found,) = [one for one in problems(tmp_path, twice("entry, with: {who: ann}", other)) if "error" in one]
        assert found.startswith(expected), found


def test_numbers_and_truths_are_handed_on_as_what_they_are(tmp_path: Path) -> None:
    flow_at(tmp_path / "entry", f"flow: entry\nparams: {{n: {{type: integer, max: 5}}, b: {{type: boolean}}}}\n{TAP}")
    text = (
        "flow: demo\nparams: {m: {type: integer, example: 2}, c: {type: boolean}, s: {type: string, example: '3'}}\n"
        "stages: [{stage: main, steps: [{use: {flow: entry, with: {n: '${m}', b: '${c}'}}}]}]\n"
    )
    flow_at(tmp_path / "demo", text)
    catalogue = Catalogue([tmp_path])
    catalogue.plan("demo", {"m": 4, "c": False, "s": ""})
    with pytest.raises(BadParametersError, match=r"use entry: params\.n: must be at most 5"):
        catalogue.plan("demo", {"m": 6, "c": False, "s": ""})


def test_two_used_flows_that_mean_different_screens_by_one_name_are_refused(tmp_path: Path) -> None:
    """The same picture under another name is the same screen, and the using flow has the last word."""
    for name, image in (("a", "one.png"), ("b", "other.png")):
        flow_at(tmp_path / name, f"flow: {name}\nscreens: {{home: {{image: {image}}}}}\n{TAP}", image)
    both = using("demo", "a") + "      - use: {flow: b}\n"
    assert [] == problems(tmp_path, both)
    (tmp_path / "b" / "other.png").write_bytes(png(30, 30))
    expected = (
        "flow.yaml:6: error: flows a and b both have a screen home, and recognise it by something else "
        "(say in this flow what home is, or give one of them another name)"
    )
    assert [expected] == problems(tmp_path, both)
    assert [] == problems(tmp_path, both + "screens: {home: {image: mine.png}}\n", "mine.png")


def test_uses_that_differ_only_in_their_steps_may_differ(tmp_path: Path) -> None:
    flow_at(tmp_path / "entry", GATE, "a.png", "b.png")
    one, other = "entry, with: {who: '${you}', times: 2}", "entry, with: {who: '${you}'}"
    assert [] == problems(tmp_path, twice(one, other))


def test_cleanups_of_used_flows_follow_the_own_one_last_first_each_once(tmp_path: Path) -> None:
    for name, cleanup in (("a", "[{stop_app: {}}]"), ("b", "[{tap: {image: x.png}}, {use: {flow: a}}]")):
        text = f"flow: {name}\napp: com.example.{name}\n{TAP}cleanup: {cleanup}\n"
        flow_at(tmp_path / name, text, *(["x.png"] if name == "b" else []))
    uses = "{use: {flow: a}}, {use: {flow: b}}"
    flow_at(
        tmp_path / "demo",
        f"flow: demo\nstages: [{{stage: main, steps: [{uses}]}}]\ncleanup: [{{key: {{name: home}}}}]\n",
    )
    plan = Catalogue([tmp_path]).plan("demo", {})
    own, tap, inner, stop = plan.cleanup
    assert ({"key": {"name": "home"}}, {"tap": {"image": "b@/x.png"}}) == (own, tap)
    assert {"stop_app": {"app": "com.example.a"}} == stop
    assert isinstance(inner, dict)
    assert ["use"] == list(inner)


def test_guards_and_a_way_out_that_are_left_behind_are_named(tmp_path: Path) -> None:
    ways = "lost: {do: [{key: {name: home}}]}\nguards: {taps: 30, of: 40}\n"
    flow_at(tmp_path / "other", f"flow: other\n{TAP}{ways}")
    expected = [
        f"flow.yaml:5: warning: flow other says {part}, and that does not come along "
        f"(add {part} to this flow: copy that of other)"
        for part in ("lost", "guards")
    ]
    assert expected == problems(tmp_path, using("demo", "other"))
    assert [] == problems(tmp_path, using("demo", "other") + ways)


@pytest.mark.parametrize(("beside", "text", "expected"), FAULTS)
def test_what_is_wrong_with_a_use_is_named_with_file_line_and_fix(
    tmp_path: Path, beside: dict[str, str], text: str, expected: str
) -> None:
    for name, other in beside.items():
        flow_at(tmp_path / name, other)
    found = problems(tmp_path, text)
    expected = expected.replace("{shelf}", str(tmp_path))
    assert any(problem.startswith(expected) for problem in found), found


def test_flows_elsewhere_can_use_the_gallery_and_steps_keep_their_names(tmp_path: Path) -> None:
    text = (
        "flow: demo\napp: com.example.herd\nstages:\n  - stage: main\n    on_ambiguous: repeat\n    steps:\n"
        "      - use: {flow: sign_in}\n      - key: {name: menu}\n"
    )
    flow_at(tmp_path / "demo", text)
    plan, emulator = Catalogue([tmp_path]).plan("demo", {}, account="ann"), Emulator(HerdState())
    bench = Bench(emulator, "main")
    run_stage(plan.stages[0], bench.run(screen_map=plan.screen_map))
    assert ("ann", Scene.HOME) == (emulator.state.signed_in, emulator.state.scene)
    assert ["main/1.1", "main/1.2"] == [key for key, _ in emulator.done][:2]
    assert "main/2" == emulator.done[-1][0]
