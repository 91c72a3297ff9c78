import pytest
from hypothesis import given
from hypothesis import strategies as st

from droidherd.domain.retention import DAY_MS, Folder, Retention, Run, Stored, shed
from droidherd.domain.task.lifecycle import FINAL, TaskStatus

NOW = 100 * DAY_MS
KEPT = {
    TaskStatus.COMPLETED: 7,
    TaskStatus.CANCELLED: 7,
    TaskStatus.ROLLBACK_COMPLETED: 7,
    TaskStatus.FAILED: 30,
    TaskStatus.ROLLBACK_FAILED: 30,
    TaskStatus.REJECTED: 1,
}


def run(state: str, age_ms: int, *, broken: bool = False) -> Run:
    return Run("t1", "r1", state, NOW - age_ms, broken)


@pytest.mark.parametrize("state", sorted(FINAL))
def test_each_state_is_kept_for_its_days_and_not_a_moment_longer(state: TaskStatus):
    days = KEPT[state] * DAY_MS
    assert [False, True] == [Retention().due(run(state, age), NOW) for age in (days - 1, days)]


@pytest.mark.parametrize("state", sorted(TaskStatus))
def test_a_task_that_was_terminated_is_kept_like_a_failed_one(state: TaskStatus):
    ages = (30 * DAY_MS - 1, 30 * DAY_MS)
    assert [False, True] == [Retention().due(run(state, age, broken=True), NOW) for age in ages]
    assert "failed" == run(state, 1, broken=True).ending


@pytest.mark.parametrize("state", ["", "nonsense", *(one.value for one in TaskStatus if one not in FINAL)])
def test_a_closed_task_that_wrote_down_no_end_has_failed(state: str):
    assert ("failed", False) == (run(state, 0).ending, Retention().due(run(state, 29 * DAY_MS), NOW))


@pytest.mark.parametrize("state", sorted(TaskStatus))
def test_an_open_task_is_never_due(state: TaskStatus):
    nothing = Retention(0.0, 0.0, 0.0)
    assert not nothing.due(Run("t1", "r1", state), NOW)


def test_with_no_days_everything_that_ended_is_due():
    nothing = Retention(0.0, 0.0, 0.0)
    assert all(nothing.due(run(state, 0), NOW) for state in TaskStatus)


days = st.floats(min_value=0, max_value=60)


@given(
    st.sampled_from(sorted(TaskStatus)),
    st.integers(0, 90 * DAY_MS),
    st.booleans(),
    st.builds(Retention, days, days, days),
)
def test_what_is_due_is_found_in_exactly_one_cohort(state: TaskStatus, age_ms: int, broken: bool, retention: Retention):
    one = run(state, age_ms, broken=broken)
    holding = [
        cohort
        for cohort in retention.cohorts(NOW)
        if ((state not in cohort.states or broken) if cohort.others else (state in cohort.states and not broken))
    ]
    assert 1 == len(holding)
    if retention.due(one, NOW):
        assert one.closed_ms <= holding[0].before_ms


def stored(name: str, closed_ms: int, size: int) -> Stored:
    return Stored(closed_ms, Folder(name, size, 0), "completed")


def test_what_a_rollback_needs_is_not_spare_as_long_as_there_may_be_one():
    changed = Folder("a", 100, 0, before=40)
    assert {"completed": 60, "failed": 60, "cancelled": 60, "rollback_failed": 60, "rollback_completed": 100} == {
        ending: Stored(1, changed, ending).spare
        for ending in ("completed", "failed", "cancelled", "rollback_failed", "rollback_completed")
    }
    only = Stored(1, Folder("b", 40, 0, before=40), "completed")
    after = Stored(2, changed, "completed")
    assert [after] == list(shed([only, after], 60))


def test_what_ended_first_goes_first_and_no_more_than_has_to():
    kept = [stored("c", 3, 10), stored("a", 1, 10), stored("b", 2, 10), stored("d", 4, 10)]
    assert ["a", "b"] == [one.folder.task_id for one in shed(kept, 11)]
    assert ["a"] == [one.folder.task_id for one in shed(kept, 10)]
    assert [] == list(shed(kept, 0))
    assert 4 == len(list(shed(kept, 1000)))
