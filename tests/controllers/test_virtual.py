from collections.abc import Generator
from pathlib import Path

import pytest

from droidherd.controllers.model import ControlledEmulator, ControllerCall, ControllerError, Power
from droidherd.controllers.registry import Controllers
from droidherd.controllers.virtual import VirtualController
from droidherd.recovery.build import controllers_of
from droidherd.settings import CommandSettings, ControllerSettings, Settings
from droidherd.virtual.process import VirtualFleet

CALL = ControllerCall(20.0)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Generator[VirtualFleet]:
    with VirtualFleet.start(state=tmp_path_factory.mktemp("virtual"), count=1) as running:
        yield running


def test_a_virtual_emulator_is_stopped_started_and_restarted(fleet: VirtualFleet):
    controller = VirtualController(fleet.state / "ready.json")
    target = ControlledEmulator("virtual-1", fleet.addresses["virtual-1"])
    with fleet.control() as control:
        boots = [control.counters("virtual-1")["boot"]]
    controller.stop(target, CALL)
    assert Power.OFF is controller.status(target, CALL).power
    for act in (controller.start, controller.start, controller.restart):
        act(target, CALL)
        assert (Power.ON, target.address) == (
            controller.status(target, CALL).power,
            controller.status(target, CALL).address,
        )
        with fleet.control() as control:
            boots.append(control.counters("virtual-1")["boot"])
    assert [0, 1, 1, 2] == [boot - boots[0] for boot in boots]


def test_an_emulator_or_a_process_that_is_not_there_is_named_with_what_to_do(fleet: VirtualFleet, tmp_path: Path):
    for ready, words in ((fleet.state / "ready.json", "no emulator 'missing'"), (tmp_path / "none.json", "none.json")):
        with pytest.raises(ControllerError, match=words) as raised:
            VirtualController(ready).start(ControlledEmulator("missing", "127.0.0.1:1"), CALL)
        assert "droidherd up --virtual" in raised.value.remedy


def test_controllers_are_found_by_the_name_in_the_inventory(tmp_path: Path):
    mine = ControllerSettings(
        commands={"docker": CommandSettings(start=("docker", "start", "{instance}"), stop=("x",))}
    )
    found = controllers_of(Settings(data=tmp_path, controllers=mine))
    assert ["virtual", "avd", "mumu", "ldplayer", "docker"] == [*found.by_name]
    assert None is found.find("none")


def test_a_controller_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(ControllerError, match="no controller 'bluestacks'") as raised:
        Controllers({}).find("bluestacks")
    assert "controllers.commands.bluestacks" in raised.value.remedy
