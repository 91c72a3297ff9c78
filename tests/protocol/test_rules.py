"""Each rule of docs/protocol.md closes a hole: with the rule off, the simulator falls into it."""

import pytest

from droidherd.domain import messages as m
from droidherd.domain.board import Entry
from tests.protocol import driver
from tests.protocol.choices import Seeded
from tests.protocol.dispatchers import Watched
from tests.protocol.simulator import history
from tests.protocol.witness import BrokenPromiseError

SEEDS = 1_000


def test_with_every_rule_in_place_nothing_breaks() -> None:
    assert [] == driver.found("", SEEDS // 2)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param("key", id="1-the-key-names-the-run"),
        pytest.param("outbox", id="2-messages-stay-in-the-outbox-until-delivered"),
        pytest.param("order", id="3-one-message-in-flight-per-target"),
        pytest.param("atomic", id="4-nothing-is-awaited-between-snapshot-and-continuing"),
        pytest.param("journal", id="the-effect-journal-is-read"),
        pytest.param("marker", id="a-lease-on-deck-needs-the-release-marker"),
        pytest.param("roll-call", id="a-dispatcher-that-lost-messages-calls-the-roll"),
    ],
)
def test_without_this_rule_a_promise_is_broken(rule: str) -> None:
    assert driver.found(rule, SEEDS)


class Forgetful(Watched):
    """Takes every message for a new one."""

    def on_enqueue(self, ask: m.Enqueue, now_ms: int) -> None:
        self.recent.clear()
        super().on_enqueue(ask, now_ms)

    def on_done(self, message: m.Done, now_ms: int) -> None:
        entry = self.board.entries.get(message.key.task_id)
        super().on_done(m.Done(message.key, 1 << 50, message.outcome, message.clean) if entry else message, now_ms)


class FreesTheDown(Watched):
    """Believes that whoever ran on an emulator that is down has let go."""

    def on_announce(self, news: m.Announce, now_ms: int) -> None:
        super().on_announce(news, now_ms)
        row = self.board.rows[news.emulator_id]
        entry = self.board.entries.get(row.active)
        if news.state is m.EmulatorState.DOWN and entry is not None:
            self._remove(entry, entry.ask.seq, now_ms)
            self.assign(now_ms)


class FreesTheClosed(Watched):
    """Frees the lease of a closed holder at once, without fencing."""

    def _fence(self, entry: Entry, now_ms: int, *, closed: bool) -> None:
        self._remove(entry, entry.ask.seq, now_ms)


class ForgetsTickets(Watched):
    """Draws a new ticket for whoever comes back."""

    def _admit(self, ask: m.Enqueue, now_ms: int) -> None:
        super()._admit(m.Enqueue(ask.key, ask.seq, ask.lane, ask.task_type, ask.requires, ask.account, ask.mutex,
                                 ask.priority, m.OnBusy.QUEUE, 0, ask.hold_s, ask.single), now_ms)  # fmt: skip


class ForgetsTheFloor(Watched):
    """A dispatcher without memory counts its tokens from the beginning."""

    def rebuild(self, *args: object, blind: bool, **more: object) -> None:
        super().rebuild(*args, blind=blind, **more)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        if blind:
            self.board.last_token = 0

    def _grant(self, entry: Entry, row: object, now_ms: int) -> None:
        super()._grant(entry, row, self.board.last_token if self.blind_ms else now_ms)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Forgetful, id="8-what-is-not-newer-is-dropped"),
        pytest.param(FreesTheDown, id="down-never-frees-a-lease"),
        pytest.param(FreesTheClosed, id="a-closed-holder-is-fenced-before-it-is-freed"),
        pytest.param(ForgetsTickets, id="a-lost-lease-keeps-its-ticket"),
        pytest.param(ForgetsTheFloor, id="tokens-go-on-where-they-were-even-without-memory"),
    ],
)
def test_a_dispatcher_without_this_rule_breaks_a_promise(kind: type[Watched]) -> None:
    with pytest.raises(BrokenPromiseError):
        all_histories(kind)


def all_histories(kind: type[Watched]) -> None:
    for seed in range(SEEDS):
        history(Seeded(seed), kind=kind)
