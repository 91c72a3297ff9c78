import json
from pathlib import Path

import cv2
import jsonschema
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from droidherd.domain.errors import FlowError
from droidherd.flows.catalogue import GALLERY, Catalogue
from droidherd.flows.lint.inspect import inspect
from droidherd.flows.lint.judge import lint, main
from droidherd.flows.lint.problems import shorten_values
from droidherd.flows.model.schema import SCHEMA_FILE, schema_text
from droidherd.flows.model.steps.base import STEP_KINDS

HEAD = "flow: demo\napp: com.example.game\nstages:\n  - stage: main\n    steps:\n"


def png(width: int = 20, height: int = 20, *, flat: bool = False) -> bytes:
    noise = np.random.default_rng(width).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return cv2.imencode(".png", noise * np.uint8(not flat))[1].tobytes()


def flow_at(folder: Path, text: str, *images: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "flow.yaml").write_text(text, encoding="utf-8")
    for image in images:
        path = folder / image
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png())
    return folder


def problems(tmp_path: Path, text: str, *images: str) -> list[str]:
    """What lint says, from the name of the file on."""
    folder = flow_at(tmp_path / "demo", text, *images)
    return [str(problem).removeprefix(f"{folder}/") for problem in lint([folder])]


def _when(name: str, value: str) -> str:
    return f"when: {{var: {name}, is: {value}, do: [{{fail: {{what: never}}}}]}}"


