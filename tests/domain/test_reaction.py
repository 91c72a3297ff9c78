"""What a task does after trouble: the table, row by row, at every edge of its budgets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from droidherd.domain.errors import Verdict
from droidherd.domain.task.reaction import (
    DELAY_MAX_S,
    FENCED,
    Budget,
    FailureCause,
    Next,
    again_s,
    backoff_problem,
    delay_s,
    key_again_s,
    react,
)

PLENTY = Budget(tries_left=7, moves_left=10, retries_left=3)
NO_TRIES = Budget(tries_left=0, moves_left=10, retries_left=3)
NO_MOVES = Budget(tries_left=7, moves_left=0, retries_left=3)
NO_RETRIES = Budget(tries_left=7, moves_left=10, retries_left=0)
TIMEOUTS = Budget(tries_left=7, moves_left=10, retries_left=3, timeouts_only=True)
NOTHING = Budget(tries_left=0, moves_left=0, retries_left=0)

INFRA, RETRYABLE, FINAL, HUMAN = Verdict.INFRASTRUCTURE, Verdict.RETRYABLE, Verdict.FINAL, Verdict.HUMAN

TABLE = [
    # trouble, kind, verdict, budget, what comes next
    (FailureCause.ERROR, "EmulatorLostError", INFRA, PLENTY, Next.AGAIN),
    (FailureCause.ERROR, "EmulatorLostError", INFRA, NO_TRIES, Next.MOVE),
    (FailureCause.ERROR, "EmulatorLostError", INFRA, NO_RETRIES, Next.AGAIN),
    (FailureCause.ERROR, "EmulatorLostError", INFRA, NO_MOVES, Next.AGAIN),
    (FailureCause.ERROR, "EmulatorLostError", INFRA, NOTHING, Next.FAIL),
    (FailureCause.ERROR, "NotReleasedError", INFRA, PLENTY, Next.AGAIN),
    (FailureCause.ERROR, FENCED, INFRA, PLENTY, Next.MOVE),
    (FailureCause.ERROR, FENCED, INFRA, NO_TRIES, Next.MOVE),
    (FailureCause.ERROR, FENCED, INFRA, NO_MOVES, Next.FAIL),
    (FailureCause.ERROR, "ScreenNotReachedError", RETRYABLE, PLENTY, Next.RETRY),
    (FailureCause.ERROR, "ScreenNotReachedError", RETRYABLE, NO_TRIES, Next.RETRY),
    (FailureCause.ERROR, "ScreenNotReachedError", RETRYABLE, NO_RETRIES, Next.FAIL),
    (FailureCause.ERROR, "FlowError", FINAL, PLENTY, Next.FAIL),
    (FailureCause.ERROR, "NeedsPersonError", HUMAN, PLENTY, Next.ASK),
    (FailureCause.ERROR, "UnclassifiedError", "", PLENTY, Next.FAIL),
    (FailureCause.ERROR, "SomebodyElsesError", "a word we do not know", PLENTY, Next.FAIL),
    (FailureCause.SILENT, "EmulatorLostError", INFRA, PLENTY, Next.AGAIN),
    (FailureCause.SILENT, "EmulatorLostError", INFRA, NO_TRIES, Next.MOVE),
    (FailureCause.SILENT, "EmulatorLostError", INFRA, NOTHING, Next.FAIL),
    (FailureCause.RESTARTED, "EmulatorLostError", INFRA, PLENTY, Next.AGAIN),
    (FailureCause.RESTARTED, "EmulatorLostError", INFRA, NO_TRIES, Next.MOVE),
    (FailureCause.NOT_STARTED, "EmulatorLostError", INFRA, PLENTY, Next.MOVE),
    (FailureCause.NOT_STARTED, "EmulatorLostError", INFRA, NO_MOVES, Next.FAIL),
    (FailureCause.REVOKED, "EmulatorLostError", INFRA, PLENTY, Next.MOVE),
    (FailureCause.REVOKED, "EmulatorLostError", INFRA, NO_TRIES, Next.MOVE),
    (FailureCause.REVOKED, "EmulatorLostError", INFRA, NO_MOVES, Next.FAIL),
    (FailureCause.TOO_LONG, "StageTimeoutError", RETRYABLE, PLENTY, Next.RETRY),
    (FailureCause.TOO_LONG, "StageTimeoutError", RETRYABLE, NO_RETRIES, Next.FAIL),
    (FailureCause.TOO_LONG, "StageTimeoutError", RETRYABLE, TIMEOUTS, Next.RETRY),
    (FailureCause.ERROR, "StageTimeoutError", RETRYABLE, TIMEOUTS, Next.RETRY),
    (FailureCause.ERROR, "StuckError", RETRYABLE, TIMEOUTS, Next.RETRY),
    (FailureCause.ERROR, "ScreenNotReachedError", RETRYABLE, TIMEOUTS, Next.FAIL),
    (FailureCause.ERROR, "ServerBusyError", RETRYABLE, TIMEOUTS, Next.FAIL),
    (FailureCause.ERROR, "EmulatorLostError", INFRA, TIMEOUTS, Next.AGAIN),
    (FailureCause.ERROR, "NeedsPersonError", HUMAN, TIMEOUTS, Next.ASK),
]


@pytest.mark.parametrize(("trouble", "kind", "verdict", "budget", "expected"), TABLE)
def test_each_trouble_has_its_answer(trouble: FailureCause, kind: str, verdict: str, budget: Budget, expected: Next):
    assert expected is react(trouble, kind, verdict, budget)


def test_every_trouble_stands_in_the_table():
    assert set(FailureCause) == {row[0] for row in TABLE}


budgets = st.builds(Budget, *[st.integers(min_value=0, max_value=20)] * 3, timeouts_only=st.booleans())
kinds = st.sampled_from([FENCED, "EmulatorLostError", "FlowError", "Anything"])
verdicts = st.sampled_from([*Verdict, "", "unknown"])


@given(st.sampled_from(FailureCause), kinds, verdicts)
def test_with_nothing_left_every_trouble_is_end_but_a_person_can_be_asked(
    trouble: FailureCause, kind: str, verdict: str
):
    asks = trouble is FailureCause.ERROR and verdict == HUMAN and kind != FENCED
    assert (Next.ASK if asks else Next.FAIL) is react(trouble, kind, verdict, NOTHING)


@given(st.sampled_from(FailureCause), kinds, verdicts, budgets)
def test_no_answer_spends_what_is_not_there(trouble: FailureCause, kind: str, verdict: str, budget: Budget):
    left = {
        Next.AGAIN: budget.tries_left,
        Next.MOVE: budget.moves_left,
        Next.RETRY: budget.retries_left,
        Next.ASK: 1,
        Next.FAIL: 1,
    }
    assert left[react(trouble, kind, verdict, budget)] > 0


@given(st.sampled_from(FailureCause), kinds, budgets)
def test_infrastructure_never_eats_an_attempt(trouble: FailureCause, kind: str, budget: Budget):
    if trouble is not FailureCause.TOO_LONG:
        assert Next.RETRY is not react(trouble, kind, Verdict.INFRASTRUCTURE, budget)


def test_a_fixed_delay_stays_what_it_is():
    assert [30.0, 30.0, 30.0] == [delay_s("fixed", 30.0, attempt) for attempt in (1, 2, 9)]


def test_an_exponential_delay_doubles_up_to_five_minutes():
    assert [60.0, 120.0, 240.0, 300.0, 300.0] == [delay_s("exponential", 60.0, n) for n in range(1, 6)]


def test_an_exponential_delay_of_the_largest_policy_is_five_minutes():
    assert 300.0 == delay_s("exponential", 3600.0, 20)


@pytest.mark.parametrize("kind", ["fixed", "exponential"])
def test_a_server_that_says_how_long_is_left_alone_for_five_minutes_at_most(kind: str):
    assert [7.0, 299.0, 300.0, 60.0] == [delay_s(kind, 60.0, 1, asked) for asked in (7.0, 299.0, 86_400.0, 0.0)]


def test_only_an_exponential_delay_that_begins_above_its_end_makes_no_sense():
    assert ["", "", ""] == [backoff_problem(*one) for one in (("fixed", 3600), ("exponential", 300), ("", 3600))]
    assert "cannot begin with 3600" in backoff_problem("exponential", 3600)


def test_the_pause_before_same_stage_runs_again_doubles_up_to_five_seconds():
    assert [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0] == [again_s(n) for n in range(1, 8)]


def test_a_missing_key_is_asked_for_ever_less_often() -> None:
    assert [10.0, 20.0, 40.0] == [key_again_s(tries) for tries in (1, 2, 3)]
    assert DELAY_MAX_S == key_again_s(6) == key_again_s(1_000_000)
