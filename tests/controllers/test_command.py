import pytest
from pydantic import ValidationError

from droidherd.controllers import command
from droidherd.controllers.model import ControlledEmulator
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
