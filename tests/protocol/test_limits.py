"""Rules 5, 6 and 7: how large, how often, and always the same."""

import os
import random
import subprocess
import sys
from pathlib import Path

from droidherd.domain.dispatch.audit import AUDIT_ENTRIES, AuditEntry
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.state import FEWEST, SIZE_LIMIT_BYTES, DispatcherState, PoolConfig
from droidherd.domain.dispatch.stats import BOUNDS_S, TYPES, UNREPORTED, AttemptStats, CountedLease
from tests.protocol.boards import BEGAN_MS, a_name, full

WEDGES_BYTES = 2_000_000
ROOT = Path(__file__).parents[2]
SAME = """
import sys
from tests.protocol.choices import Seeded
from tests.protocol.simulator import history
from tests.protocol.boards import full
for seed in range(6):
    world = history(Seeded(seed))
    sys.stdout.write(repr(sorted(world.witness.counts.items())) + world.dispatcher.machine.state.dump())
sys.stdout.write(full(200, mutexes=2).state.dump())
"""
SHUFFLED = """
import sys
sys.stdout.write("".join({f"task-{i}" for i in range(20)}))
"""


def test_a_full_board_with_the_longest_names_can_continue_as_new() -> None:
    d = full(10_000)
    assert 10_000 == d.board.waiting
    text = d.state.dump()
    assert len(text) < WEDGES_BYTES
    d.outbox.lines.clear()
    assert len(d.state.dump()) < 1_500_000
    assert text.isascii()
    assert not set('"\\') & set(text), "would grow when written as JSON"
    again = Dispatcher(state=DispatcherState.load(text, PoolConfig()))
    assert (again.board, again.keys, again.state.weight) == (d.board, d.keys, d.state.weight)


def test_the_weight_of_the_board_is_an_upper_bound_of_its_snapshot() -> None:
    for mutexes in (0, 1, 3):
        d = full(1_500, mutexes=mutexes)
        d.outbox.lines.clear()
        d.state.events.events.clear()
        assert len(d.state.dump()) - len(full(0).state.dump()) <= d.state.weight.size_bytes


def test_heavy_entries_fill_the_queue_before_their_snapshot_is_too_large() -> None:
    d = full(10_000, mutexes=3)
    assert d.board.waiting < 10_000
    assert SIZE_LIMIT_BYTES <= d.state.weight.total_bytes < SIZE_LIMIT_BYTES + 1_000
    assert len(d.state.dump()) < 1_900_000
    reasons = {getattr(message, "reason", "") for line in d.outbox.lines.values() for message in line}
    assert "queue_full" in reasons


def test_a_board_at_its_limit_has_space_for_what_is_counted_and_audited() -> None:
    random_ = random.Random(1)
    d = full(10_000, mutexes=3)
    d.outbox.lines.clear()  # what answers may take: see above
    for _ in range(TYPES):
        name = a_name(random_)
        for bound in (*BOUNDS_S, 10.0**6):
            d.stats.by_type.setdefault(name, AttemptStats()).run.add(bound, random_.randint(1, 10**6))
            d.stats.by_type[name].wait.add(bound, random_.randint(1, 10**6))
    for number in range(UNREPORTED):
        d.stats.await_report(
            BEGAN_MS + number * random_.randint(1, 10**6), CountedLease(a_name(random_), random_.random())
        )
    for _ in range(AUDIT_ENTRIES):
        for actor in ("", "system:"):
            words = [a_name(random_) * 4 for _ in range(3)]
            lane, task, emulator = (a_name(random_) for _ in range(3))
            d.audit_recorder.record(
                AuditEntry("mutex_broken", actor + words[0], words[1], lane, task, emulator, words[2]), BEGAN_MS
            )
    text = d.state.dump()
    assert len(text) < WEDGES_BYTES - 50_000, "there is more in the input than this"
    again = Dispatcher(state=DispatcherState.load(text, PoolConfig()))
    assert (again.stats, again.state.weight.size_bytes) == (d.stats, d.state.weight.size_bytes)
    kept = list(again.state.audit.by_people)
    assert len(kept) >= FEWEST
    assert kept == list(d.state.audit.by_people)[-len(kept) :]


def test_ten_thousand_waiting_tasks_repeat_at_most_twice_a_second() -> None:
    d = full(10_000)
    newest = d.admission.answer_for(d.board.entries[next(reversed(d.board.entries))])
    assert 10_000 / newest.repeat_after_s <= 2.0


def test_a_short_queue_repeats_every_five_minutes() -> None:
    d = full(3)
    assert [300.0] * 3 == [d.admission.answer_for(entry).repeat_after_s for entry in d.board.entries.values()]


def outputs(program: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    return [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**environment, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    ]


def test_three_hash_seeds_tell_the_same_story() -> None:
    first, *others = outputs(SAME)
    assert [first, first] == others
    assert first


def test_iterating_a_set_of_texts_would_be_seen_by_three_hash_seeds() -> None:
    assert 1 < len(set(outputs(SHUFFLED)))
