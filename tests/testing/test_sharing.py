"""A test does not see what a failed one left behind."""

from types import SimpleNamespace
from typing import Any

from droidherd.testing.answers import breaks
from tests.testing.conftest import SharedHerd


async def test_after_a_failed_test_the_next_one_gets_a_new_server():
    session: Any = SimpleNamespace(testsfailed=0)
    shared = SharedHerd(session)
    try:
        first = await shared.herd()
        emulator = await shared.emulator("e1")
        emulator.answers = [breaks]
        assert (first, emulator) == (await shared.herd(), await shared.emulator("e1"))
        assert [] == emulator.answers
        session.testsfailed = 1
        second = await shared.herd()
        assert second is not first
        assert emulator is not await shared.emulator("e1")
        assert "completed" == (await (await second.submit("check")).result()).state
    finally:
        await shared.close()
