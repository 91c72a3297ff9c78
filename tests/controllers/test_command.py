import os
import sys

import pytest
from pydantic import ValidationError

from droidherd.controllers import command, run
from droidherd.controllers.model import ControlledEmulator, ControllerCall
from droidherd.processes import children
from droidherd.settings import CommandSettings, ControllerSettings

HOSTILE = ControlledEmulator("e1", "10.0.0.7:5555", "a b; rm -rf {port}", "s'\"$(x)")


def test_each_argument_stays_one_whatever_is_put_in():
    line = ["docker", "restart", "{emulator_id}", "--at={host}/{port}", "{instance}", "{serialno}", "{address}"]
    expected = ["docker", "restart", "e1", "--at=10.0.0.7/5555", "a b; rm -rf {port}", "s'\"$(x)", "10.0.0.7:5555"]
    assert expected == command.fill(line, HOSTILE)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ([], "names no program"),
        ([""], "names no program"),
        (["{instance}"], "the program itself may hold no place"),
        (["a", "{name}"], "{name} is no place; there are emulator_id, address, host, port, instance, serialno"),
        (["a", "{instance.__class__}"], "{instance.__class__} is no place; there are emulator_id, address"),
        (["a", "b\0"], "holds a NUL character"),
        (["a"] * 101, "has 101 arguments, 100 are allowed"),
    ],
)
def test_a_command_that_makes_no_sense_is_refused_with_the_reason(line: list[str], expected: str):
    assert command.problem(line).startswith(expected)
    with pytest.raises(ValidationError):
        CommandSettings(start=tuple(line), stop=("true",))


def test_a_command_may_not_take_the_name_of_a_built_in_controller():
    with pytest.raises(ValidationError, match=r"commands\.mumu"):
        ControllerSettings(commands={"mumu": CommandSettings(start=("a",), stop=("b",))})


def test_a_program_is_started_without_the_keys_of_what_temporal_keeps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DROIDHERD_ENCRYPTION__KEYS", "k1 secret")
    monkeypatch.setenv("LICENCE_OF_THE_VENDOR", "needed")
    children.drop_encryption_keys(os.environ)
    line = [sys.executable, "-c", "import os; print(sorted(os.environ))"]
    named = children.tool_environment(os.environ, ("LICENCE_OF_THE_VENDOR", "DROIDHERD_ENCRYPTION__KEYS"))
    printed = run.run(line, ControllerCall(60, environment=named), to="e1", remedy="").text
    assert "LICENCE_OF_THE_VENDOR" in printed
    assert "DROIDHERD_ENCRYPTION__KEYS" not in printed
