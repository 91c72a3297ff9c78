"""The emulator's own guards, one history each: what a line that comes late may and may not do."""

import pytest

from droidherd.domain import messages as m
from tests.protocol import script
from tests.protocol.choices import Tape
from tests.protocol.emulators import FENCE, Activity, Handset
from tests.protocol.simulator import World
from tests.protocol.tasks import LEAVING_MS, TaskActor
from tests.protocol.witness import BrokenPromiseError


def a_world(without: str = "") -> tuple[World, Handset, Handset]:
    world = World(Tape(b"\x00" * 64), without=without)
    for _ in range(8):
        world.now += 400
        world._round()
    first, second = world.handsets.values()
    return world, first, second


def begin(world: World, handset: Handset, lease: int, *, after: int = 0, tries: int = 0) -> Activity:
    """A stage of some task, about to send its first effect."""
    task = TaskActor(world, world.script.tasks[0], 1, 0)
    key = m.Key(f"x{lease}", "r1", 1)
    activity = Activity(task, key, handset.name, (lease, 0, tries), after, 2, True, False, ("a:ann",), world.now)
    task.first_run = key.run
    task.activity = activity
    world.schedule(activity)
    handset.work()
    handset.work()
    return activity


def test_a_line_of_an_older_lease_does_nothing() -> None:
    assert late_line_after_another_lease("") == 1


def test_without_the_token_a_line_of_an_older_lease_acts_among_newer_effects() -> None:
    with pytest.raises(BrokenPromiseError, match="effect of lease"):
        late_line_after_another_lease("token")


def late_line_after_another_lease(without: str) -> int:
    world, handset, _ = a_world(without)
    old = begin(world, handset, world.now)
    handset.stalled = True
    handset.work()
    line = handset.pending.pop()
    handset.stalled, handset.running = False, None
    handset.token = (old.token[0], FENCE, FENCE)
    handset.remains = 0
    world.now += 1
    begin(world, handset, world.now)
    handset.work()
    line()
    return world.witness.counts["effects"]


def test_a_line_behind_its_deadline_does_nothing() -> None:
    assert late_line_while_the_account_runs_elsewhere("", LEAVING_MS) == 1


def test_without_the_deadline_a_stalled_emulator_acts_for_a_moved_account() -> None:
    with pytest.raises(BrokenPromiseError, match="acts on"):
        late_line_while_the_account_runs_elsewhere("deadline", LEAVING_MS)


def test_without_the_wait_before_letting_go_the_deadline_is_still_open() -> None:
    with pytest.raises(BrokenPromiseError, match="acts on"):
        late_line_while_the_account_runs_elsewhere("", script.LINE_TIMEOUT_MS)


def late_line_while_the_account_runs_elsewhere(without: str, waited_ms: int) -> int:
    world, handset, other = a_world(without)
    begin(world, handset, world.now)
    handset.stalled = True
    handset.work()
    world.now += waited_ms
    begin(world, other, world.now)
    other.work()
    handset.stalled = False
    handset.pending.pop()()
    return world.witness.counts["effects"]


def test_on_deck_the_emulator_is_taken_only_from_the_lease_before() -> None:
    world, handset, _ = a_world()
    granted = world.now
    deck = begin(world, handset, granted + 2, after=granted + 1)
    assert "not_released" == deck.report
    assert handset.token is not None
    assert handset.token[0] < granted


def test_without_naming_the_lease_before_the_one_on_deck_overtakes_it() -> None:
    world, handset, _ = a_world("after")
    granted = world.now
    deck = begin(world, handset, granted + 2, after=granted + 1)
    assert deck.seized


def test_a_late_release_of_an_older_try_does_not_let_the_next_one_in() -> None:
    assert late_release_of_an_older_try("") != late_release_of_an_older_try("release")


def late_release_of_an_older_try(without: str) -> bool:
    world, handset, _ = a_world(without)
    lease = world.now
    old = begin(world, handset, lease)
    old.step = old.effects
    handset.stalled = True
    handset.work()
    release = handset.pending.pop()
    handset.stalled, handset.running = False, None
    begin(world, handset, lease, tries=1)
    release()
    return handset.free == lease


def test_a_rebooted_emulator_refuses_everybody_until_its_gate_set_a_floor() -> None:
    world, handset, _ = a_world()
    before = begin(world, handset, world.now)
    handset.reboot()
    handset.work()
    assert "fenced" == before.report
    assert "fenced" == begin(world, handset, world.now + 1).report
    world.now += 10
    assert "" == handset.gate(f"b{handset.boot}", 0, full=True)
    assert "fenced" == begin(world, handset, world.now - 5).report
    assert begin(world, handset, world.now + 1).seized


def test_tidying_up_leaves_a_newer_lease_alone() -> None:
    world, handset, _ = a_world()
    lease = world.now
    begin(world, handset, lease)
    handset.work()
    assert "" == handset.gate(f"b{handset.boot}", lease - 1, full=False)
    assert lease == handset.remains
    assert (lease, 0, 0) == handset.token


def test_a_line_that_finds_its_journal_lost_begins_no_other() -> None:
    assert (1, []) == late_line_behind_a_lost_journal("")


def test_without_that_rule_the_next_try_takes_half_a_journal_for_all() -> None:
    assert (2, ["1"]) == late_line_behind_a_lost_journal("amid")


def late_line_behind_a_lost_journal(without: str) -> tuple[int, list[str]]:
    """Two effects of one stage, the second one stalled: how many were executed, and which the journal knows."""
    world, handset, _ = a_world(without)
    begin(world, handset, world.now)
    handset.work()
    handset.stalled = True
    handset.work()
    world.now += script.LINE_TIMEOUT_MS
    handset.work()
    handset.journal.clear()
    handset.wake()
    handset.straggle()
    return world.witness.counts["effects"], [name.rpartition("/")[2] for name in handset.journal]
