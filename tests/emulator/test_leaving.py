"""A worker that leaves says so, whatever became of its presence meanwhile."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.fleet import FleetActivities
from droidherd.contracts.fleet import PresenceBeat, PresenceWork
from droidherd.domain.errors import AbandonedError
from droidherd.domain.messages import Seen
from droidherd.emulator.gate import Gatekeeper
from droidherd.emulator.probe_loop import ProbeLoop
from droidherd.recovery.recovery import Recovery


class Rounds:
    """Walks no rounds; remembers that it was asked to leave."""

    def __init__(self) -> None:
        self.left_incarnations: list[int] = []
        self.began = asyncio.Event()
        self.over = False

    async def run(self, tell: Callable[[tuple[Seen, ...]], Awaitable[None]], incarnation: int) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.over = True

    def leave(self, incarnation: int) -> None:
        self.left_incarnations.append(incarnation)

    def last_probes(self) -> PresenceBeat:
        return PresenceBeat()

    def left_reports(self, incarnation: int) -> tuple[Seen, ...]:
        return ()


class Nowhere:
    """A client nobody asks."""

    def get_workflow_handle(self, workflow_id: str) -> None:
        return None


def fleet_of(*rounds: Rounds) -> FleetActivities:
    line = list(rounds)
    probe_loop = cast("Callable[[], ProbeLoop]", lambda: line.pop(0))
    return FleetActivities(cast("Client", Nowhere()), probe_loop, cast("Gatekeeper", None), cast("Recovery", None))


@asynccontextmanager
async def present(fleet: FleetActivities, rounds: Rounds) -> AsyncGenerator["asyncio.Task[Any]"]:
    work = PresenceWork(host_id="h1", incarnation=7)
    running = asyncio.create_task(ActivityEnvironment().run(fleet.presence, work))
    await rounds.began.wait()
    yield running
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_running_presence_is_notified_and_goes_on_until_the_stages_end() -> None:
    rounds = Rounds()
    fleet = fleet_of(rounds)
    async with present(fleet, rounds) as running:
        fleet.leave()
        await asyncio.sleep(0)
        assert ([7], False) == (rounds.left_incarnations, running.done())
        fleet.end_presence()
        assert 7 == (await running).incarnation


async def test_a_presence_that_begins_while_the_worker_leaves_is_notified() -> None:
    rounds = Rounds()
    fleet = fleet_of(rounds)
    fleet.leave()
    async with present(fleet, rounds):
        assert [7] == rounds.left_incarnations


async def test_an_older_presence_that_ends_late_does_not_take_the_newer_one_along() -> None:
    older, newer = Rounds(), Rounds()
    fleet = fleet_of(older, newer)
    async with present(fleet, older) as first, present(fleet, newer):
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert fleet.present.is_set()
        fleet.leave()
        assert ([], [7]) == (older.left_incarnations, newer.left_incarnations)
    assert not fleet.present.is_set()


async def test_a_presence_that_begins_ends_the_one_before_that_temporal_gave_up() -> None:
    """Of two that tell changes only, the last word of the older one would stand for ever."""
    older, newer = Rounds(), Rounds()
    fleet = fleet_of(older, newer)
    async with present(fleet, older) as first, present(fleet, newer) as second:
        with pytest.raises(AbandonedError, match="a newer presence"):
            await first
        assert (True, False, False) == (older.over, newer.over, second.done())
        assert fleet.present.is_set()
