"""The table of the lifecycle, pair by pair."""

import itertools

import pytest

from droidherd.domain.errors import IllegalTransitionError
from droidherd.domain.task.lifecycle import (
    FINAL,
    TABLE,
    Intent,
    TaskEvent,
    TaskStatus,
    combine,
    may,
    possible,
    refusal,
    transition,
)

S, E = TaskStatus, TaskEvent
PAIRS = list(itertools.product(TaskStatus, TaskEvent))
DRAWN = {
    S.PENDING: {S.QUEUED, S.REJECTED, S.PAUSED, S.FAILED, S.CANCELLED},
    S.QUEUED: {S.RUNNING, S.PAUSED, S.FAILED, S.PENDING, S.CANCELLED},
    S.RUNNING: {S.COMPLETED, S.FAILED, S.CANCELLED, S.RETRY_PENDING, S.WAITING, S.PENDING, S.PAUSED},
    S.RETRY_PENDING: {S.PENDING, S.PAUSED, S.CANCELLED},
    S.WAITING: {S.RUNNING, S.PENDING, S.PAUSED, S.FAILED, S.CANCELLED},
    S.PAUSED: {S.PENDING, S.FAILED, S.CANCELLED},
    S.COMPLETED: {S.ROLLBACK_PENDING},
    S.FAILED: {S.PENDING, S.ROLLBACK_PENDING},
    S.CANCELLED: {S.PENDING, S.ROLLBACK_PENDING},
    S.REJECTED: set[TaskStatus](),
    S.ROLLBACK_PENDING: {S.ROLLBACK_RUNNING, S.CANCELLED},
    S.ROLLBACK_RUNNING: {S.ROLLBACK_COMPLETED, S.ROLLBACK_FAILED, S.ROLLBACK_PENDING, S.CANCELLED},
    S.ROLLBACK_COMPLETED: set[TaskStatus](),
    S.ROLLBACK_FAILED: {S.ROLLBACK_PENDING},
}
"""The machine as design.md draws it, plus: a start that came too late fails wherever a task waits."""


def test_the_table_is_the_machine_that_is_drawn() -> None:
    assert DRAWN == {state: {after for (before, _), after in TABLE.items() if before is state} for state in TaskStatus}


@pytest.mark.parametrize(("state", "event"), [pair for pair in PAIRS if pair in TABLE])
def test_a_legal_pair_leads_where_the_table_says_and_is_audited(state: TaskStatus, event: TaskEvent) -> None:
    done = transition(state, event, 17, "ann", "because")
    assert (17, state, event, TABLE[state, event], "ann", "because") == (
        done.at_ms, done.before, done.event, done.after, done.actor, done.reason,
    )  # fmt: skip
    assert may(state, event)


@pytest.mark.parametrize(("state", "event"), [pair for pair in PAIRS if pair not in TABLE])
def test_an_illegal_pair_raises_and_names_what_is_possible(state: TaskStatus, event: TaskEvent) -> None:
    possible = sorted(e for s, e in TABLE if s is state)
    with pytest.raises(IllegalTransitionError) as caught:
        transition(state, event, 17, "ann", "because")
    assert all(name in caught.value.remedy for name in possible)
    assert not may(state, event)


@pytest.mark.parametrize("state", [s for s in TaskStatus if s not in FINAL])
def test_every_state_that_is_not_final_can_be_cancelled(state: TaskStatus) -> None:
    assert S.CANCELLED is transition(state, E.CANCELLED, 0, "", "").after


@pytest.mark.parametrize("state", sorted(FINAL))
def test_out_of_a_final_state_only_a_person_leads(state: TaskStatus) -> None:
    assert {event for before, event in TABLE if before is state} <= {E.MANUAL_RETRY, E.ROLLBACK_ASKED}


ASKABLE = {
    S.PENDING: "cancel pause rollback",
    S.QUEUED: "cancel pause prioritize rollback",
    S.RUNNING: "cancel pause rollback",
    S.RETRY_PENDING: "cancel pause rollback",
    S.WAITING: "cancel pause answer rollback",
    S.PAUSED: "cancel resume rollback",
    S.COMPLETED: "rollback",
    S.FAILED: "retry rollback",
    S.CANCELLED: "retry rollback",
    S.REJECTED: "",
    S.ROLLBACK_PENDING: "cancel prioritize",
    S.ROLLBACK_RUNNING: "cancel",
    S.ROLLBACK_COMPLETED: "",
    S.ROLLBACK_FAILED: "rollback",
}


@pytest.mark.parametrize("state", list(TaskStatus))
def test_what_may_be_asked_of_a_task_follows_from_the_table(state: TaskStatus) -> None:
    assert ASKABLE[state].split() == list(possible(state))
    assert {"resume"} | set(possible(state)) - {"resume"} >= set(possible(state, Intent.PAUSE))
    beyond_recall = {"cancel", "rollback"} & set(ASKABLE[state].split())
    if state not in FINAL:
        assert beyond_recall == set(possible(state, Intent.CANCEL)) == set(possible(state, Intent.FORCE))


@pytest.mark.parametrize("state", list(TaskStatus))
def test_a_refusal_says_what_is_possible_in_the_words_of_the_api(state: TaskStatus) -> None:
    message = refusal("retry", state, Intent.NONE, possible(state))
    nothing = "nothing; submit it anew"
    assert f"retry is not possible while {state}; possible now: {', '.join(possible(state)) or nothing}" == message


def test_every_state_can_be_reached() -> None:
    reached = {S.PENDING}
    while more := {after for (before, _), after in TABLE.items() if before in reached} - reached:
        reached |= more
    assert set(TaskStatus) == reached


@pytest.mark.parametrize(
    ("present", "asked", "after"),
    [
        (Intent.NONE, Intent.PAUSE, Intent.PAUSE),
        (Intent.PAUSE, Intent.CANCEL, Intent.CANCEL),
        (Intent.CANCEL, Intent.PAUSE, Intent.CANCEL),
        (Intent.CANCEL, Intent.NONE, Intent.CANCEL),
        (Intent.PAUSE, Intent.NONE, Intent.NONE),
        (Intent.CANCEL, Intent.FORCE, Intent.FORCE),
        (Intent.FORCE, Intent.CANCEL, Intent.FORCE),
        (Intent.FORCE, Intent.NONE, Intent.FORCE),
    ],
)
def test_the_stronger_intent_wins_in_either_order(present: Intent, asked: Intent, after: Intent) -> None:
    assert after is combine(present, asked)