STEP_PROBLEMS = [
    ("tpa: {image: a.png}", "error: unknown step 'tpa' (did you mean tap?)"),
    ("tap: {imgae: a.png, percent: [1, 2]}", "error: unknown key 'imgae' (did you mean image?)"),
    (
        "tap: {percent: [1, 2]}\n        key: {name: back}",
        ("error: a step has one key, not 2: tap, key (begin each step with a dash of its own)"),
    ),
    ("ok", "error: a step is a mapping (as in tap: {image: ok.png})"),
    ("tap: {}", "error: tap: exactly one of image, feature, text, ui, colour, all, any and percent is needed, not 0"),
    ("tap: {percent: [1, 2], within: 5s}", "error: tap: within goes with something to look for, not with percent"),
    (
        "tap: {percent: [101, 2]}",
        "error: percent is 101; it must be at most 100 (places are in percent of the screen, 0 to 100)",
    ),
    ("tap: {image: gone.png}", "error: gone.png: no such image (put it at {folder}/gone.png)"),
    (
        "tap: {image: ../a.png}",
        "error: ../a.png: the image is outside the folder of the flow (copy it beside the flow)",
    ),
    (
        "tap: {image: /etc/a.png}",
        ("error: /etc/a.png: the image is outside the folder of the flow (copy it beside the flow)"),
    ),
    ("ask: {what: a, choices: [b]}", "error: within is missing (say how long a person may take, as in within: 30m)"),
    ("tapOn: OK", "error: unknown step 'tapOn' (Maestro's tapOn is tap: {text: OK}, or tap: {ui: {id: ok}})"),
    ("launchApp", "error: a step is a mapping (as in start_app: {})"),
    ("wait: {image: a.png, within: 10}", "error: within: a duration needs a unit: write 10s"),
    (
        "wait: {image: a.png, within: ten}",
        ("error: within: 'ten' is not a duration: write a number and a unit, as in 500ms, 10s, 2m or 1h"),
    ),
    ("tap: {percent: [50%, 5]}", "error: percent is '50%'; it must be a number (as in percent: [50, 50])"),
    ("tap: {percent: [50]}", "error: percent has too few entries (as in percent: [50, 50])"),
    (
        "tap: {percent: [50, 5, 5]}",
        "error: percent has too many entries; at most 2 are taken (as in percent: [50, 50])",
    ),
    (
        'type: {text: "a\\tb"}',
        "error: text: the character U+0009 cannot be typed: use a key step for Enter and Tab",
    ),
    ("call: {by: check, with: {ap: a}}", "error: call check: ap is no parameter of it (did you mean app?)"),
    (
        "call: {by: download, with: {urll: a}}",
        "error: call download: url is missing; urll is no parameter of it (did you mean url?)",
    ),
    ("tap: a.png", "error: tap must be a mapping (as in tap: {image: ok.png})"),
    ("stop_app:", "error: stop_app must be a mapping (as in stop_app: {}, or stop_app: {app: com.example.game})"),
    ("goto: {screen: a}", "error: goto: must be text (as in goto: home)"),
    ("key: {name: bakc}", "warning: key 'bakc' is unusual (did you mean back?)"),
    (
        "when: {var: a, is: yes, do: [{key: {name: back}}]}",
        (
            "error: is must be text, or a list of texts "
            '(as in is: "yes"; in quotes, also what YAML reads as true, false or a number)'
        ),
    ),
    ("tap: {image: sub/a.png, wihtin: 1s}", "error: sub/a.png: no such image (put it at {folder}/sub/a.png)"),
    ("wait: {image: a.png, within: 2h}", "error: within is '2h'; it must be at most 1h (as in within: 1h)"),
    (
        "wait: {image: a.png, within: 5s, area: [50, 0, 10, 10]}",
        ("error: area: an area is [left, top, right, bottom] with left < right and top < bottom, in percent"),
    ),
    ("repeat: {do: [{key: {name: back}}]}", "error: at_most is missing (a loop needs a bound, as in at_most: 10)"),
    (
        "repeat: {at_most: 1001, do: [{key: {name: back}}]}",
        "error: at_most is 1001; it must be at most 1000 (as in at_most: 1000)",
    ),
    (
        "repeat: {at_most: 2, do: []}",
        "error: do has too few entries; at least 1 are needed (as in do: [{tap: {image: ok.png}}])",
    ),
    (
        "key: {name: KEYCODE_BACK}",
        ("error: name: 'KEYCODE_BACK' is not a key (an Android key name in lower case, as in home, back or enter)"),
    ),
    ("type: {text: 5}", "error: text must be text (put it in quotes)"),
    ("type: {text: '${who}'}", "error: parameter 'who' is not declared (add params: {who: {type: ...}})"),
    (
        "start_app: {app: game}",
        ("error: app: 'game' is not an app (a package as in com.example.game, or package/activity)"),
    ),
    (
        "screenshot: {name: My Frame}",
        ("error: name: 'My Frame' is not a name (lower case letters, digits and _, beginning with a letter)"),
    ),
    ("sleep: {for: 10m}", "error: for is '10m'; it must be at most 5m (as in for: 5m)"),
    (
        "optional: {do: [{tap: {percent: [1, 2], them: {image: a.png, within: 1s}}}]}",
        "error: unknown key 'them' (did you mean then?)",
    ),
    (
        "ask: {what: solve it, within: 5m}",
        "error: choices is missing (add what a person may answer, as in choices: [done, give up])",
    ),
    ("ask: {what: a, choices: [b, b], within: 5m}", "error: ask: a choice stands here twice"),
    ("ask: {what: a, choices: [yes, no], within: 5m}", "error: choices must be text (put it in quotes)"),
    (
        "ask: {what: a, choices: [b], within: 13h}",
        "error: ask: an emulator is kept for at most 12h: ask for less, or write keep: false",
    ),
    (
        "ask: {what: a, choices: [b], within: 5m, keep: maybe}",
        "error: keep is 'maybe'; it must be true or false (as in keep: true)",
    ),
    (
        "ask: {what: a, choices: [b, c], within: 5m}",
        "warning: nothing goes by the answer (add into: answer, or offer one choice)",
    ),
    (
        "ask: {what: a, choices: [b], within: 5m, into: reply}",
        "warning: variable 'reply' is never read (remove what sets it)",
    ),
    (
        "when: {var: reply, is: b, do: [{fail: {what: never}}]}",
        "error: variable 'reply' is not set before it in this stage (add into: reply to an ask or a read)",
    ),
    ("reschedule: {in: 2h}", "error: at_most is missing (a loop needs a bound, as in at_most: 10)"),
    (
        "reschedule: {in: 2h, at: '14:05', at_most: 2}",
        "error: reschedule: exactly one of in, at and from is needed, not 2",
    ),
    ("reschedule: {in: 2h, zone: UTC, at_most: 2}", "error: reschedule: zone goes with a time of day, not with in"),
    ("reschedule: {at: 14:05, at_most: 2}", 'error: at: a time of day stands in quotes, as in at: "14:05"'),
    (
        "reschedule: {at: '25:00', at_most: 2}",
        """error: at: '25:00' is not a time of day (hours and minutes, as in "14:05")""",
    ),
    (
        "reschedule: {at: '14:05', zone: Mars/Base, at_most: 2}",
        "error: zone: 'Mars/Base' is not a time zone: write one as in Europe/Berlin, or UTC",
    ),
    ("reschedule: {in: 721h, at_most: 2}", "error: in is '721h'; it must be at most 720h (as in in: 720h)"),
    ("fail: {}", "error: what is missing (say it for people, as in what: solve the captcha)"),
]


