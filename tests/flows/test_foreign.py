"""Flows of other tools that somebody pasted are recognised, with our word for theirs."""

from pathlib import Path

import pytest
import yaml

from droidherd.flows.lint.foreign import MAESTRO
from tests.flows.test_lint import HEAD, problems

MAESTRO_FLOW = "appId: com.example.game\n---\n- launchApp\n- tapOn: Sign in\n- inputText: ann\n"
MAA_TASK = '{\n  "Start": {\n    "recognition": "TemplateMatch",\n    "template": "start.png"\n  }\n}\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            MAESTRO_FLOW,
            "flow.yaml:3: error: is a flow of Maestro (begin with `flow: NAME` and `stages:`; `launchApp` is",
        ),
        ("appId: com.example.game\n", "flow.yaml:1: error: is a flow of Maestro (begin with"),
        ('- assertVisible: "OK"\n', "flow.yaml:1: error: is a flow of Maestro (begin with `flow: NAME` and `stages:`;"),
        (MAA_TASK, "flow.yaml:3: error: is a pipeline of MAA (begin with"),
    ],
)
def test_a_flow_of_another_tool_is_called_what_it_is(tmp_path: Path, text: str, expected: str):
    (found,) = problems(tmp_path, text)
    assert found.startswith(expected), found


@pytest.mark.parametrize("command", sorted(MAESTRO))
def test_each_step_that_is_named_in_the_place_of_maestros_is_one(tmp_path: Path, command: str):
    """The part that is YAML; what stands behind it is for people."""
    step = MAESTRO[command].partition("}, ")[0]
    step += "}" * (step.count("{") - step.count("}"))
    if not step.startswith("two "):
        assert yaml.safe_load(step)
        missing = ("ok.png", "sign_in", "NAME", "handler")
        found = [one for one in problems(tmp_path, f"{HEAD}      - {step}\n") if " error: " in one]
        assert [] == [one for one in found if not any(word in one for word in missing)]


def test_our_own_flow_may_speak_of_an_app_id(tmp_path: Path):
    assert [] == problems(tmp_path, HEAD + "      - type: {text: 'recognition: OCR'}\n")
