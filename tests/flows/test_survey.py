"""What is wrong with screens, routes and interrupts, said with file, line and fix."""

from pathlib import Path

import pytest

from tests.flows.test_lint import problems

VALID = """flow: demo
app: com.example.game
screens:
  login: {image: login.png}
  home: {image: home.png}
routes:
  - {from: any, to: login, do: [{start_app: {}}]}
  - {from: login, to: home, do: [{tap: {image: go.png}}]}
interrupts:
  - {when: {image: x.png}, do: [{tap: {image: x.png}}]}
stages:
  - stage: main
    at: home
    steps: [{goto: login}, {tap: {image: go.png, then: {screen: home, within: 5s}}}]
cleanup: [{stop_app: {}}]
"""
IMAGES = ("login.png", "home.png", "go.png", "x.png")

FAULTS = [
    ("at: home", "at: hoem", "flow.yaml:13: error: there is no screen 'hoem' (did you mean home?)"),
    ("{goto: login}", "{goto: shop}", "flow.yaml:14: error: there is no screen 'shop' (known are: home, login)"),
    ("{screen: home", "{screen: hom", "flow.yaml:14: error: there is no screen 'hom' (did you mean home?)"),
    ("from: login,", "from: logni,", "flow.yaml:8: error: there is no screen 'logni' (did you mean login?)"),
    ("to: home,", "to: hme,", "flow.yaml:8: error: there is no screen 'hme' (did you mean home?)"),
    ("to: home,", "to: any,", "flow.yaml:8: error: a route leads to one screen (known are: home, login)"),
    ("to: home,", "to: login,", "flow.yaml:8: error: a route from login to itself (remove it)"),
    (
        "{from: any, to: login,",
        "{from: login, to: home, cost: 2,",
        (
            "flow.yaml:14: warning: no route leads to screen 'login': it has to be there by itself "
            "(add routes: [{from: any, to: login, do: [...]}])"
        ),
    ),
    (
        "{when: {image: x.png}",
        "{when: {image: home.png}",
        (
            "flow.yaml:10: error: this is screen home, which would be dismissed whenever it appears "
            "(recognise one of them by something else)"
        ),
    ),
    (
        "{when: {image: x.png}",
        "{when: {image: go.png}",
        (
            "flow.yaml:14: warning: what is waited for here is dismissed by interrupt 1 before this step sees it "
            "(leave it to the interrupt)"
        ),
    ),
    (
        "{when: {image: x.png}",
        "{when: {gone: x.png}",
        (
            "flow.yaml:10: warning: an interrupt that is recognised by what is missing comes nearly always "
            "(name something that is there)"
        ),
    ),
    (
        "home: {image: home.png}",
        "home: {image: login.png}",
        (
            "flow.yaml:5: warning: screens login and home cannot be told apart: login is taken for both "
            "(add an area, or choose another image)"
        ),
    ),
    (
        "home: {image: home.png}",
        "home: {gone: home.png}",
        (
            "flow.yaml:5: warning: screen home is recognised by what is missing: so are many others "
            "(name something that is there)"
        ),
    ),
    (
        "home: {image: home.png}",
        "home: {screen: login}",
        "flow.yaml:5: error: screen home is recognised by a screen (say what is to be seen on it)",
    ),
    ("login: {image", "any: {image", "flow.yaml:4: error: any stands for every screen (give the screen another name)"),
    ("do: [{start_app: {}}]", "do: []", "flow.yaml:7: error: do has too few entries; at least 1 are needed"),
    ("do: [{start_app: {}}]", "doo: []", "flow.yaml:7: error: unknown key 'doo' (did you mean do?)"),
    (
        "do: [{start_app: {}}]",
        "do: [{goto: home}]",
        "flow.yaml:7: error: goto does not belong into routes (put it into a stage)",
    ),
    (
        "do: [{start_app: {}}]",
        "do: [{ask: {what: a, choices: [b], within: 5m}}]",
        (
            "flow.yaml:7: error: a question on the way keeps its emulator and is the first step of an interrupt "
            "(put it into a stage, or begin an interrupt with it)"
        ),
    ),
    (
        "do: [{tap: {image: x.png}}]",
        "do: [{set: {setting: global/a, to: b}}]",
        "flow.yaml:10: error: set does not belong into interrupts (put it into a stage)",
    ),
    (
        "{image: login.png}",
        "{image: nowhere.png}",
        "flow.yaml:4: error: nowhere.png: no such image (put it at {folder}/nowhere.png)",
    ),
    ("cleanup:", "lost: {at_most: 2}\ncleanup:", "flow.yaml:15: error: do is missing (add the steps, as in do: "),
    ("cleanup:", "guards: {tap: 2}\ncleanup:", "flow.yaml:15: error: unknown key 'tap' (did you mean taps?)"),
    (
        "cleanup:",
        "guards: {taps: 20}\ncleanup:",
        "flow.yaml:15: error: guards: 20 taps of the last 15 cannot be",
    ),
    (
        "{screen: home, within: 5s}",
        "{screen: home, area: [0, 0, 9, 9], within: 5s}",
        "flow.yaml:14: error: then: area belongs to the screen itself, under screens",
    ),
    ("start_app: {}", 'start_app: {app: "${who}"}', "flow.yaml:7: error: parameter 'who' is not declared"),
]


@pytest.mark.parametrize(("text", "by", "expected"), FAULTS)
def test_what_is_wrong_with_screens_is_named_with_file_line_and_fix(
    tmp_path: Path, text: str, by: str, expected: str
) -> None:
    assert text in VALID
    found = problems(tmp_path, VALID.replace(text, by, 1), *IMAGES)
    expected = expected.replace("{folder}", str(tmp_path / "demo"))
    assert any(problem.startswith(expected) for problem in found), found


def test_a_valid_screen_map_has_no_problems(tmp_path: Path) -> None:
    assert [] == problems(tmp_path, VALID, *IMAGES)