@pytest.mark.parametrize(("step", "expected"), STEP_PROBLEMS)
def test_a_faulty_step_is_named_with_file_line_and_fix(tmp_path: Path, step: str, expected: str) -> None:
    text = f"{HEAD}      - key: {{name: home}}\n      - {step}\n"
    found = problems(tmp_path, text, *(["a.png"] if "{image: a.png" in step else []))
    assert f"flow.yaml:7: {expected.replace('{folder}', str(tmp_path / 'demo'))}" in found


@pytest.mark.parametrize(
    ("line", "fix"),
    [
        ("      - wait: {colour: #00ff00, within: 1s}", "a # begins a comment: put it in quotes"),
        ("\t- key: {name: back}", "indent with spaces, not with tabs"),
        ("     - key: {name: back}", "fix the indentation: what belongs together begins in the same column"),
        ("      - fail: {what: @home}", "put it in quotes"),
        ("      - fail: what: ever", "put text with a colon in quotes, or fix the indentation"),
    ],
)
def test_what_is_no_yaml_is_named_with_how_to_fix_it(tmp_path: Path, line: str, fix: str) -> None:
    (found,) = problems(tmp_path, f"{HEAD}      - key: {{name: home}}\n{line}\n      - key: {{name: menu}}\n")
    assert "error: is not YAML: " in found
    assert found.endswith(f"({fix})")


FLOW_PROBLEMS = [
    (
        "flow.yaml:1: error: the flow is called other, its folder demo (name the folder other, or the flow demo)",
        HEAD.replace("demo", "other") + "      - key: {name: home}\n",
    ),
    (
        "flow.yaml:5: error: unknown key 'step' (did you mean steps?)",
        "flow: demo\napp: com.example.game\nstages:\n  - stage: main\n    step: []\n    steps: [{key: {name: home}}]\n",
    ),
    ("flow.yaml:2: error: unknown key 'apps' (did you mean app?)", HEAD.replace("app:", "apps:") + "      - {}\n"),
    (
        "flow.yaml:1: error: stages is missing (add at least one stage, as in stages: [{stage: main, steps: [...]}])",
        "flow: demo\n",
    ),
    ("flow.yaml:1: error: a flow is a mapping (begin with flow: <name>)", "- 1\n"),
    ("flow.yaml:3: error: key 'app' stands here twice (the first is in line 2)", "flow: demo\napp: a.b\napp: a.c\n"),
    (
        "flow.yaml:7: error: two stages are called main (give one another name)",
        HEAD + "      - key: {name: home}\n  - stage: main\n    steps: [{key: {name: home}}]\n",
    ),
    (
        "flow.yaml:4: error: start_app does not say which app (add app: <package> to the flow)",
        "flow: demo\nstages:\n  - stage: main\n    steps: [{start_app: {}}]\n",
    ),
    (
        "flow.yaml:2: error: n: 'x' does not fit the parameter itself: must be an integer",
        "flow: demo\nparams: {n: {type: integer, default: x}}\nstages: [{stage: a, steps: [{key: {name: home}}]}]\n",
    ),
    (
        "flow.yaml:2: error: n: min and max go with numbers, not with string",
        "flow: demo\nparams: {n: {min: 1}}\nstages: [{stage: a, steps: [{key: {name: home}}]}]\n",
    ),
    (
        "flow.yaml:2: error: n: nothing is at least 5 and at most 3",
        "flow: demo\nparams: {n: {type: number, min: 5, max: 3}}\nstages: [{stage: a, steps: [{key: {name: home}}]}]\n",
    ),
    (
        (
            "flow.yaml:4: warning: limit 2m is more than the whole attempt has, 1m "
            "(raise time_limit in policy, or lower the limit)"
        ),
        ("flow: demo\npolicy: {time_limit: 1m}\nstages:\n  - {stage: a, limit: 2m, steps: [{key: {name: home}}]}\n"),
    ),
    (
        "flow.yaml:2: warning: parameter 'n' is not used (remove it)",
        "flow: demo\nparams: {n: {type: integer}}\nstages: [{stage: a, steps: [{key: {name: home}}]}]\n",
    ),
    (
        "flow.yaml:2: error: effect is 'here'; it must be one of: account, emulator",
        "flow: demo\nstages: [{stage: a, effect: here, steps: [{key: {name: home}}]}]\n",
    ),
    (
        "flow.yaml:3: error: app: 'sample' is not an app (give parameter app an example or a default that fits)",
        "flow: demo\nparams: {app: {type: string}}\nstages: [{stage: a, steps: [{start_app: {app: '${app}'}}]}]\n",
    ),
    (
        "flow.yaml:3: error: ${n}.png: the name of an image cannot hold a parameter (write one step per image)",
        "flow: demo\nparams: {n: {type: string}}\nstages: [{stage: a, steps: [{tap: {image: '${n}.png'}}]}]\n",
    ),
]


