"""Fixtures of the virtual emulator's room."""

from collections.abc import Generator
from pathlib import Path

import pytest

from droidherd.virtual.control import VirtualControl
from droidherd.virtual.process import VirtualFleet
from tests.support.adbserver import PrivateAdb
from tests.virtual.stand import Stand, stand_in


@pytest.fixture
def stand(tmp_path: Path) -> Generator[Stand]:
    """One emulator without sockets."""
    with stand_in(tmp_path) as one:
        yield one


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Generator[VirtualFleet]:
    """Two emulators in a process of their own, shared by the tests of a module."""
    with VirtualFleet.start(count=2, state=tmp_path_factory.mktemp("fleet")) as running:
        yield running


@pytest.fixture
def control(fleet: VirtualFleet) -> Generator[VirtualControl]:
    """The side channel; every fault is cleared at the end."""
    with fleet.control() as channel:
        yield channel
        for emulator in fleet.addresses:
            channel.clear_fault(emulator)
            channel.start(emulator)


@pytest.fixture
def first(fleet: VirtualFleet, private_adb: PrivateAdb) -> str:
    """The address of virtual-1, connected."""
    address = fleet.addresses["virtual-1"]
    private_adb.connect(address)
    return address
