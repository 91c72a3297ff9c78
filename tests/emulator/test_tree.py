"""The elements of the screen of an emulator: a new dump each time, or an error that says which."""

import pytest

from droidherd.domain.errors import EmulatorLostError, RestlessError
from droidherd.emulator.eyes import TREE_FILE, dump_tree, raise_lost
from droidherd.vision.tree import ElementQuery, find, parse
from tests.emulator.farm import LONG_S, One


def test_the_elements_are_those_of_the_screen_as_it_is_now(one: One):
    one.control.set_scene(one.name, "home")
    match = find(parse(one.eyes().tree()), ElementQuery(text="Daily gift", class_="Button"))
    assert (True, 200, 190) == (match.found, match.box.x, match.box.y)
    one.control.set_scene(one.name, "list")
    assert not find(parse(one.eyes().tree()), ElementQuery(text="Daily gift")).found


def test_an_old_dump_never_passes_for_a_new_one(one: One):
    one.eyes().tree()
    one.control.set_fault(one.name, "ui_fail", times=1)
    with pytest.raises(RestlessError, match="could not get idle state"):
        one.eyes().tree()
    assert "No such file" in one.adb.shell(one.address, f"cat {TREE_FILE} 2>&1", LONG_S).text
    assert "</hierarchy>" in one.eyes().tree()


@pytest.mark.parametrize("fault", ["no_open", "shell_hang", "stall", "drop", "shell_cut"])
def test_an_emulator_that_does_not_answer_is_lost_and_not_restless(one: One, fault: str):
    one.control.set_fault(one.name, fault)
    with pytest.raises(EmulatorLostError), raise_lost():
        dump_tree(one.adb, one.address, 0.3)


def test_a_full_disk_is_no_screen_without_elements(one: One):
    one.control.set_fault(one.name, "disk_full")
    with pytest.raises(RestlessError):
        one.eyes().tree()