ASK = "ask: {what: a, choices: [later, '90'], within: 5m, into: reply"
NO_TIME = "is neither minutes, nor a duration as in 90m, nor a time as in 14:05"
TOGETHER = [
    ("flow.yaml:7: error: reply is never 'latr' (did you mean later?)", [f"{ASK}}}", _when("reply", "latr")]),
    ("flow.yaml:7: error: reply is never 'x' (offered are: later, 90)", [f"{ASK}}}", _when("reply", "x")]),
    (
        "flow.yaml:7: error: variable 'repy' is not set before it in this stage (did you mean reply?)",
        [f"{ASK}}}", _when("repy", "later")],
    ),
    (
        f"flow.yaml:7: error: reply: 'later' {NO_TIME} (offer times only, or put it into a when)",
        [f"{ASK}}}", "reschedule: {from: reply, at_most: 2}"],
    ),
]


@pytest.mark.parametrize(("expected", "steps"), TOGETHER)
def test_steps_that_make_no_sense_together_are_named(tmp_path: Path, expected: str, steps: list[str]) -> None:
    assert expected in problems(tmp_path, HEAD + "".join(f"      - {step}\n" for step in steps))


HELD = "is more than the stage has, 10s (raise the limit, or wait for less)"


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("wait: {colour: '#ff8800', within: 11s}", [f"within 11s {HELD}"]),
        ("tap: {colour: '#ff8800', within: 5s, then: {ui: {id: a}, within: 12s}}", [f"within 12s {HELD}"]),
        (
            "repeat: {while: {colour: '#ff8800', within: 13s}, at_most: 2, do: [{sleep: {for: 1s}}]}",
            [f"within 13s {HELD}"],
        ),
        ("optional: {do: [{sleep: {for: 14s}}]}", [f"for 14s {HELD}"]),
        ("tap: {colour: '#ff8800', within: 10s}", []),
        ("ask: {what: a, choices: [b], within: 5m}", []),
    ],
)
def test_a_wait_that_is_longer_than_its_stage_is_named(tmp_path: Path, step: str, words: list[str]) -> None:
    text = f"flow: demo\nstages:\n  - stage: main\n    limit: 10s\n    steps:\n      - {step}\n"
    assert [f"flow.yaml:6: warning: {one}" for one in words] == problems(tmp_path, text)


def test_a_frame_that_has_the_name_of_another_is_named(tmp_path: Path) -> None:
    first, second = "screenshot: {name: a}", "optional: {do: [{screenshot: {name: a}}]}"
    what = "this stage has another screenshot a, and this one is kept as a with a number (give one another name)"
    assert [f"flow.yaml:7: warning: {what}"] == problems(tmp_path, f"{HEAD}      - {first}\n      - {second}\n")


def test_either_of_two_frames_may_have_the_same_name(tmp_path: Path) -> None:
    step = "when: {sees: {colour: '#ff8800'}, do: [{screenshot: {name: a}}], else: [{screenshot: {name: a}}]}"
    assert [] == problems(tmp_path, f"{HEAD}      - {step}\n")


