"""What becomes of tasks that ended, of tasks nobody waits for, and of tasks that ask."""

import asyncio
from datetime import timedelta

from droidherd.contracts.tasks import Answer, Rollback
from droidherd.domain.errors import FencedError, ScreenNotReachedError
from droidherd.domain.messages import Health
from droidherd.domain.task.lifecycle import TaskStatus
from tests.replay.scenario import DISPATCHER, TASK, Setting, scenario
from tests.replay.scenarios.ends import SETTLE_S
from tests.workflows.plays import AwaitsTurn, Deaf, Hold, again_in, asks, completes, fails
from tests.workflows.world import World

not_reached = fails(ScreenNotReachedError("home did not appear"))
fenced = fails(FencedError("another lease holds it"), clean=False)
SHORT, MANY = Setting(short=True), 50
"""Messages, for which such a history has no room."""
CHANGES = {"stages": [{"name": n, "changes": [{"step": "1", "thing": "setting", "name": n}]} for n in ("a", "b")]}


@scenario("a failed task is tried again: a new run under its id")
async def tried_again(world: World) -> None:
    await world.submit("task", not_reached, completes)
    await world.ended("task")
    await world.again("task")
    await world.ended("task")


@scenario("cancelled by force amid a stage that may have acted in the account, then tried again")
async def tried_again_after_acting(world: World) -> None:
    deaf = Deaf()
    stages = [{"name": "open"}, {"name": "collect", "effect": "account"}]
    await world.submit("task", completes, deaf, params={"stages": stages})
    await deaf.began.wait()
    await world.control("task", "cancel", force=True)
    await world.ended("task")
    deaf.let_go.set()
    await world.again("task")
    await world.ended("task")
    await world.idle()


@scenario("a task that changed things is taken back: a new run under its id")
async def taken_back(world: World) -> None:
    await world.submit("task", world.stages.sets("1"), world.stages.sets("2"), params=CHANGES)
    await world.ended("task")
    await world.again("task", Rollback())
    await world.ended("task")


@scenario("somebody else changed it since: a conflict, then force")
async def taken_back_by_force(world: World) -> None:
    await world.submit("task", world.stages.sets("1"), world.stages.sets("2"), params=CHANGES)
    await world.ended("task")
    world.stages.things["e1", "b"] = "theirs"
    await world.again("task", Rollback())
    await world.ended("task")
    await world.again("task", Rollback(force=True))
    await world.ended("task")


@scenario(
    "an emulator it changed is gone: force takes back the rest and says what is left",
    setting=Setting(emulators=("e1", "e2")),
)
async def taken_back_without_one(world: World) -> None:
    sets = world.stages.sets
    await world.submit("task", sets("1"), fenced, sets("1"), sets("2"), params=CHANGES)
    view = await world.ended("task")
    gone = view.attempts[-1].emulator
    await world.sees(gone, Health.LEFT)
    await world.emulator_is(gone, "retired")
    await asyncio.sleep(SETTLE_S)
    await world.again("task", Rollback(force=True))
    await world.ended("task")


@scenario("a rollback asks a person, which fails it, and is asked for again")
async def taken_back_at_last(world: World) -> None:
    world.stages.back["task"] = [asks()]
    await world.submit("task", world.stages.sets("1"), world.stages.sets("2"), params=CHANGES)
    await world.ended("task")
    await world.again("task", Rollback())
    await world.ended("task")
    await world.again("task", Rollback())
    await world.ended("task")


@scenario("a capture and an undo wait for their turn when they are not wanted any more")
async def captured_and_undone_before_its_turn(world: World) -> None:
    capture, undo = AwaitsTurn(), AwaitsTurn()
    world.stages.before["task"], world.stages.back["task"] = [capture], [undo]
    await world.submit("task", world.stages.sets("1"), world.stages.sets("2"), params=CHANGES)
    await capture.began.wait()
    await world.control("task", "pause")
    await world.reached("task", TaskStatus.PAUSED)
    await world.control("task", "resume")
    await world.ended("task")
    await world.again("task", Rollback())
    await undo.began.wait()
    await world.control("task", "cancel")
    await world.ended("task")


@scenario("it changes things, is cancelled and taken back in one run")
async def cancelled_and_taken_back(world: World) -> None:
    hold = Hold()
    await world.submit("task", world.stages.sets("1"), world.stages.sets("2", hold), params=CHANGES)
    await hold.began.wait()
    await world.ask("task", "rollback")
    await world.ended("task")


