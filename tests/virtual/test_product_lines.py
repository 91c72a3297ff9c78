"""The very lines droidherd sends, on the virtual emulator: they guard, act once and say so, also when they are cut."""

import pytest

from droidherd.emulator import lines
from droidherd.emulator.lines import UPTIME_LIMIT_S, JournalEntry
from droidherd.emulator.token import Token
from droidherd.virtual.line import CutError
from tests.virtual.stand import Stand

LEASE = 1_790_000_000_000
MINE = Token(LEASE, 2, 1)
NEXT = Token(LEASE + 1, 0, 1)
ENTRY = JournalEntry("task-1.run-1.1", "2/1.1", MINE, UPTIME_LIMIT_S)
TAP = lines.effect(ENTRY, "input tap 10 20")


def word(stand: Stand, line: str) -> str:
    return stand.run(line).text.split()[0]


def taps(stand: Stand) -> int:
    return stand.out("cat /data/local/tmp/droidherd/j/task-1.run-1.1 | grep -c done")[:-1].count("1")


@pytest.fixture
def held(stand: Stand) -> Stand:
    """Under MINE."""
    assert "dh:token" == word(stand, lines.floor(Token(LEASE - 1)))
    assert "dh:seized" == word(stand, lines.seize(MINE, deck=False))
    return stand


def test_nobody_acts_before_the_floor_is_set(stand: Stand):
    assert ["dh:unset"] * 3 == [word(stand, line) for line in (lines.seize(MINE, deck=False), TAP, lines.release(MINE))]


def test_an_effect_happens_once(held: Stand):
    assert ["dh:acted", "dh:again"] == [word(held, TAP), word(held, TAP)]
    assert 1 == taps(held)


def test_who_comes_later_shuts_out_who_came_before(held: Stand):
    sent = [lines.seize(NEXT, deck=True), lines.release(MINE), lines.seize(NEXT, deck=True), TAP]
    assert ["dh:held", "dh:released", "dh:seized", "dh:fenced"] == [word(held, line) for line in sent]


def test_a_line_that_comes_too_late_does_nothing(held: Stand):
    late = JournalEntry("task-1.run-1.1", "2/1.1", MINE, 3)
    assert "dh:late" == word(held, lines.effect(late, "input tap 10 20"))


@pytest.mark.parametrize("match", ["^fsync", "^input tap", "begin"])
def test_after_a_cut_the_effect_is_unknown_until_somebody_looked(held: Stand, match: str):
    held.emulator.faults.set("cut_after", None, {"match": match})
    with pytest.raises(CutError):
        held.run(TAP)
    assert (1, "dh:unknown") == (held.drops, word(held, TAP))
    assert ["dh:written", "dh:acted"] == [word(held, lines.forget(ENTRY)), word(held, TAP)]
    assert "dh:again" == word(held, TAP)


def test_a_line_still_at_work_cannot_be_forgotten(held: Stand):
    held.emulator.faults.set("cut_after", None, {"match": "^fsync"})
    with pytest.raises(CutError):
        held.run(TAP)
    # A line that runs in a stand belongs to no process; the real one is in the list while it runs.
    pid = int(held.out("cat /data/local/tmp/droidherd/j/task-1.run-1.1").split()[3])
    held.emulator.lines.add(pid)
    assert "dh:running" == word(held, lines.forget(ENTRY))
    held.emulator.lines.discard(pid)
    assert "dh:written" == word(held, lines.forget(ENTRY))


def test_a_full_disk_stops_the_effect_before_it_begins(held: Stand):
    held.emulator.files.full = True
    before = held.emulator.journal.seq
    result = held.run(TAP)
    assert (79, "dh:unwritten\n") == (result.rc, result.text)
    assert held.emulator.journal.seq > before
    assert 0 == held.emulator.app.taps


def test_after_a_reboot_the_token_is_gone_and_the_journal_is_not(held: Stand):
    assert "dh:acted" == word(held, TAP)
    held.emulator.power_on(0.0)
    assert "dh:unset" == word(held, TAP)
    assert "dh:token" == word(held, lines.floor(MINE))
    assert "dh:again" == word(held, TAP)
