from collections.abc import Generator

import pytest

from droidherd.testing.flows import FlowEmulator, virtual_emulator


@pytest.fixture(scope="module")
def running() -> Generator[FlowEmulator]:
    with virtual_emulator() as one:
        yield one


@pytest.fixture
def emulator(running: FlowEmulator) -> FlowEmulator:
    """At the launcher, signed out, with nothing collected."""
    running.shell("pm clear com.example.herd; input keyevent KEYCODE_HOME")
    return running
