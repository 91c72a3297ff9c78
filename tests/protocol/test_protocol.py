"""The real machines, a hostile world, and every promise of docs/protocol.md checked all along."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.protocol import driver
from tests.protocol.choices import Seeded, Tape
from tests.protocol.simulator import history

HOSTILE = (
    "terminate dispatcher", "continue dispatcher", "continue emulator", "continue host", "continue task",
    "terminate task", "kill worker", "restart worker", "cut off", "stall", "reboot", "move", "freeze", "cancel",
    "force", "pause", "resume", "retry", "pause lane", "set capacity", "prioritize", "late copy", "ask person",
    "leave", "depart", "taken ahead of its turn", "stage not_begun",
    "successor with memory", "successor with what people set", "successor without memory", "line cut after the act",
    "line cut after the intent",
    "audit found a closed holder", "heartbeat timeout", "lease lost", "decks", "revoked deck", "revoked down",
    "revoked restarted", "revoked rebooted", "rejected queue_full", "rejected duplicate", "rejected account_running",
    "skipped because done", "stage fenced", "stage not_released", "stage lost", "stage stopped", "stage failed",
    "straggler", "set ordering", "configure", "pause for the system", "resume for the system",
    "lane_paused", "lane_resumed", "lane_capacity", "lane_ordering", "prioritized", "configured",
    "mutex_overdue", "mutex_broken", "fenced", "disable", "enable", "account_disabled", "account_enabled",
    "die", "spoil", "drain", "soon", "emulator_rest", "emulator_wake", "emulator_quarantine", "ordered restart",
    "ordered recover", "ordered quarantine", "ordered release", "stop done", "stop failed", "start done",
    "start failed", "restart done", "restart failed", "restart idle", "reconnect done", "reconnect failed",
    "restart_app done", "evidence failed", "step timed out", "step abandoned", "taken off the list unseen",
    "found off the list",
)  # fmt: skip

ENDED = (
    "lost repeat",
    "terminate emulator",
    "terminate host",
    "missing emulator found",
    "found off the list by its pool",
)


@settings(
    max_examples=1_000,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(st.binary(min_size=0, max_size=600))
def test_no_sequence_of_choices_breaks_a_promise(tape: bytes) -> None:
    assert [] == driver.judged(Tape(tape))[1]


@settings(max_examples=1_000, deadline=None, database=None, derandomize=True)
@given(st.integers(min_value=1_000_000, max_value=2**40))
def test_no_seed_breaks_a_promise(seed: int) -> None:
    assert [] == driver.judged(Seeded(seed))[1]


def test_every_hostile_event_happens_and_no_promise_is_broken() -> None:
    findings = driver.run(0, 1_500)
    assert [] == findings.broken
    assert [] == [what for what in HOSTILE if not findings.counts[what]]


def test_emulators_and_hosts_may_end_at_any_point_as_well() -> None:
    findings = driver.run(0, 1_000, entities_end=True)
    assert [] == findings.broken
    assert [] == [what for what in ENDED if not findings.counts[what]]


def test_a_seed_replays_to_the_last_step() -> None:
    first, second = history(Seeded(4711)), history(Seeded(4711))
    assert list(first.witness.steps) == list(second.witness.steps)
    assert (first.now, first.witness.counts) == (second.now, second.witness.counts)


@pytest.mark.long
def test_two_hundred_thousand_histories_break_no_promise() -> None:
    findings = driver.run(10_000_000, 200_000, processes=2)
    assert [] == findings.broken
    assert 200_000 == findings.histories
