"""Who waits for one emulator by its own choice hears that it died; who needs it waits on."""

import pytest

from droidherd.domain import messages as m
from droidherd.domain.messages import EmulatorStatus
from tests.domain.pool import Pool

HOME = ("emulator_id=e1",)
LOST = (EmulatorStatus.DOWN, EmulatorStatus.QUARANTINED)


@pytest.fixture
def pool() -> Pool:
    """`busy` holds the one emulator; `by-choice` and `needs-it` wait for it."""
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("busy")
    pool.enqueue("by-choice", requires=HOME, sticky="e1")
    pool.enqueue("needs-it", requires=HOME)
    return pool


def rejections(pool: Pool, task: str) -> list[tuple[str, str]]:
    return [(one.reason, one.holder) for one in pool.messages_to(task, m.Rejected)]


@pytest.mark.parametrize("state", EmulatorStatus)
def test_a_task_in_line_is_rejected_when_its_emulator_is_lost(pool: Pool, state: EmulatorStatus):
    pool.emulator("e1", state)
    rejected = [(m.EMULATOR_LOST, state)] if state in LOST else []
    assert (rejected, []) == (rejections(pool, "by-choice"), rejections(pool, "needs-it"))
    assert (state in LOST) == (pool.place("by-choice") is None)
    assert pool.place("needs-it") is not None


@pytest.mark.parametrize("ticket", [0, 5])
def test_a_task_that_comes_when_it_is_lost_is_rejected_at_once(pool: Pool, ticket: int):
    pool.emulator("e1", EmulatorStatus.DOWN)
    pool.enqueue("late", requires=HOME, sticky="e1", ticket=ticket)
    pool.enqueue("bound", requires=HOME, ticket=ticket)
    assert ([(m.EMULATOR_LOST, "down")], None) == (rejections(pool, "late"), pool.place("late"))
    assert ([], True) == (rejections(pool, "bound"), pool.place("bound") is not None)


def test_it_hears_who_took_it_and_why(pool: Pool):
    pool.emulator("e1", EmulatorStatus.QUARANTINED, why="by ann: flickers")
    pool.enqueue("late", requires=HOME, sticky="e1")
    reason = [(m.EMULATOR_LOST, "quarantined (by ann: flickers)")]
    assert (reason, reason) == (rejections(pool, "by-choice"), rejections(pool, "late"))


def test_while_it_is_drained_it_waits_and_says_for_what(pool: Pool):
    pool.emulator("e1", EmulatorStatus.DRAINING, why="by ann: new disk")
    entry = pool.d.board.entries["by-choice"]
    why = "waits for the emulator on which its stages completed: e1 is draining (by ann: new disk)"
    assert why == pool.d.admission.why(entry)


def test_while_another_task_holds_it_it_says_who(pool: Pool):
    pool.emulator("e2")
    entry = pool.d.board.entries["by-choice"]
    home = "waits for the emulator on which its stages completed: e1, which task"
    assert f"{home} {pool.on('e1')} holds" == pool.d.admission.why(entry).partition(";")[0]


def test_who_needs_one_emulator_hears_who_holds_it_and_others_a_count():
    pool = Pool()
    pool.emulator("e1")
    for task_id, requires in (("first", ()), ("any", ()), ("named", HOME)):
        pool.enqueue(task_id, requires=requires)
    why = {name: pool.d.admission.why(pool.d.board.entries[name]) for name in ("any", "named")}
    assert "0 before it, 1 emulator busy" == why["any"]
    assert "only e1 may run it, which task first holds; 1 before it" == why["named"]


def test_it_asks_for_any_other_with_the_ticket_it_has(pool: Pool):
    ticket = pool.d.board.entries["by-choice"].ticket
    pool.emulator("e1", EmulatorStatus.DOWN)
    pool.emulator("e2")
    pool.enqueue("by-choice", ticket=ticket)
    assert "by-choice" == pool.on("e2")
