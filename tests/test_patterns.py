"""A regular expression that would compute for ever is a fault of who wrote it, wherever a flow may bring one."""

import time
from typing import Any

import pytest

from droidherd.domain.errors import BadParametersError, FlowError
from droidherd.domain.ports import Box
from droidherd.flows import patterns
from droidherd.flows.model.params import Param, checked_params
from droidherd.flows.run.interpreter import run_stage
from droidherd.virtual.app import HerdState, Scene
from droidherd.vision import text
from tests.flows.stages import bench, stage

SLOW = "(a|aa)+$"
TEXT = "a" * 60 + "b"
MESSAGE = rf"the pattern '{SLOW}' takes too long on a text of 61 characters (write it without repetitions inside"
SIGN_IN = HerdState(scene=Scene.SIGN_IN, running=True, account=TEXT)
READ = {"read": {"ui": {"id": "account"}, "into": "found"}}

STEPS: list[tuple[str, list[dict[str, Any]]]] = [
    ("1", [{"read": {"ui": {"id": "account"}, "match": SLOW, "into": "found"}}]),
    ("1", [{"wait": {"ui": {"matches": SLOW}, "within": "1s"}}]),
    ("2", [READ, {"when": {"var": "found", "matches": SLOW, "do": [{"key": {"name": "back"}}]}}]),
    ("1.1", [{"optional": {"do": [{"tap": {"ui": {"matches": SLOW}}}]}}]),
]


@pytest.mark.parametrize(("place", "steps"), STEPS)
def test_a_flow_with_a_pattern_that_takes_too_long_ends_with_an_error(place: str, steps: list[dict[str, Any]]):
    with pytest.raises(FlowError) as caught:
        run_stage(stage(*steps), bench(SIGN_IN).run())
    assert str(caught.value).startswith(f"step {place}: {MESSAGE}")


def test_words_on_the_screen_are_tried_with_the_same_limit():
    with pytest.raises(FlowError, match="takes too long on a text of 61 characters"):
        text.find((text.Line(TEXT, Box(0, 0, 9, 9), 1.0),), patterns.compile_pattern(SLOW))


def test_a_value_of_a_parameter_with_such_a_pattern_is_refused():
    declared = {"who": Param.model_validate({"pattern": SLOW, "example": "aa"})}
    with pytest.raises(BadParametersError) as caught:
        checked_params(declared, {"who": TEXT})
    assert str(caught.value).startswith(f"params.who: {MESSAGE}")


def test_what_other_threads_compute_is_not_put_to_the_account_of_a_pattern(monkeypatch: pytest.MonkeyPatch):
    """The library's own limit is of the process: a worker with a hundred emulators computes all the time."""
    monkeypatch.setattr(patterns, "LIMIT_S", 1e-9)
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)
    assert patterns.search(patterns.compile_pattern("b$"), TEXT) is not None


def test_what_is_no_regular_expression_is_reported():
    with pytest.raises(ValueError, match="is not a regular expression: missing \\)"):
        patterns.compile_pattern("(")