def test_what_an_ask_sets_is_known_to_what_comes_after_it_also_in_a_block(tmp_path: Path) -> None:
    steps = [
        f"optional: {{do: [{{{ASK}}}}}]}}",
        "when: {var: reply, is: [later], do: [{fail: {what: never}}], else: [{reschedule: {from: reply, at_most: 2}}]}",
    ]
    assert [] == problems(tmp_path, HEAD + "".join(f"      - {step}\n" for step in steps))


@pytest.mark.parametrize(
    ("effect", "steps", "faulty"),
    [
        ("account", ["tap: {percent: [1, 2]}", "ask: {what: a, choices: [b], within: 5m, keep: false}"], True),
        ("emulator", ["tap: {percent: [1, 2]}", "ask: {what: a, choices: [b], within: 5m, keep: false}"], False),
        ("account", ["ask: {what: a, choices: [b], within: 5m, keep: false}", "tap: {percent: [1, 2]}"], False),
        ("account", ["tap: {percent: [1, 2]}", "ask: {what: a, choices: [b], within: 5m}"], False),
        ("account", ["repeat: {at_most: 2, do: [{ask: {what: a, choices: [b], within: 5m, keep: false}}]}"], True),
    ],
)
def test_whoever_frees_the_emulator_has_done_nothing_for_the_account_yet(
    tmp_path: Path, effect: str, steps: list[str], faulty: bool
) -> None:
    head = HEAD.replace("    steps:", f"    effect: {effect}\n    steps:")
    expected = "keep: false after an act in a stage whose effect is in the account: the act is not repeated elsewhere"
    found = problems(tmp_path, head + "".join(f"      - {step}\n" for step in steps))
    assert faulty is any(expected in one for one in found)


@pytest.mark.parametrize("step", ["ask: {what: a, choices: [b], within: 5m}", "reschedule: {in: 2h, at_most: 1}"])
def test_what_turns_the_course_of_a_task_does_not_belong_into_cleanup(tmp_path: Path, step: str) -> None:
    kind = step.partition(":")[0]
    expected = f"flow.yaml:8: error: {kind} does not belong into cleanup (put it at the end of a stage)"
    assert [expected] == problems(tmp_path, f"{HEAD}      - key: {{name: home}}\ncleanup:\n  - {step}\n")


@pytest.mark.parametrize(("expected", "text"), FLOW_PROBLEMS)
def test_a_faulty_flow_is_named_with_file_line_and_fix(tmp_path: Path, expected: str, text: str) -> None:
    assert expected in problems(tmp_path, text)


def test_a_valid_flow_has_no_problems(tmp_path: Path) -> None:
    text = f"{HEAD}      - tap: {{image: icons/a.png, within: 5s, then: {{gone: icons/a.png, within: 10s}}}}\n"
    assert [] == problems(tmp_path, text, "icons/a.png")


def test_an_image_that_is_not_used_is_a_warning_and_the_flow_is_valid(tmp_path: Path) -> None:
    text = f"{HEAD}      - key: {{name: home}}\n"
    assert ["flow.yaml:1: warning: b.png is not used (remove it)"] == problems(tmp_path, text, "b.png")
    assert "demo" == Catalogue([tmp_path]).flow("demo").flow.flow


def test_an_image_that_is_no_png_is_an_error(tmp_path: Path) -> None:
    folder = flow_at(tmp_path / "demo", f"{HEAD}      - tap: {{image: a.png}}\n", "a.png")
    (folder / "a.png").write_bytes(b"GIF89a")
    assert "a.png: is not a PNG" == inspect(folder)[1][0].what


def test_an_image_that_links_out_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(png())
    folder = flow_at(tmp_path / "demo", f"{HEAD}      - tap: {{image: a.png}}\n")
    (folder / "a.png").symlink_to(tmp_path / "secret.png")
    assert "a.png: it leads outside its folder" == inspect(folder)[1][0].what


def test_all_problems_are_reported_at_once_in_the_order_of_their_lines(tmp_path: Path) -> None:
    found = problems(tmp_path, f"{HEAD}      - tap: {{image: a.png}}\n      - kye: {{name: back}}\nclean: []\n")
    assert [6, 7, 8] == [int(problem.split(":")[1]) for problem in found]


