"""Statistics are exact at the end of every history. With one of their rules off, some history shows it."""

from collections.abc import Callable

import pytest

from droidherd.domain import messages as m
from droidherd.domain.dispatch.board import Entry
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.stats import CountedLease
from tests.protocol.choices import Seeded
from tests.protocol.dispatchers import Change, after, instead
from tests.protocol.simulator import history
from tests.protocol.witness import BrokenPromiseError

SEEDS = 3_000


def counts_every_report(d: Dispatcher) -> None:
    """Takes a repeated report for news."""

    def report(original: Callable[..., None]) -> Callable[..., None]:
        def gullible(entry: Entry | None, done: m.Done) -> None:
            if done.token:
                d.stats.unreported.setdefault(done.token, CountedLease("check"))
            original(entry, done)

        return gullible

    instead(d.statistics, "report", report)


def forgets_the_unreported(d: Dispatcher) -> None:
    """Whoever was freed without a report is not listened to any more."""
    after(d.leases, "remove", lambda *_: d.stats.unreported.clear())


@pytest.mark.parametrize("change", [counts_every_report, forgets_the_unreported])
def test_without_this_rule_an_attempt_is_counted_twice_or_not_at_all(change: Change) -> None:
    with pytest.raises(BrokenPromiseError, match="was counted"):
        all_histories(change)


def all_histories(change: Change) -> None:
    for seed in range(SEEDS):
        history(Seeded(seed), "", change)
