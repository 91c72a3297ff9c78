"""Counting attempts: exactly, in constant space, with percentiles one may rely on."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from droidherd.domain import messages as m
from droidherd.domain.dispatch.stats import (
    BOUNDS_S,
    OTHER,
    TYPES,
    UNREPORTED,
    AttemptStats,
    CountedLease,
    Histogram,
    PoolStats,
)
from tests.domain.dispatch.parts import NOW, Parts

SECONDS = st.floats(min_value=0.01, max_value=86_400.0)


def exact(values: list[float], share: float) -> float:
    return sorted(values)[max(1, math.ceil(share * len(values) - 1e-9)) - 1]


@given(st.lists(SECONDS, min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 1.0]))
def test_a_percentile_is_within_ten_percent(values: list[float], share: float):
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    estimate = histogram.quantile_s(share)
    assert estimate == pytest.approx(exact(values, share), rel=0.1)
    assert (len(values), pytest.approx(sum(values) / len(values))) == (histogram.count, histogram.mean_s())


def test_the_bounds_reach_from_ten_milliseconds_to_a_day():
    assert (0.01, True) == (BOUNDS_S[0], BOUNDS_S[-1] > 86_400)
    histogram = Histogram()
    histogram.add(0.0001)
    histogram.add(10.0**9)
    assert [BOUNDS_S[0], BOUNDS_S[-1]] == [histogram.quantile_s(0.5), histogram.quantile_s(1.0)]


def test_nothing_counted_has_no_mean_and_no_percentile():
    assert (None, None, None) == (Histogram().mean_s(), Histogram().quantile_s(0.5), AttemptStats().success_rate())


@given(st.lists(SECONDS, max_size=50), st.lists(SECONDS, max_size=50))
def test_two_histograms_together_are_that_of_all(one: list[float], other: list[float]):
    parts = [Histogram(), Histogram(), Histogram()]
    for histogram, values in zip(parts, (one, other, [*one, *other]), strict=True):
        for value in values:
            histogram.add(value)
    parts[0].merge(parts[1])
    assert (parts[2].count, parts[2].buckets) == (parts[0].count, parts[0].buckets)
    assert parts[2].seconds == pytest.approx(parts[0].seconds)


def test_a_million_durations_take_no_more_space_than_a_hundred():
    random_ = random.Random(7)
    histogram = Histogram()
    for _ in range(100_000):
        histogram.add(10 ** random_.uniform(-3, 6), 10)
    assert (1_000_000, True) == (histogram.count, len(histogram.buckets) <= len(BOUNDS_S) + 1)


def test_each_outcome_has_its_count_and_cancelled_attempts_no_time():
    pool = PoolStats()
    for outcome in ("completed", "completed", "failed", "retry", "cancelled", "", "lost"):
        pool.add(CountedLease("scan", 3.0), outcome, 2.0)
    stats = pool.of("scan")
    assert (2, 1, 1, 1, 5) == (stats.completed, stats.failed, stats.retries, stats.cancelled, stats.count)
    assert (4, 4, 8.0, 12.0) == (stats.run.count, stats.wait.count, stats.run.seconds, stats.wait.seconds)
    assert stats.success_rate() == pytest.approx(2 / 3)


def test_a_wait_nobody_knows_is_not_counted_as_none():
    pool = PoolStats()
    pool.add(CountedLease("scan"), "completed", 2.0)
    assert (1, 0) == (pool.of("scan").run.count, pool.of("scan").wait.count)


def test_types_used_least_are_folded_and_the_total_stays_exact():
    pool = PoolStats()
    for number in range(TYPES):
        for _ in range(number + 2):
            pool.add(CountedLease(f"kind-{number}", 1.0), "completed", 1.0)
    pool.add(CountedLease("newest", 1.0), "failed", 1.0)
    assert (TYPES + 1, False, 1) == (len(pool.by_type), "kind-0" in pool.by_type, pool.of("newest").failed)
    assert 2 == pool.of(OTHER).completed
    for number in range(10_000):
        pool.add(CountedLease(f"made-up-{number}", 1.0), "cancelled", 1.0)
    total = pool.total()
    assert (TYPES + 1, 10_000, 1) == (len(pool.by_type), total.cancelled, total.failed)
    assert sum(number + 2 for number in range(TYPES)) == total.completed


def test_a_report_that_comes_late_counts_once():
    pool = PoolStats()
    pool.await_report(7, CountedLease("scan", 1.0))
    for _ in range(2):
        pool.report(7, "completed", 2.0)
    pool.report(8, "completed", 2.0)
    assert 1 == pool.total().count


def test_reports_that_never_come_are_forgotten():
    pool = PoolStats()
    for token in range(10 * UNREPORTED):
        pool.await_report(token, CountedLease("scan"))
    assert list(range(9 * UNREPORTED, 10 * UNREPORTED)) == list(pool.unreported)


# --- each lease once ------------------------------------------------------------------------------------------------


def report(token: int, outcome: str = "completed", seconds: float = 2.0) -> m.Done:
    return m.Done(m.Key("t1", "r1", 1), 2, outcome, seconds=seconds, token=token)


def test_a_report_that_is_repeated_counts_once_and_with_its_wait():
    parts = Parts()
    entry = parts.holds("t1", parts.emulator(), NOW + 3_000)
    for _ in range(2):
        parts.statistics.report(entry, report(parts.lease("t1").token))
    found = parts.state.stats.of("check")
    assert (1, 2.0, 3.0) == (found.completed, found.run.seconds, found.wait.seconds)


def test_a_lease_that_ended_unreported_counts_when_its_report_comes():
    parts = Parts()
    entry = parts.holds("t1", parts.emulator())
    lease = parts.lease("t1")
    parts.statistics.on_ended(entry, lease)
    assert 0 == parts.state.stats.total().count
    for _ in range(2):
        parts.statistics.report(None, report(lease.token, "failed"))
    assert 1 == parts.state.stats.of("check").failed


def test_a_lease_from_before_our_memory_counts_once_and_without_a_wait():
    parts = Parts()
    entry = parts.holds("t1", parts.emulator())
    token = parts.lease("t1").token
    parts.statistics.on_adopted(entry, token, rebuilding=True)
    parts.statistics.report(entry, report(token))
    parts.statistics.on_adopted(entry, token, rebuilding=True)
    parts.statistics.report(entry, report(token))
    found = parts.state.stats.of("check")
    assert (1, 0) == (found.completed, found.wait.count)
