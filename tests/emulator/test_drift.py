"""A stage whose address leads to another emulator by and by."""

from pathlib import Path

import pytest
from pydantic import JsonValue
from typing_extensions import override

from droidherd.domain.errors import FencedError
from droidherd.emulator import lease
from droidherd.emulator.lines import NAME_PROPERTY
from droidherd.emulator.probe import DeviceLink
from droidherd.stage.attempt import StageFailedError
from tests.changes.world import Life, World
from tests.emulator.farm import LONG_S, One


class Drifting(Life):
    """Swaps the ports of two emulators at the first word of a step, and reconnects as a probe loop does."""

    def __init__(self, one: One, other: One, step: str) -> None:
        super().__init__()
        self._one, self._other, self._step = one, other, step
        self.drifted = False

    @override
    def beat(self, progress: str = "") -> None:
        super().beat(progress)
        if progress == self._step:
            self._step = ""
            self.swap()
            DeviceLink(self._one.adb).ensure(self._one.address, deadline_s=LONG_S)

    def swap(self) -> None:
        self.drifted = not self.drifted
        self._one.control.swap_ports(self._one.name, self._other.name)


def test_a_stage_that_ended_by_looking_at_another_emulator_is_not_complete(one: One, other: One, tmp_path: Path):
    """No act comes behind the look, and nothing else asks who it was that was seen."""
    lease.fence(other.adb, other.address, other.token())
    world = World(one, tmp_path)
    anything: JsonValue = {"wait": {"colour": {"is": "#808080", "tolerance": 128}, "within": "9s"}}
    world.replan([anything, anything])
    world.life = life = Drifting(one, other, "2")
    names = {each.address: f"setprop {NAME_PROPERTY} {each.name}" for each in (one, other)}
    one.adb.shell(one.address, f"setprop {NAME_PROPERTY} e1", LONG_S)
    try:
        with world.open, pytest.raises(StageFailedError) as caught:
            world.stage()
        assert (FencedError, True) == (type(caught.value.cause), life.drifted)
    finally:
        if life.drifted:
            life.swap()
        for address, line in names.items():
            DeviceLink(one.adb).ensure(address, deadline_s=LONG_S)
            one.adb.shell(address, line, LONG_S)