def test_a_folder_of_flows_is_judged_flow_by_flow(tmp_path: Path) -> None:
    flow_at(tmp_path / "one", "flow: one\n")
    flow_at(tmp_path / "two", "flow: two\n")
    assert [f"{tmp_path}/one/flow.yaml", f"{tmp_path}/two/flow.yaml"] == [problem.file for problem in lint([tmp_path])]
    assert [problem.file for problem in lint([tmp_path / "two" / "flow.yaml"])] == [f"{tmp_path}/two/flow.yaml"]


def test_a_path_without_a_flow_says_what_a_flow_is(tmp_path: Path) -> None:
    expected = f"{tmp_path}:1: error: no flow here (a flow is a folder with a flow.yaml)"
    assert [expected] == [str(problem) for problem in lint([tmp_path])]


def test_loading_a_faulty_flow_names_every_error_and_no_warning(tmp_path: Path) -> None:
    flow_at(tmp_path / "demo", f"{HEAD}      - tap: {{image: a.png}}\n      - kye: {{name: back}}\n", "b.png")
    with pytest.raises(FlowError) as caught:
        Catalogue([tmp_path]).flow("demo")
    assert 2 == len(str(caught.value).splitlines())
    assert "warning" not in str(caught.value)


SCALARS = st.sampled_from(["tap", "a.png", "${x}", "", "10s", "demo"]) | st.integers() | st.none() | st.booleans()
KEYS = st.sampled_from(
    ["flow", "app", "params", "stages", "stage", "steps", "do", "then", "within", "image", "at_most", "type", "default"]
) | st.sampled_from(STEP_KINDS)
SHAPES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=15
)


@settings(max_examples=150, deadline=None)
@given(SHAPES)
def test_any_shape_of_document_is_judged_without_breaking(
    tmp_path_factory: pytest.TempPathFactory, shape: object
) -> None:
    folder = flow_at(tmp_path_factory.getbasetemp() / "demo", yaml.safe_dump(shape))
    loaded, found = inspect(folder)
    assert (loaded is None) == any(problem.severity == "error" for problem in found)
    assert all(problem.line >= 1 for problem in found)


def test_the_schema_in_the_tree_is_the_one_of_the_model() -> None:
    assert schema_text() == SCHEMA_FILE.read_text(encoding="utf-8"), "run python -m droidherd.flows.model.schema"


@pytest.mark.parametrize("file", sorted(GALLERY.glob("*/flow.yaml")), ids=lambda file: file.parent.name)
def test_an_editor_accepts_the_flows_of_the_gallery(file: Path) -> None:
    flow = yaml.safe_load(file.read_text(encoding="utf-8"))
    errors = jsonschema.Draft202012Validator(json.loads(schema_text())).iter_errors(flow)
    assert [] == [error.message for error in errors]


@pytest.mark.parametrize(
    "step", ["tpa: {image: a.png}", "tap: {imgae: a.png}", "wait: {image: a.png, within: 10}", "reschedule: {in: 2h}"]
)
def test_an_editor_marks_what_the_linter_refuses(step: str) -> None:
    schema = jsonschema.Draft202012Validator(json.loads(schema_text()))
    assert not schema.is_valid(yaml.safe_load(f"{HEAD}      - {step}\n"))


@pytest.mark.parametrize(
    ("kind", "default", "step"),
    [
        ("number", "0.9", 'tap: {image: a.png, threshold: "${p}"}'),
        ("integer", "1", 'tap: {ui: {class: Button, index: "${p}"}, offset: ["${p}", 0]}'),
        ("boolean", "true", 'tap: {ui: {id: a, enabled: "${p}"}}'),
        ("boolean", "true", 'ask: {what: a, choices: [b], within: 5m, keep: "${p}"}'),
        ("string", "back", 'key: {name: "${p}"}'),
    ],
)
def test_an_editor_lets_a_parameter_stand_wherever_the_linter_does(
    tmp_path: Path, kind: str, default: str, step: str
) -> None:
    text = f"{HEAD}      - {step}\nparams: {{p: {{type: {kind}, default: {default}}}}}\n"
    images = ["a.png"] if "a.png" in step else []
    assert [] == problems(tmp_path, text, *images)
    assert jsonschema.Draft202012Validator(json.loads(schema_text())).is_valid(yaml.safe_load(text))


