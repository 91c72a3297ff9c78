"""A task that asks a person."""

import pytest
from temporalio.client import WorkflowUpdateFailedError

from droidherd.domain.messages import Health
from droidherd.domain.task.lifecycle import TaskStatus
from tests.workflows.plays import Deaf, Hold, asks, completes
from tests.workflows.world import World

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def waiting(here: World, task: str) -> None:
    await here.reached(task, TaskStatus.WAITING)


async def test_it_shows_its_question_keeps_its_emulator_and_goes_on_with_answer(here: World, task: str):
    await here.submit(task, asks(), completes)
    view = await here.reached(task, TaskStatus.WAITING)
    assert view.question is not None
    assert ("did it pay?", ("yes", "no"), "3") == (view.question.text, view.question.choices, view.question.step)
    assert "asks a person: did it pay? (yes / no)" == view.why
    view = await here.control(task, "answer", actor="ben", reason="I looked", choice="yes")
    assert (TaskStatus.RUNNING, None) == (view.state, view.question)
    view = await here.ended(task)
    first, second = here.stages.of(task)
    assert (first.lease, {}, {"3": "yes"}) == (second.lease, first.answers, second.answers)
    assert (TaskStatus.COMPLETED, 1) == (view.state, view.attempt)
    answered = next(line for line in view.events if line.event == "person_answered")
    assert ("ben", "yes: I looked") == (answered.actor, answered.reason)


async def test_a_signal_answers_as_well_and_what_was_not_offered_is_no_answer(here: World, task: str):
    await here.submit(task, asks(), completes)
    await waiting(here, task)
    for choice in ("perhaps", "no"):
        await here.task(task).signal("answer", {"choice": choice, "actor": "foreign"})
    await here.ended(task)
    assert {"3": "no"} == here.stages.of(task)[1].answers


async def test_an_answer_that_was_not_offered_and_an_answer_to_nothing_are_refused(here: World, task: str):
    await here.submit(task, asks(), completes)
    await waiting(here, task)
    with pytest.raises(WorkflowUpdateFailedError):
        await here.control(task, "answer", choice="perhaps")
    await here.control(task, "answer", choice="yes")
    await here.ended(task)
    hold = Hold()
    await here.submit(f"{task}-asks-nothing", hold)
    await hold.began.wait()
    with pytest.raises(WorkflowUpdateFailedError):
        await here.control(f"{task}-asks-nothing", "answer", choice="yes")
    hold.let_go.set()
    await here.ended(f"{task}-asks-nothing")


async def test_nobody_answers_in_time_it_cleans_up_and_fails(here: World, task: str):
    await here.submit(task, asks(within_s=0.5))
    view = await here.ended(task)
    assert view.error is not None
    assert (TaskStatus.FAILED, "NobodyAnsweredError") == (view.state, view.error.kind)
    assert ["asks", "cleans up"] == ["cleans up" if w.stage is None else "asks" for w in here.stages.of(task)]


async def test_who_frees_its_emulator_waits_and_goes_on_under_a_new_lease(here: World, task: str):
    await here.submit(task, asks(keep=False), completes, emulator="e1")
    await waiting(here, task)
    await here.submit(f"{task}-other", completes, emulator="e1")
    await here.ended(f"{task}-other")
    await here.control(task, "answer", choice="no")
    view = await here.ended(task)
    first, second = here.stages.of(task)
    assert first.lease < second.lease
    assert ({"3": "no"}, first.key) == (second.answers, second.key), "the same attempt"
    assert "person_answered_later" in [line.event for line in view.events]


async def test_nobody_answers_who_freed_its_emulator_and_it_fails(here: World, task: str):
    await here.submit(task, asks(keep=False, within_s=0.5))
    view = await here.ended(task)
    assert view.error is not None
    assert "NobodyAnsweredError" == view.error.kind


@pytest.mark.parametrize("keep", [True, False])
async def test_cancelled_while_it_waits_it_ends_and_its_emulator_is_left_in_order(here: World, task: str, keep: bool):
    await here.submit(task, asks(keep=keep))
    await waiting(here, task)
    await here.control(task, "cancel")
    view = await here.ended(task)
    assert (TaskStatus.CANCELLED, None) == (view.state, view.question)
    assert keep is any(work.stage is None for work in here.stages.of(task)), "whoever freed it cleaned up before"


async def test_paused_while_it_waits_it_asks_again_when_it_is_resumed(here: World, task: str):
    await here.submit(task, asks(), completes, asks(), completes)
    await waiting(here, task)
    await here.control(task, "pause")
    await here.reached(task, TaskStatus.PAUSED)
    await here.control(task, "resume")
    await waiting(here, task)
    await here.control(task, "answer", choice="yes")
    assert TaskStatus.COMPLETED is (await here.ended(task)).state


async def test_an_emulator_that_is_lost_meanwhile_takes_the_question_not_along(here: World, task: str):
    await here.submit(task, asks(), completes)
    view = await here.reached(task, TaskStatus.WAITING)
    where = view.emulator or view.attempts[-1].emulator
    await here.sees(where, Health.DOWN)
    await here.signalled(task, "revoked")
    assert TaskStatus.WAITING is (await here.view(task)).state
    await here.control(task, "answer", choice="yes")
    view = await here.ended(task)
    assert (TaskStatus.COMPLETED, 1) == (view.state, view.attempt)
    await here.sees(where, Health.GOOD)


async def test_a_pause_taken_back_while_it_lets_go_leaves_the_question_standing(here: World, task: str):
    leaves = Deaf()
    await here.submit(task, asks(), leaves, completes)
    await waiting(here, task)
    await here.control(task, "pause")
    await leaves.began.wait()
    await here.control(task, "resume")
    leaves.let_go.set()
    await here.idle()
    view = await here.view(task)
    assert (TaskStatus.WAITING, True) == (view.state, view.question is not None)
    await here.control(task, "answer", choice="yes")
    view = await here.ended(task)
    assert (TaskStatus.COMPLETED, 1) == (view.state, view.attempt)
    assert "person_answered_later" in [line.event for line in view.events]
