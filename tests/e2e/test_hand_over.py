"""What stands on deck is in its worker's hands before the task ahead has ended, and touches nothing until then."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client

from droidherd.contracts import names
from droidherd.contracts.fleet import EmulatorView
from droidherd.contracts.plan import PolicyChange
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.virtual.journal import ExecutedCommand
from tests.support.farm import Farm, farm, until

FLOWS = Path(__file__).parent / "flows"
WIDTH = 1280


@contextlib.asynccontextmanager
async def standing(data: Path, *, silence_s: float = 15.0) -> AsyncGenerator[tuple[Farm, Client]]:
    """A farm of one emulator that is up. A try that is silent for so long is replaced."""
    with farm(data, 1, flows=FLOWS, heartbeat_timeout_s=silence_s, lease_ttl_s=silence_s / 2) as place:
        async with asyncio.timeout(300):
            client = await place.client()
            await place.wake(client)
            await place.all_up(client)
            yield place, client


async def test_what_is_on_deck_is_taken_ahead_and_begins_after_the_task_before(tmp_path: Path) -> None:
    async with standing(tmp_path) as (place, client):
        await one_on_deck(place, client)
        assert [] == _taps(place, 20)
        shows(place, "home")
        first, second = await place.ended(client, "first"), await place.ended(client, "second")
        assert (TaskStatus.COMPLETED, TaskStatus.COMPLETED) == (first.state, second.state)
        before, after = _taps(place, 10), _taps(place, 20)
        assert (2, 2) == (len(before), len(after))
        let_go = [c for c in place.journal(place.emulators[0]) if "dh:released" in c.argv]
        assert any(before[-1].monotonic_s < one.monotonic_s < after[0].monotonic_s for one in let_go)
        assert [1, 1] == [len(first.attempts), len(second.attempts)]


async def test_what_is_on_deck_can_be_cancelled_there_and_has_touched_nothing(tmp_path: Path) -> None:
    async with standing(tmp_path) as (place, client):
        await one_on_deck(place, client)
        await client.get_workflow_handle("second").signal("cancel", {"actor": "test"})
        second = await place.ended(client, "second")
        assert TaskStatus.CANCELLED is second.state
        assert TaskStatus.RUNNING is (await place.view(client, "first")).state
        shows(place, "home")
        assert TaskStatus.COMPLETED is (await place.ended(client, "first")).state
        assert [] == _taps(place, 20)


async def test_a_draining_worker_does_not_begin_what_is_on_deck_the_next_one_does(tmp_path: Path) -> None:
    async with standing(tmp_path) as (place, client):
        await one_on_deck(place, client)
        await stops(place, lambda: _turned_away(client))
        assert (2, []) == (len(_taps(place, 10)), _taps(place, 20)), (
            "the one ahead ended in peace, the other never began"
        )
        place.worker.start()
        first, second = await place.ended(client, "first"), await place.ended(client, "second")
        assert (TaskStatus.COMPLETED, TaskStatus.COMPLETED) == (first.state, second.state)
        assert (2, 1) == (len(_taps(place, 20)), second.attempt)


async def test_a_stage_longer_than_every_patience_for_silence_completes_in_one_try(tmp_path: Path) -> None:
    async with standing(tmp_path, silence_s=12.0) as (place, client):
        await place.submit(client, "first", "linger", params={"x": 10, "lasts": "20s"})
        view = await place.ended(client, "first")
        assert (TaskStatus.COMPLETED, 1, 2) == (view.state, len(view.attempts), len(_taps(place, 10)))


async def test_a_stage_that_outlasts_its_attempt_says_so_itself_with_evidence(tmp_path: Path) -> None:
    async with standing(tmp_path) as (place, client):
        change = PolicyChange(time_limit_s=6.0)
        await place.submit(client, "first", "linger", params={"x": 10, "lasts": "20s"}, policy=change)
        view = await place.ended(client, "first")
        assert view.error is not None
        assert (TaskStatus.FAILED, "StageTimeoutError", 1) == (view.state, view.error.kind, len(_taps(place, 10)))
        assert [one.name for one in view.attempts[-1].artifacts if one.name.startswith("log-")]


async def test_between_two_stages_a_draining_worker_leaves_the_emulator_in_order(tmp_path: Path) -> None:
    async with standing(tmp_path) as (place, client):
        await place.submit(client, "first", "held_twice", params={"x": 10})
        await until(lambda: _begun(place), "the first to act")
        await stops(place, lambda: _is(client, place.emulators[0], "draining"))
        assert 1 == len(_taps(place, 10))
        assert ["home", "released"] == _last_words(place)[-2:]
        place.worker.start()
        view = await place.ended(client, "first")
        assert (TaskStatus.COMPLETED, 1) == (view.state, view.attempt)


async def test_asked_twice_a_worker_stops_its_stages_at_their_next_boundary(tmp_path: Path) -> None:
    async with standing(tmp_path) as (place, client):
        await place.submit(client, "first", "linger", params={"x": 10, "lasts": "40s"})
        await until(lambda: _begun(place), "the first to act")
        os.kill(place.worker.pid, signal.SIGTERM)
        await until(lambda: _is(client, place.emulators[0], "draining"), "the emulator to drain")
        assert 0 == await asyncio.to_thread(place.worker.stop)
        assert (1, "released") == (len(_taps(place, 10)), _last_words(place)[-1])


async def _is(client: Client, emulator: str, state: str) -> bool | None:
    view = await client.get_workflow_handle(names.emulator_id(emulator)).query("view", result_type=EmulatorView)
    return True if view.state == state else None


def _last_words(place: Farm) -> list[str]:
    """Keys pressed, and leases let go, in their order."""
    found: list[str] = []
    for command in place.journal(place.emulators[0]):
        if command.argv[:2] == ("input", "keyevent"):
            found.append("home")
        elif "dh:released" in command.argv:
            found.append("released")
    return found


def shows(place: Farm, scene: str) -> None:
    """What is held goes on when it sees `home`, however long that took."""
    with place.control() as control:
        control.set_scene(place.emulators[0], scene)


async def stops(place: Farm, then: Callable[[], Awaitable[bool | None]]) -> None:
    """The worker is asked to stop while a stage is held; once this shows, the stage may end."""
    stopping = asyncio.create_task(asyncio.to_thread(place.worker.stop))
    await until(then, "the worker to drain")
    shows(place, "home")
    assert 0 == await stopping


async def one_on_deck(place: Farm, client: Client) -> None:
    """`first` runs until `home` is shown; the only stage of `second` has been taken by the emulator's worker."""
    shows(place, "home")
    await place.submit(client, "warm", "held", params={"x": 5})
    await place.ended(client, "warm")  # now its kind is known to be short
    shows(place, "launcher")
    await place.submit(client, "first", "held", params={"x": 10})
    await until(lambda: _begun(place), "the first to act")
    await place.submit(client, "second", "held", params={"x": 20})
    await until(lambda: _taken(client), "the second to be taken")


async def _begun(place: Farm) -> bool | None:
    return True if _taps(place, 10) else None


async def _taken(client: Client) -> bool | None:
    answer = await client.get_workflow_handle("second").describe()
    stages = [one for one in answer.raw_description.pending_activities if one.activity_type.name == "run_stage"]
    return True if any(one.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED for one in stages) else None


async def _turned_away(client: Client) -> bool | None:
    return None if await _taken(client) else True


def _taps(place: Farm, x: float) -> list[ExecutedCommand]:
    """Of the task that taps at so many percent across."""
    across = str(round(x / 100 * (WIDTH - 1)))
    return [c for c in place.journal(place.emulators[0]) if c.argv[:3] == ("input", "tap", across)]
