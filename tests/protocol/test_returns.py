"""Tasks go back to the emulator on which their stages completed, and know of journals that are lost there."""

from collections import Counter

import pytest

from tests.protocol import driver
from tests.protocol.choices import Seeded
from tests.protocol.simulator import World
from tests.protocol.witness import BrokenPromiseError

SEEDS = 150
PAUSED = ("pause", "resume", "resume", "resume")
LOSING = (*PAUSED, "lose_journals", "lose_journals", "cut_line", "restart_worker", "continue_task")
DYING = (*PAUSED, "die", "drain", "order", "stall", "wake", "cut_off", "connect", "freeze", "terminate_dispatcher")
HAPPENS = ("went elsewhere", "revoked down", "journal missing", "person asked about a stage", "stage unknown")


def in_haste(events: tuple[str, ...], without: str = "") -> Counter[str]:
    """What happened in histories in which little else does."""
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        world = World(Seeded(seed), without=without, tasks_return=True)
        world.befalls(*events)
        world.run()
        counts += world.witness.counts
    return counts


DEAD = ("kill_worker", "reboot", "reboot", "revive_worker", "revive_worker", "connect")


def test_a_task_under_a_dead_worker_leaves_when_its_emulator_is_fenced() -> None:
    assert in_haste(DEAD)["left when it was fenced"]


def test_whatever_happens_to_emulators_and_journals_no_promise_is_broken() -> None:
    findings = driver.run(0, 400, tasks_return=True)
    assert [] == findings.broken
    assert [] == [what for what in HAPPENS if not findings.counts[what]]


LOST_AMID_A_STAGE = 8_030


def test_a_journal_lost_under_a_stalled_line_is_not_begun_anew() -> None:
    seed = LOST_AMID_A_STAGE
    counts, broken = driver.judged(Seeded(seed), tasks_return=True)
    assert [] == broken
    assert counts["journal lost amid a stage"]
    assert "was executed twice" in driver.judged(Seeded(seed), "amid", tasks_return=True)[1][0]


@pytest.mark.parametrize(("events", "happens"), [(LOSING, HAPPENS[2:]), (DYING, ())])
def test_again_and_again_no_promise_is_broken(events: tuple[str, ...], happens: tuple[str, ...]) -> None:
    counts = in_haste(events)
    assert [] == [what for what in happens if not counts[what]]


def test_if_no_journal_meant_not_begun_an_act_would_happen_twice() -> None:
    with pytest.raises(BrokenPromiseError, match="was executed twice"):
        in_haste(LOSING, without="begun")


def test_without_asking_for_its_emulator_a_task_would_begin_anew() -> None:
    with pytest.raises(BrokenPromiseError, match="its stages completed on"):
        in_haste(PAUSED, without="home")
