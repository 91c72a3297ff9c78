"""What follows a task: whether, when, for whom and where."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from droidherd.contracts.tasks import Rollback, TaskSpec
from droidherd.domain.errors import ScreenNotReachedError
from droidherd.domain.task.lifecycle import TaskStatus
from tests.workflows.plays import Hold, fails
from tests.workflows.world import World, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

not_reached = fails(ScreenNotReachedError("home did not appear"))


async def last_word(here: World, task: str) -> tuple[TaskStatus, str, str]:
    """State, what followed, and why nothing did."""
    await here.ended(task)
    view = await here.view(task)
    return view.state, view.following, view.chain_ends


async def test_links_follow_one_another_for_the_same_account_on_the_same_emulator(here: World, task: str):
    then = [{"type": "second"}, {"type": "third", "params": {"stages": [{"name": "a"}, {"name": "b"}]}}]
    await here.submit(task, account=f"ann-{task}", then=then, labels={"team": "red"}, priority=3)
    assert (TaskStatus.COMPLETED, f"{task}.2", "") == await last_word(here, task)
    assert (TaskStatus.COMPLETED, f"{task}.3", "") == await last_word(here, f"{task}.2")
    assert (TaskStatus.COMPLETED, "", "") == await last_word(here, f"{task}.3")
    views = [await here.view(one) for one in (task, f"{task}.2", f"{task}.3")]
    assert ["sample", "second", "third"] == [view.type for view in views]
    assert {(f"ann-{task}", "account", 3)} == {(view.account, view.lane, view.priority) for view in views}
    assert 1 == len({view.attempts[-1].emulator for view in views})
    assert ["", task, f"{task}.2"] == [view.chain.previous if view.chain else None for view in views]
    assert [1, 2, 3] == [view.chain.place if view.chain else None for view in views]
    ends = [(view.attempts[0].started, view.attempts[-1].ended) for view in views]
    assert all(before[1] <= after[0] for before, after in pairwise(ends))  # type: ignore[operator]


async def test_all_of_a_chain_are_found_by_its_first(here: World, task: str):
    await here.submit(task, then=[{"type": "second"}])
    await last_word(here, task)
    await last_word(here, f"{task}.2")

    async def two() -> set[str] | None:
        found = {one.id async for one in here.client.list_workflows(f'Tags = "chain={task}"')}
        return found if len(found) > 1 else None

    assert {task, f"{task}.2"} == await until(two, "the chain to be found")


async def test_a_failure_stops_the_chain_only_where_it_is_critical(here: World, task: str):
    await here.submit(task, not_reached, then=[{"type": "second", "critical": True}, {"type": "third"}])
    here.stages.plays[f"{task}.2"] = [not_reached]
    assert (TaskStatus.FAILED, f"{task}.2", "") == await last_word(here, task)
    assert (TaskStatus.FAILED, "", "it is critical, and failed") == await last_word(here, f"{task}.2")


async def test_a_stopped_chain_goes_on_when_its_task_is_retried_each_link_once(here: World, task: str):
    await here.submit(task, not_reached, critical=True, then=[{"type": "second"}])
    assert (TaskStatus.FAILED, "", "it is critical, and failed") == await last_word(here, task)
    await here.again(task)
    assert (TaskStatus.COMPLETED, f"{task}.2", "") == await last_word(here, task)
    await last_word(here, f"{task}.2")
    assert 1 == len(here.stages.of(f"{task}.2"))


async def test_what_followed_once_does_not_follow_again(here: World, task: str):
    await here.submit(task, not_reached, then=[{"type": "second"}])
    assert (TaskStatus.FAILED, f"{task}.2", "") == await last_word(here, task)
    await last_word(here, f"{task}.2")
    await here.again(task)
    assert (TaskStatus.COMPLETED, f"{task}.2", "") == await last_word(here, task)
    assert 1 == len(here.stages.of(f"{task}.2"))


async def test_a_cancelled_task_ends_its_chain(here: World, task: str):
    hold = Hold()
    await here.submit(task, hold, then=[{"type": "second"}])
    await hold.began.wait()
    await here.control(task, "cancel")
    assert (TaskStatus.CANCELLED, "", "it is cancelled") == await last_word(here, task)


async def test_a_failure_taken_back_by_policy_is_a_failure_by_a_person_the_end(here: World, task: str):
    changing = {"stages": [{"name": "set", "changes": [{"step": "1", "thing": "setting", "name": task}]}]}
    sets = here.stages.sets("new", not_reached)
    await here.submit(task, sets, params=changing, on_failure="rollback", then=[{"type": "second"}])
    assert (TaskStatus.ROLLBACK_COMPLETED, f"{task}.2", "") == await last_word(here, task)
    await last_word(here, f"{task}.2")
    other = f"{task}-other"
    hold = Hold()
    await here.submit(other, here.stages.sets("newer", hold), params=changing, then=[{"type": "second"}])
    await hold.began.wait()
    await here.control(other, "rollback")
    assert (TaskStatus.ROLLBACK_COMPLETED, "", "it is rollback_completed") == await last_word(here, other)


async def test_a_task_taken_back_after_its_chain_went_on_still_shows_what_followed(here: World, task: str):
    await here.submit(task, then=[{"type": "second"}])
    await last_word(here, task)
    await last_word(here, f"{task}.2")
    await here.again(task, rollback=Rollback())
    assert (TaskStatus.ROLLBACK_COMPLETED, f"{task}.2", "") == await last_word(here, task)


async def test_a_task_that_cannot_even_be_planned_lets_the_next_one_try(here: World, task: str):
    await here.submit(task, params={"wrong": 1}, then=[{"type": "second"}])
    assert (TaskStatus.FAILED, f"{task}.2", "") == await last_word(here, task)
    assert (TaskStatus.COMPLETED, "", "") == await last_word(here, f"{task}.2")


async def test_a_stranger_with_the_name_of_a_link_does_not_stand_in_for_it(here: World, task: str):
    await here.submit(f"{task}.2")
    await here.ended(f"{task}.2")
    await here.submit(task, then=[{"type": "second"}])
    state, following, why = await last_word(here, task)
    assert (TaskStatus.COMPLETED, "") == (state, why)
    assert following.startswith(f"{task}.2-")
    await here.ended(following)
    assert "second" == (await here.view(following)).type


async def test_a_chain_whose_links_would_have_too_long_names_is_refused(here: World, task: str):
    longest = task.ljust(62, "x")
    await here.submit(f"{longest}.2")  # a stranger, so that the link needs a longer name
    await here.ended(f"{longest}.2")
    await here.submit(longest, then=[{"type": "second"}])
    state, following, _ = await last_word(here, longest)
    assert (TaskStatus.COMPLETED, 64) == (state, len(following))
    assert TaskStatus.COMPLETED == (await here.ended(following)).state

    await here.submit(f"{longest}x", then=[{"type": "second"}])
    why = "must have at most 62 characters when 1 tasks follow"
    state, following, ends = await last_word(here, f"{longest}x")
    assert (TaskStatus.FAILED, "") == (state, following)
    error = (await here.view(f"{longest}x")).error
    assert error is not None
    assert why in error.message
    assert why in ends


async def test_a_link_does_not_inherit_when_its_head_was_to_have_started(here: World, task: str):
    soon = datetime.now(UTC) + timedelta(hours=1)
    await here.submit(task, expires_at=soon, then=[{"type": "second"}])
    assert soon == (await here.ended(task)).expires_at
    assert (await here.ended(f"{task}.2")).expires_at is None


@pytest.mark.parametrize(("given", "expected"), [({}, "queue"), ({"on_busy": "reject"}, "reject")])
async def test_a_task_for_tonight_waits_unless_it_says_otherwise(given: dict[str, str], expected: str):
    spec = TaskSpec.model_validate({"type": "check", "not_before": "2030-01-01T00:00:00Z", **given})
    assert expected == spec.on_busy
