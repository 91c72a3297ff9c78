"""A step that types a credential: asked for when it is typed, and silent about it."""

import pytest
from pydantic import JsonValue

from droidherd.contracts.plan import Plan, Stage
from droidherd.domain.errors import (
    BadParametersError,
    CommandFailedError,
    DroidherdError,
    FencedError,
    UnknownOutcomeError,
)
from droidherd.domain.ports import Acted
from droidherd.flows.model.secret import KEPT_BACK, hush, secrets_of

TYPED = "hunter2"
STEP: JsonValue = {"type": {"text": {"secret": "password"}}}


def test_the_credentials_of_a_plan_are_found_wherever_they_are_typed() -> None:
    nested: JsonValue = {
        "repeat": {"at_most": 2, "do": [{"optional": {"do": [{"type": {"text": {"secret": "pin"}}}]}}]}
    }
    stages = (
        Stage(name="a", steps=(STEP, {"type": {"text": "secret"}})),
        Stage(name="b", steps=(nested,), undo=(STEP,)),
    )
    plan = Plan(task_type="t", flow="t", flow_hash="0", stages=stages, cleanup=({"type": {"text": {"secret": "bye"}}},))
    assert ["password", "pin", "bye"] == secrets_of(plan)


@pytest.mark.parametrize(
    "error",
    [
        CommandFailedError(f"usage: input text {TYPED}", rc=2, to="e1"),
        UnknownOutcomeError(f"the emulator's shell answered '{TYPED[:4]}", to="e1"),
        BadParametersError(f"the character {TYPED[0]} cannot be typed", to="e1", remedy="only printable ASCII can"),
    ],
)
def test_what_an_emulator_answered_is_kept_back_and_the_rest_stands(error: DroidherdError) -> None:
    def act() -> Acted:
        raise error

    with pytest.raises(type(error)) as words:
        hush("type the credential password", act)()
    assert (f"type the credential password: {KEPT_BACK}", "e1", error.remedy) == (
        words.value.what, words.value.to, words.value.remedy,
    )  # fmt: skip
    assert words.value.__cause__ is None
    assert getattr(error, "rc", 0) == getattr(words.value, "rc", 0)


def test_our_own_words_are_not_kept_back() -> None:
    def act() -> Acted:
        raise FencedError("token 7 holds the emulator", to="e1")

    with pytest.raises(FencedError, match="token 7"):
        hush("type the credential password", act)()
