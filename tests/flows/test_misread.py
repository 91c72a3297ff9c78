"""What a file says and a reader of YAML, or a lenient model, makes something else of."""

from pathlib import Path

import pytest

from droidherd.flows.lint.judge import lint

NO_NUMBER = "must be a number (YAML reads yes, no, on and off as true and false)"


def lines_of(root: Path, step: str, more: str = "") -> list[str]:
    folder = root / "demo"
    folder.mkdir()
    text = f"flow: demo\n{more}\nstages:\n  - stage: main\n    steps:\n      - {step}\n"
    (folder / "flow.yaml").write_text(text)
    return [str(problem).removeprefix(str(folder)) for problem in lint([root])]


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("repeat: {at_most: yes, do: [{key: {name: back}}]}", f"at_most: {NO_NUMBER}"),
        ("tap: {percent: [50, on]}", f"percent: {NO_NUMBER}"),
        ("wait: {any: [{ui: {id: ok, index: off}}], within: 1s}", f"index: {NO_NUMBER}"),
        ("sleep: {time: 1s}", "unknown key 'time' (did you mean for?)"),
        ("swipe: {start: [50, 50], to: [50, 20]}", "unknown key 'start' (did you mean from?)"),
        ("call: {by: scan, undo: true}", "unknown key 'undo' (remove it: the plan writes it)"),
        ("use: {flow: visit, do: [{key: {name: back}}]}", "unknown key 'do' (remove it: the plan writes it)"),
    ],
)
def test_what_would_be_read_as_something_else_is_refused_where_it_stands(tmp_path: Path, step: str, words: str):
    assert [f"/flow.yaml:6: error: {words}"] == lines_of(tmp_path, step)


def test_also_beside_the_steps(tmp_path: Path):
    found = lines_of(tmp_path, "goto: home", "guards: {taps: no}\nscreens: {home: {ui: {id: ok, index: on}}}")
    assert f"/flow.yaml:2: error: taps: {NO_NUMBER}" in found
    assert f"/flow.yaml:3: error: index: {NO_NUMBER}" in found


def test_what_is_meant_to_be_true_is_left_alone(tmp_path: Path):
    assert [] == lines_of(tmp_path, "wait: {ui: {id: ok, enabled: yes, index: 1}, within: 1s}")


def test_a_screen_recognised_by_words_says_where_they_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("droidherd.flows.model.targets.OCR_MODULES", ("no_such_module",))
    words = lines_of(tmp_path, "key: {name: back}", "screens: {home: {any: [{ui: {id: ok}}, {text: Home}]}}")
    place = "words are searched among the elements of the screen"
    assert [f"/flow.yaml:2: warning: {place}"] == [line.partition(": nothing")[0] for line in words]


READ = "read: {ui: {id: ok}, into: n}"


def test_a_range_that_holds_no_number_is_refused(tmp_path: Path):
    found = lines_of(tmp_path, READ + "\n      - when: {var: n, at_least: 5, below: 3, do: [{key: {name: back}}]}")
    words = "when: no number is at least 5 and below 3 (for what is outside of both, use else)"
    assert [f"/flow.yaml:7: error: {words}"] == found


def test_a_range_of_parameters_is_that_of_the_task(tmp_path: Path):
    step = READ + '\n      - when: {var: n, at_least: "${low}", below: "${high}", do: [{key: {name: back}}]}'
    assert [] == lines_of(tmp_path, step, "params: {low: {type: integer}, high: {type: integer}}")


@pytest.mark.parametrize("text", ["${who", "a ${who} ${", "$$${who"])
def test_a_parameter_that_is_not_closed_is_warned_of(tmp_path: Path, text: str):
    found = lines_of(tmp_path, f'type: {{text: "{text}"}}', "params: {who: {}}")
    words = "${ without a } stands for itself (write ${name}, or $${ for the characters themselves)"
    assert f"/flow.yaml:6: warning: {words}" in found


def test_dollar_signs_that_are_meant_are_left_alone(tmp_path: Path):
    assert [] == lines_of(tmp_path, 'type: {text: "$5 $${who} ${who}{ $$${who}"}', "params: {who: {}}")


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ("00x00", ": '00x00' is not the size of a screen (width and height in pixels, as in 1280x720)"),
        ("1280*720", ": '1280*720' is not the size of a screen (width and height in pixels, as in 1280x720)"),
        ("0x0", " must be text (as in recorded: 1280x720)"),
        ("1280", " must be text (as in recorded: 1280x720)"),
    ],
)
def test_the_size_of_a_screen_has_a_form(tmp_path: Path, size: str, words: str):
    assert [f"/flow.yaml:2: error: recorded{words}"] == lines_of(tmp_path, "key: {name: back}", f"recorded: {size}")


def test_a_file_that_is_called_almost_like_a_flow_is_named(tmp_path: Path):
    lines_of(tmp_path, "key: {name: back}")
    other = tmp_path / "other" / "flow.yml"
    other.parent.mkdir()
    other.write_text("flow: other\n")
    expected = [f"{other}:1: error: is not read (rename flow.yml to flow.yaml)"]
    for path in (tmp_path, other.parent, other):
        assert expected == [str(problem) for problem in lint([path])]
