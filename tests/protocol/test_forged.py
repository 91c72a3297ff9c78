"""Others speak in the name of the machines, and clocks were wrong: the pool comes to rest again by itself."""

import pytest

from droidherd.domain.dispatch.board import Board, PoolEmulator
from droidherd.domain.dispatch.dispatcher import Dispatcher
from tests.protocol import driver
from tests.protocol.choices import Seeded
from tests.protocol.dispatchers import instead

SEEDS = range(120)
FORGED = (
    "forge announce",
    "forge seen",
    "forge void",
    "forge token",
    "forge given up",
    "forge ask",
    "forge join",
    "lead",
)


def test_forged_counters_break_no_promise_and_keep_nobody_waiting() -> None:
    findings = driver.run(SEEDS.start, len(SEEDS), forged=True)
    assert [] == findings.broken
    assert [] == [what for what in FORGED if not findings.counts[what]]


@pytest.mark.parametrize("rule", ["heal", "doubt"])
def test_without_this_rule_the_pool_does_not_recover(rule: str) -> None:
    assert driver.found(rule, SEEDS, forged=True)


def asks_nobody_anew(d: Dispatcher) -> None:
    def keep_silent(_: PoolEmulator) -> None:
        """Nobody is asked."""

    instead(d, "_ask_emulator_anew", lambda _: keep_silent)


def test_a_dispatcher_that_asks_nobody_anew_never_recovers() -> None:
    assert any(driver.judged(Seeded(seed), "", asks_nobody_anew, forged=True)[1] for seed in SEEDS)


def test_a_dispatcher_that_draws_tokens_beyond_no_other_never_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    def ignore(_: Board, token: int) -> None:
        """Whoever heard of it."""

    monkeypatch.setattr(Board, "saw_token", ignore)
    assert any(driver.judged(Seeded(seed), forged=True)[1] for seed in SEEDS)


def test_a_task_that_goes_beyond_nothing_is_never_heard_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("droidherd.domain.task.claim.SEQ_STEP", -1)
    assert any(driver.judged(Seeded(seed), forged=True)[1] for seed in SEEDS)
