"""Pause, resume, cancel: in each state, through each channel."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from droidherd.domain.errors import ScreenNotReachedError
from droidherd.domain.task.lifecycle import TaskStatus
from tests.replay.scenario import Path, scenario
from tests.replay.scenarios.stays import ACCOUNT
from tests.workflows.plays import Deaf, Hold, completes, fails, meets_locked_record
from tests.workflows.world import World

Stop = Callable[[World], Awaitable[None]]


# --- where a task may stand when somebody wants something of it ------------------------------------------------


async def pending(world: World) -> None:
    await world.submit("task", not_before=datetime.now(UTC) + timedelta(hours=1))
    await world.admission("task")


async def queued(world: World) -> None:
    await world.order("pause_lane", actor="anna", reason="release")
    await world.submit("task")
    await world.reached("task", TaskStatus.QUEUED)


async def running(world: World) -> None:
    hold = Hold()
    await world.submit("task", hold)
    await hold.began.wait()


async def retry_pending(world: World) -> None:
    missed = fails(ScreenNotReachedError("rewards did not appear"))
    await world.submit("task", missed, params={"policy": {"retries": 1, "backoff_s": 3600}})
    await world.reached("task", TaskStatus.RETRY_PENDING)


async def paused(world: World) -> None:
    await queued(world)
    await world.control("task", "pause", reason="lunch")
    await world.reached("task", TaskStatus.PAUSED)


# --- the three ways to cancel ----------------------------------------------------------------------------------


async def by_signal(world: World) -> None:
    await world.ask("task", "cancel", reason="not needed")


async def by_update(world: World) -> None:
    await world.control("task", "cancel", reason="not needed")


async def by_engine(world: World) -> None:
    await world.task("task").cancel()


def _cancels(where: Stop, channel: Stop) -> Path:
    async def play(world: World) -> None:
        await where(world)
        await channel(world)
        await world.ended("task")

    return play


for _where in (pending, queued, running, retry_pending, paused):
    for _channel in (by_signal, by_update, by_engine):
        _name = f"cancel_{_where.__name__}_{_channel.__name__}"
        scenario(f"cancelled while {_where.__name__}, {_channel.__name__.replace('_', ' ')}", name=_name)(
            _cancels(_where, _channel)
        )


def _pauses(where: Stop, *, ends: bool) -> Path:
    async def play(world: World) -> None:
        await where(world)
        await world.ask("task", "pause", reason="lunch")
        await world.reached("task", TaskStatus.PAUSED)
        await world.ask("task", "resume")
        if ends:
            await world.order("resume_lane", actor="anna")
        else:
            await world.reached("task", TaskStatus.PENDING)
            await by_signal(world)
        await world.ended("task")

    return play


for _where in (pending, queued, running, retry_pending):
    scenario(f"paused while {_where.__name__}, and resumed", name=f"pause_{_where.__name__}")(
        _pauses(_where, ends=_where in (queued, running))
    )


@scenario("paused between two stages: it cleans up, lets go, and goes on with the stage it had not done")
async def pause_between_stages(world: World) -> None:
    deaf = Deaf()
    await world.submit("task", deaf, params={"stages": [*ACCOUNT, {"name": "leave"}]})
    await deaf.began.wait()
    await world.control("task", "pause", reason="lunch")
    deaf.let_go.set()
    await world.reached("task", TaskStatus.PAUSED)
    await world.control("task", "resume")
    await world.ended("task")


@scenario("resumed before the pause took effect: nothing happened")
async def pause_taken_back(world: World) -> None:
    deaf = Deaf()
    await world.submit("task", deaf)
    await deaf.began.wait()
    await world.control("task", "pause")
    await world.control("task", "resume")
    deaf.let_go.set()
    await world.ended("task")


@scenario("resumed while it was cleaning up for the pause: back into line at once")
async def pause_taken_back_too_late(world: World) -> None:
    deaf, cleanup = Deaf(), Deaf()
    await world.submit("task", deaf, cleanup, params={"stages": [{"name": "open"}, {"name": "leave"}]})
    await deaf.began.wait()
    await world.control("task", "pause")
    deaf.let_go.set()
    await cleanup.began.wait()
    await world.control("task", "resume")
    cleanup.let_go.set()
    await world.ended("task")


@scenario("asked to pause in its last stage, which completes: completed")
async def pause_too_late(world: World) -> None:
    deaf = Deaf()
    await world.submit("task", deaf)
    await deaf.began.wait()
    await world.control("task", "pause")
    deaf.let_go.set()
    await world.ended("task")


@scenario("paused, then cancelled before the pause took effect: cancel wins")
async def pause_then_cancel(world: World) -> None:
    deaf = Deaf()
    await world.submit("task", deaf, params={"stages": [{"name": "open"}, {"name": "leave"}]})
    await deaf.began.wait()
    await world.control("task", "pause")
    await world.control("task", "cancel")
    deaf.let_go.set()
    await world.ended("task")


@scenario("cancelled, then paused before the cancel took effect: cancel wins")
async def cancel_then_pause(world: World) -> None:
    deaf = Deaf()
    await world.submit("task", deaf, params={"stages": [{"name": "open"}, {"name": "leave"}]})
    await deaf.began.wait()
    await world.ask("task", "cancel")
    await world.ask("task", "pause")
    await world.ask("task", "cancel")
    deaf.let_go.set()
    await world.ended("task")


@scenario("cancelled in its second stage")
async def cancel_after_a_stage(world: World) -> None:
    hold = Hold()
    await world.submit("task", completes, hold, params={"stages": [{"name": "open"}, {"name": "leave"}]})
    await hold.began.wait()
    await by_update(world)
    await world.ended("task")


@scenario("a worker lacks a key to plan it: paused and resumed while it waits, then cancelled")
async def key_missing_to_plan(world: World) -> None:
    await world.submit("task", params={"locked": True})
    await world.waits_for_key("task")
    await world.control("task", "pause")
    await world.reached("task", TaskStatus.PAUSED)
    await world.control("task", "resume")
    await world.waits_for_key("task")
    await world.control("task", "cancel")
    await world.ended("task")


@scenario("the worker of its stage lacks a key: it lets go of its emulator, waits, and tries again")
async def key_missing_in_a_stage(world: World) -> None:
    await world.submit("task", meets_locked_record, completes)
    await world.ended("task")