@scenario("it fails and is taken back, as its submitter asked")
async def taken_back_by_policy(world: World) -> None:
    await world.submit("task", world.stages.sets("1", not_reached), params=CHANGES, on_failure="rollback")
    await world.ended("task")


@scenario("it wants to run again, twice, and is cancelled while it waits")
async def rescheduled(world: World) -> None:
    await world.submit("task", again_in(timedelta(seconds=1)), again_in(timedelta(hours=1)))
    view = await world.view("task")
    while view.rounds < 2:
        view = await world.reached("task", TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.QUEUED)
    await world.control("task", "cancel")
    await world.ended("task")


@scenario("a forced cancel: what runs is abandoned, the emulator fenced", keep=(TASK, DISPATCHER))
async def forced(world: World) -> None:
    deaf = Deaf()
    await world.submit("task", deaf, account="42")
    await deaf.began.wait()
    await world.ask("task", "force_cancel")
    await world.ended("task")
    deaf.let_go.set()
    await world.idle()


@scenario("a person is asked, answers, and the stage goes on on the same lease", keep=(TASK, DISPATCHER))
async def asked_and_answered(world: World) -> None:
    await world.submit("task", asks(), completes)
    await world.reached("task", TaskStatus.WAITING)
    await world.control("task", "answer", choice="yes")
    await world.ended("task")


@scenario("a new worker took the host over while a person is asked: the emulator stays with the task")
async def asked_over_a_restart(world: World) -> None:
    await world.submit("task", asks(), completes)
    await world.reached("task", TaskStatus.WAITING)
    await world.join(2)
    await world.signalled("task", "revoked")
    await world.control("task", "answer", choice="yes")
    await world.ended("task")


@scenario("a person is asked for so long that the task goes on in a new run, once its stage ended", setting=SHORT)
async def asked_for_long(world: World) -> None:
    await world.submit("task", asks(), completes, params={"stages": [{"name": "first"}, {"name": "second"}]})
    await world.reached("task", TaskStatus.WAITING)
    for _ in range(MANY):
        await world.task("task").signal("nobody_knows_this")
    await world.control("task", "answer", choice="yes")
    await world.ended("task")


@scenario("a person is asked while the emulator is free for others")
async def asked_without_an_emulator(world: World) -> None:
    await world.submit("task", asks(keep=False), completes)
    await world.reached("task", TaskStatus.WAITING)
    await world.task("task").signal("answer", Answer(choice="no"))
    await world.ended("task")


@scenario("nobody answers in time")
async def nobody_answered(world: World) -> None:
    await world.submit("task", asks(within_s=0.5))
    await world.ended("task")


@scenario("its emulator goes down while it asks: the question is withdrawn, and asked anew where it goes on")
async def asked_and_lost(world: World) -> None:
    await world.submit("task", asks(), asks(), completes)
    await world.reached("task", TaskStatus.WAITING)
    await world.sees("e1", Health.DOWN)
    await world.signalled("task", "revoked")
    await world.sees("e1", Health.GOOD, boot="boot-2")
    while (await world.view("task")).questions < 2:
        await world.reached("task", TaskStatus.WAITING)
    await world.control("task", "answer", choice="yes", question=2)
    await world.ended("task")


@scenario("paused and cancelled while it asks")
async def asked_and_paused(world: World) -> None:
    await world.submit("task", asks(), completes)
    await world.reached("task", TaskStatus.WAITING)
    await world.control("task", "pause")
    await world.reached("task", TaskStatus.PAUSED)
    await world.control("task", "cancel")
    await world.ended("task")


@scenario("an answer and, right behind it, a pause: the answer counts, the pause comes before the next stage")
async def answered_and_paused(world: World) -> None:
    stages = [{"name": "open"}, {"name": "collect"}]
    await world.submit("task", asks(), completes, completes, params={"stages": stages})
    await world.reached("task", TaskStatus.WAITING)
    task = world.task("task")
    await task.signal("answer", {"choice": "yes"})
    await task.signal("pause", {"actor": "anna"})
    await world.reached("task", TaskStatus.PAUSED)
    await world.control("task", "resume")
    await world.ended("task")


@scenario("what follows a task: a chain of three, the second of which is critical and fails")
async def chain(world: World) -> None:
    world.stages.plays["task.2"] = [not_reached]
    then = [{"type": "second", "critical": True}, {"type": "third"}]
    await world.submit("task", account="ann", then=then)
    await world.ended("task")
    await world.ended("task.2")


@scenario("somebody else has the name of a link")
async def chain_again(world: World) -> None:
    await world.submit("task.2")
    await world.ended("task.2")
    await world.submit("task", then=[{"type": "second"}])
    await world.ended("task")
