"""Statistics are exact at the end of every history. With one of their rules off, some history shows it."""

import pytest

from droidherd.domain import messages as m
from droidherd.domain.board import Entry
from droidherd.domain.tally import Stint
from tests.protocol.choices import Seeded
from tests.protocol.dispatchers import Watched
from tests.protocol.simulator import history
from tests.protocol.witness import BrokenPromiseError

SEEDS = 3_000


class CountsEveryWord(Watched):
    """Takes what is said again for news."""

    def _hear(self, entry: Entry | None, said: m.Done) -> None:
        if said.token:
            self.tallies.unspoken.setdefault(said.token, Stint("check"))
        super()._hear(entry, said)


class ForgetsTheUnspoken(Watched):
    """Whoever was freed without a word is not listened to any more."""

    def _remove(self, entry: Entry, seq: int, now_ms: int) -> None:
        super()._remove(entry, seq, now_ms)
        self.tallies.unspoken.clear()


@pytest.mark.parametrize("kind", [CountsEveryWord, ForgetsTheUnspoken])
def test_without_this_rule_an_attempt_is_counted_twice_or_not_at_all(kind: type[Watched]) -> None:
    with pytest.raises(BrokenPromiseError, match="was counted"):
        all_histories(kind)


def all_histories(kind: type[Watched]) -> None:
    for seed in range(SEEDS):
        history(Seeded(seed), kind=kind)
