"""Which journals an emulator keeps: as long as their tasks need them, and never too many."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from droidherd.domain.errors import FencedError
from droidherd.domain.retention import TaskRuns
from droidherd.emulator import journals, lease
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.emulator.journals import MOST, NEWEST, JournalFile, JournalFolder, JournalList
from droidherd.emulator.lines import TOKEN_PROPERTY
from droidherd.emulator.token import Token
from droidherd.worker.resource_monitor import JournalMonitor
from tests.emulator.farm import LONG_S, One
from tests.emulator.stand import SHELLS, Stand

RUN = "0a1b2c3d"
NEWER = tuple(JournalFile.of(f"new{number}.{RUN}.1") for number in range(NEWEST))
ALL_NEEDED = {file.task: TaskRuns.OPEN for file in NEWER}


def behind_the_newest(*names: str, at: int = 1_000) -> JournalList:
    return JournalList(at, (*NEWER, *map(JournalFile.of, names)))


@pytest.mark.parametrize(
    ("name", "file"),
    [
        (f"t.{RUN}.2", JournalFile("", "t", RUN, 2)),
        (f"a.b.3.{RUN}.12.1790000000000", JournalFile("", "a.b.3", RUN, 12, 1_790_000_000_000)),
        (f"t.{RUN}.1.u", JournalFile("", "t", RUN, 1)),
        ("chain.2.u", JournalFile("", "chain.2")),
        ("by-hand", JournalFile("", "")),
    ],
)
def test_the_name_of_a_journal_says_which_task_it_serves(name: str, file: JournalFile):
    found = JournalFile.of(name)
    assert (file.task, file.run, file.attempt, file.lease) == (found.task, found.run, found.attempt, found.lease)


@pytest.mark.parametrize(
    ("name", "kept_for"),
    [
        (f"t.{RUN}.1", {TaskRuns.OPEN}),
        (f"t.{RUN}.1.u", {TaskRuns.OPEN}),
        ("t.u", {TaskRuns.OPEN, TaskRuns.CLOSED}),
        (f"t.{RUN}.1.999", set[TaskRuns]()),
        (f"t.{RUN}.1.1000", {TaskRuns.OPEN}),
        ("by-hand", set[TaskRuns]()),
    ],
)
def test_an_old_journal_stays_as_long_as_its_task_may_need_it(name: str, kept_for: set[TaskRuns]):
    kept = {runs for runs in TaskRuns if not behind_the_newest(name).removable({"t": runs})}
    assert kept_for == kept


def test_a_journal_whose_task_is_not_known_about_stays():
    assert [] == behind_the_newest(f"t.{RUN}.1", "t.u").removable({})


def test_the_newest_journals_are_kept_whatever_became_of_their_tasks():
    closed = dict.fromkeys(ALL_NEEDED, TaskRuns.GONE)
    assert [] == JournalList(1_000, NEWER).removable(closed)


def test_an_earlier_attempt_of_an_open_task_needs_no_journal():
    listed = behind_the_newest(f"t.{RUN}.8", f"t.{RUN}.7")
    assert [f"t.{RUN}.7"] == listed.removable({"t": TaskRuns.OPEN})


def test_there_are_never_too_many_even_if_all_are_needed():
    listed = behind_the_newest(*(f"open{number}.{RUN}.1" for number in range(MOST)))
    runs = {file.task: TaskRuns.OPEN for file in listed.files}
    assert [f"open{number}.{RUN}.1" for number in range(MOST - NEWEST, MOST)] == listed.removable(runs)


def test_temporal_is_asked_about_old_journals_the_oldest_first():
    listed = behind_the_newest("b.u", f"b.{RUN}.1", f"a.{RUN}.1", f"c.{RUN}.1.5")
    assert ["a", "b"] == listed.tasks()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_lines_list_and_remove_what_is_named_and_nothing_else(shell: str, tmp_path: Path):
    stand = Stand.build(tmp_path, shell)
    stand.set(Token(7))
    assert "" == stand.run(journals.list_line(stand.places)).output
    for age, name in enumerate(("a.u", "b.u", "c.u")):
        stand.write_journal(name, "1/1 done 0")
        os.utime(stand.places.journal(name), (1_700_000_000 - age, 1_700_000_000 - age))
    listed = stand.run(journals.list_line(stand.places))
    assert (("journals", (str(Token(7)),)), ["a.u", "b.u", "c.u"]) == (
        (listed.word, listed.rest),
        listed.output.split(),
    )
    assert "removed" == stand.run(journals.remove_line(["a.u", "c.u", "../b.u", "gone"], stand.places)).word
    assert ["b.u"] == stand.run(journals.list_line(stand.places)).output.split()


@dataclass
class Records:
    """What Temporal says of tasks."""

    open: set[str]
    asked: list[Sequence[str]] = field(default_factory=list[Sequence[str]])

    async def runs(self, task_ids: Sequence[str]) -> dict[str, TaskRuns]:
        self.asked.append(task_ids)
        return {task: TaskRuns.OPEN if task in self.open else TaskRuns.CLOSED for task in task_ids}


def monitor(one: One, root: Path, records: Records) -> JournalMonitor:
    inventory = Inventory(root)
    inventory.add(InventoryEntry(emulator_id="e1", address=one.address))
    return JournalMonitor(JournalFolder(one.adb), inventory, records)


def write_journals(one: One, *names: str) -> None:
    """The first is the oldest."""
    folder = "/data/local/tmp/droidherd/j"
    for at in range(0, len(names), 50):
        listed = " ".join(names[at : at + 50])
        one.adb.shell(one.address, f"mkdir -p {folder}; for x in {listed}; do echo 0/1 >{folder}/$x; done", LONG_S)


def names_on(one: One) -> list[str]:
    return one.adb.shell(one.address, "ls /data/local/tmp/droidherd/j", LONG_S).text.split()


def test_a_worker_removes_the_journals_of_closed_tasks(one: One, tmp_path: Path):
    one.adb.shell(one.address, "rm -rf /data/local/tmp/droidherd/j", LONG_S)
    one.seize()
    count = JournalMonitor.ASKED + 5
    write_journals(one, *(f"t{number:03d}.{RUN}.1" for number in range(count + NEWEST)))
    records = Records({f"t{number:03d}" for number in range(0, count, 2)})
    looks = monitor(one, tmp_path, records)
    asyncio.run(looks.check())
    asyncio.run(looks.check())
    kept = {f"t{number:03d}.{RUN}.1" for number in range(count + NEWEST) if number >= count or number % 2 == 0}
    assert kept == set(names_on(one))
    assert all(len(asked) <= JournalMonitor.ASKED for asked in records.asked)
    assert {f"t{number:03d}" for number in range(count)} == {task for asked in records.asked for task in asked}


def test_an_emulator_that_was_restarted_keeps_all_until_it_has_a_token_again(one: One, tmp_path: Path):
    one.adb.shell(one.address, f"setprop {TOKEN_PROPERTY} ''", LONG_S)
    with pytest.raises(FencedError):
        JournalFolder(one.adb).list(one.address, "")
    records = Records(set())
    asyncio.run(monitor(one, tmp_path, records).check())
    assert [] == records.asked
    lease.floor(one.adb, one.address, one.token())