@pytest.mark.parametrize("step", ["tap: {image: '${p}.png'}", "use: {flow: '${p}'}", "tap: {percent: [1, x]}"])
def test_an_editor_marks_a_parameter_where_none_can_stand(step: str) -> None:
    schema = jsonschema.Draft202012Validator(json.loads(schema_text()))
    assert not schema.is_valid(yaml.safe_load(f"{HEAD}      - {step}\n"))


def test_blocks_within_blocks_are_bounded(tmp_path: Path) -> None:
    inner = "{key: {name: back}}"
    for _ in range(6):
        inner = f"{{optional: {{do: [{inner}]}}}}"
    expected = "flow.yaml:6: error: more than 5 blocks within each other (split the stage)"
    assert [expected] == problems(tmp_path, f"{HEAD}      - {inner}\n")


def test_the_command_says_each_problem_and_fails_only_on_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warned = flow_at(tmp_path / "demo", f"{HEAD}      - key: {{name: home}}\n", "b.png")
    assert 0 == main([str(warned)])
    assert f"{warned}/flow.yaml:1: warning: b.png is not used (remove it)\n" == capsys.readouterr().out
    assert 1 == main([str(flow_at(tmp_path / "bad", "flow: bad\n"))])
    assert "error: stages is missing" in capsys.readouterr().out


STAGES = (
    "flow: demo\napp: com.example.game\nstages:\n  - stage: open\n    steps: [{start_app: {}}]\n  - stage: collect\n"
)
STOPS = "cleanup: [{stop_app: {}}]\n"
EXPECTS = "collect expects the screen of the stage before; a pause or a retry closes it (begin the stage with"
SCREENS = "screens: {home: {image: ok.png}}\nroutes: [{from: any, to: home, do: [{start_app: {}}]}]\n"


@pytest.mark.parametrize(
    ("stage", "rest", "warned"),
    [
        ("    steps: [{tap: {image: ok.png}}]\n", STOPS, True),
        (
            "    steps: [{sleep: {for: 1s}}, {optional: {do: [{wait: {image: ok.png}}]}}, {start_app: {}}]\n",
            STOPS,
            True,
        ),
        ("    steps: [{repeat: {while: {image: ok.png}, at_most: 3, do: [{start_app: {}}]}}]\n", STOPS, True),
        ("    steps: [{tap: {image: ok.png}}]\n", "", False),
        ("    steps: [{key: {name: home}}, {start_app: {}}, {tap: {image: ok.png}}]\n", STOPS, False),
        ("    at: home\n    steps: [{tap: {image: ok.png}}]\n", SCREENS + STOPS, False),
        ("    steps: [{goto: home}, {tap: {image: ok.png}}]\n", SCREENS + STOPS, False),
        ("    steps: [{stop_app: {then: {image: ok.png, within: 5s}}}]\n", STOPS, False),
    ],
)
def test_a_stage_that_expects_the_screen_of_the_one_before_is_warned_of(
    tmp_path: Path, stage: str, rest: str, warned: bool
) -> None:
    found = problems(tmp_path, STAGES + stage + rest, "ok.png")
    assert [warned] == [EXPECTS in one for one in found or [""]], found


DOCS = Path(__file__).parents[2] / "docs" / "flows.md"


def test_the_example_in_the_docs_is_a_valid_flow(tmp_path: Path) -> None:
    _, about = DOCS.read_text(encoding="utf-8").split("\n## What a flow is\n")
    example = about.split("```yaml\n")[1].split("```")[0]
    folder = flow_at(tmp_path / "daily_gift", example, "gift.png", "ok.png")
    assert [] == lint([folder])


@pytest.mark.parametrize("kind", STEP_KINDS)
def test_the_docs_name_every_kind_of_step(kind: str) -> None:
    assert f"`{kind}`" in DOCS.read_text(encoding="utf-8")


def test_a_long_value_is_shortened_and_the_rest_of_the_line_stays(tmp_path: Path):
    folder = flow_at(tmp_path / "demo", HEAD + f"      - key: {{name: {'BACK' * 200}}}\n")
    (problem,) = lint([folder])
    assert 200 > len(problem.what)
    assert "is not a key" in problem.what
    assert "…'" in shorten_values(f"{'x' * 70!r} is not a name")
    assert "a" * 60 + "' is" in shorten_values(f"'{'a' * 60}' is")
