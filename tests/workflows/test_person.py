"""A task that asks a person."""

import pytest
from temporalio.client import WorkflowUpdateFailedError

from droidherd.contracts import names
from droidherd.contracts.tasks import TaskView
from droidherd.domain.messages import Health
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.testing.skipping import until
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


@pytest.mark.parametrize("how", ["goes down", "boots anew", "is quarantined"])
async def test_whose_emulator_is_lost_is_in_line_again_and_asks_anew(here: World, task: str, how: str):
    await here.submit(task, asks(), asks(), completes)
    where = (await here.reached(task, TaskStatus.WAITING)).emulator
    if how == "is quarantined":
        await here.control_emulator(where, "quarantine", "it flickers")
    else:
        await here.sees(where, Health.DOWN if how == "goes down" else Health.GOOD, boot=f"boot-{task}")
    view = await until(lambda: asks_number(here, task, 2), "the second question")
    moved = next(line for line in view.events if line.event == "lease_lost")
    assert (TaskStatus.WAITING, TaskStatus.PENDING) == (moved.before, moved.after)
    assert f"emulator {where} was taken back" in moved.reason
    assert "its question is withdrawn" in moved.reason
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await here.control(task, "answer", choice="no", question=1)
    assert "question 1 is not open any more, it asks question 2 now" in str(refused.value.cause)
    await here.task(task).signal("answer", {"choice": "no", "question": 1})
    await here.control(task, "answer", choice="yes", question=2)
    view = await here.ended(task)
    assert (TaskStatus.COMPLETED, 1, 2) == (view.state, view.attempt, view.questions)
    assert [{}, {}, {"3": "yes"}] == [work.answers for work in here.stages.of(task)]
    if how == "is quarantined":
        await here.control_emulator(where, "release")
    await here.sees(where, Health.GOOD)
    await here.emulator_is(where, "up")


async def test_an_answer_is_refused_while_it_waits_for_a_screen_to_ask_on(here: World, task: str):
    await here.submit(task, asks(), asks(), completes, emulator="e1")
    await waiting(here, task)
    await here.sees("e1", Health.DOWN)
    view = await here.reached(task, TaskStatus.QUEUED)
    assert (None, "", True) == (view.question, view.emulator, "e1 is down" in view.why)
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await here.control(task, "answer", choice="yes")
    assert "question 1 is not open any more: it asks nothing now" in str(refused.value.cause)
    await here.task(task).signal("answer", {"choice": "yes"})
    await here.sees("e1", Health.GOOD)
    assert await until(lambda: asks_number(here, task, 2), "the second question")
    await here.control(task, "answer", choice="no")
    assert TaskStatus.COMPLETED is (await here.ended(task)).state


async def test_a_pause_taken_back_while_it_lets_go_has_it_ask_anew(here: World, task: str):
    leaves = Deaf()
    await here.submit(task, asks(), leaves, asks(), completes)
    await waiting(here, task)
    await here.control(task, "pause")
    await leaves.began.wait()
    await here.control(task, "resume")
    with pytest.raises(WorkflowUpdateFailedError):
        await here.control(task, "answer", choice="yes")
    leaves.let_go.set()
    view = await until(lambda: asks_number(here, task, 2), "the second question")
    assert "resumed after emulator" in next(line for line in view.events if line.event == "lease_lost").reason
    await here.control(task, "answer", choice="yes")
    view = await here.ended(task)
    assert (TaskStatus.COMPLETED, 1) == (view.state, view.attempt)


async def test_lists_say_what_it_asks_and_who_paused_it_in_the_words_of_the_task(here: World, task: str):
    await here.submit(task, asks(), completes, account=task)
    view = await here.reached(task, TaskStatus.WAITING)
    assert view == await in_lists(here, task, view)
    behind = f"{task}-behind"
    await here.submit(behind, account=task, on_busy="queue")
    await here.reached(behind, TaskStatus.QUEUED)
    await here.control(behind, "pause", "root", "lunch")
    view = await here.reached(behind, TaskStatus.PAUSED)
    assert "paused by root: lunch" == view.why == (await in_lists(here, behind, view)).why
    await here.control(behind, "cancel", "root", "not needed")
    await here.control(task, "answer", choice="yes")
    await here.ended(task)
    view = await here.ended(behind)
    assert "cancelled by root: not needed" == view.why == (await in_lists(here, behind, view)).why


async def asks_number(here: World, task: str, number: int) -> TaskView | None:
    view = await here.view(task)
    return view if view.question is not None and view.question.number == number else None


async def in_lists(here: World, task: str, like: TaskView) -> TaskView:
    """As it stands in the memo, which lists show; without its events, which they leave out."""
    kept = await (await here.task(task).describe()).memo_value(names.MEMO_TASK, type_hint=TaskView)
    return kept.model_copy(update={"events": like.events, "updated_at": like.updated_at})
