"""Which of the runs that a worker cannot play are replaced."""

import pytest

from droidherd.contracts.names import Workflow
from droidherd.domain.replay import (
    ENDING_MAX,
    LASTING,
    LASTING_MAX,
    LATE_MAX,
    PER_ID,
    WINDOW_S,
    FailedRun,
    ReplayEvidence,
    ReplayRecord,
    why_not_replaced,
)

TASK, EMULATOR = Workflow.TASK.value, Workflow.EMULATOR.value
RELEASE, AGAIN, MANY = "release that cannot replay them", "gets stuck again", "fault of the release"


def failing(record: ReplayRecord, run: str, times: int = 3, kind: str = TASK) -> FailedRun:
    for _ in range(times):
        record.on_failed(run, f"id-{run}", kind, "diverged")
    return record.failed[run]


@pytest.mark.parametrize(
    ("known", "why_not"),
    [
        pytest.param(ReplayEvidence(TASK), "", id="one-task-alone"),
        pytest.param(ReplayEvidence(TASK, unplayable=2), RELEASE, id="two-tasks-and-none-that-can-be-replayed"),
        pytest.param(ReplayEvidence(TASK, unplayable=2, replayed=19), RELEASE, id="more-than-a-tenth-of-the-tasks"),
        pytest.param(ReplayEvidence(TASK, unplayable=2, replayed=20), "", id="a-tenth-of-the-tasks"),
        pytest.param(ReplayEvidence(EMULATOR, unplayable=2, replayed=1), RELEASE, id="most-of-the-emulators"),
        pytest.param(ReplayEvidence(EMULATOR, unplayable=2, replayed=2), "", id="half-of-the-emulators"),
        pytest.param(ReplayEvidence(EMULATOR, unplayable=300), RELEASE, id="every-emulator-after-a-deploy"),
        pytest.param(ReplayEvidence(EMULATOR, went_on=True, unplayable=0), "", id="ten-that-went-on-here-before"),
        pytest.param(ReplayEvidence(EMULATOR, went_on=True, unplayable=300), "", id="one-that-went-on-among-others"),
        pytest.param(ReplayEvidence(EMULATOR, replaced_of_id=PER_ID - 1), "", id="stuck-for-the-third-time"),
        pytest.param(ReplayEvidence(EMULATOR, replaced_of_id=PER_ID), AGAIN, id="stuck-after-three-replacements"),
        pytest.param(ReplayEvidence(EMULATOR, replaced=LASTING_MAX - 1), "", id="many-emulators"),
        pytest.param(ReplayEvidence(EMULATOR, went_on=True, replaced=LASTING_MAX), MANY, id="too-many-emulators"),
        pytest.param(ReplayEvidence(TASK, went_on=True, replaced=ENDING_MAX), MANY, id="too-many-tasks"),
    ],
)
def test_a_stuck_run_is_replaced_unless_the_release_is_to_blame(known: ReplayEvidence, why_not: str):
    found = why_not_replaced(known)
    assert (bool(why_not), True) == (bool(found), why_not in found)


def test_every_kind_that_lasts_is_a_workflow_type():
    assert set(LASTING) <= set(Workflow)


def test_a_run_is_stuck_after_so_many_failures_in_a_row():
    record = ReplayRecord(limit=3)
    failing(record, "a", 2)
    assert [] == record.stuck()
    failing(record, "a", 1)
    assert ["a"] == [run.run_id for run in record.stuck()]
    assert "" == record.why_not(record.failed["a"], 0.0)


def test_a_run_that_goes_on_begins_to_count_anew():
    record = ReplayRecord(limit=3)
    failing(record, "a", 2)
    record.on_advanced("a", TASK, replayed=False)
    failing(record, "a", 2)
    assert [] == record.stuck()


def test_with_a_limit_of_zero_nothing_is_replaced():
    record = ReplayRecord(limit=0)
    failing(record, "a", 100)
    assert [] == record.stuck()


def test_a_release_that_cannot_replay_a_kind_replaces_none_of_its_runs():
    record = ReplayRecord(limit=3)
    failing(record, "other", 3, kind=Workflow.DISPATCHER)
    runs = [failing(record, run, times) for run, times in (("a", 3), ("b", 1))]
    assert "2 runs of TaskWorkflow fail here and 0 could be replayed" in record.why_not(runs[0], 0.0)
    assert "" == record.why_not(record.failed["other"], 0.0)


def test_few_broken_runs_among_many_valid_ones_are_replaced():
    record = ReplayRecord(limit=3)
    for number in range(20):
        record.on_advanced(f"valid-{number}", TASK, replayed=True)
        record.on_advanced(f"never-replayed-{number}", TASK, replayed=False)
    runs = [failing(record, run) for run in "ab"]
    assert ["", ""] == [record.why_not(run, 0.0) for run in runs]
    failing(record, "c", 1)
    assert "3 runs" in record.why_not(runs[0], 0.0)


def test_ten_emulators_that_got_stuck_at_once_are_all_replaced():
    record = ReplayRecord(limit=3)
    names = [f"e{number}" for number in range(10)]
    for name in names:
        record.on_advanced(name, EMULATOR, replayed=name < "e5")
    for run in [failing(record, name, kind=EMULATOR) for name in names]:
        assert "" == record.why_not(run, 0.0)
        record.on_replaced(run, 0.0)


def test_a_workflow_that_gets_stuck_again_and_again_waits_and_others_do_not():
    record = ReplayRecord(limit=3)
    for number in range(PER_ID):
        run = record.on_failed(f"run-{number}", "emulator/e1", EMULATOR, "diverged")
        assert "" == record.why_not(run, 0.0)
        record.on_replaced(run, 0.0)
    again = record.on_failed("next", "emulator/e1", EMULATOR, "diverged")
    assert AGAIN in record.why_not(again, WINDOW_S)
    record.forget("next")
    assert "" == record.why_not(failing(record, "other", kind=EMULATOR), WINDOW_S)
    assert "" == record.why_not(again, WINDOW_S + 1)


def test_no_more_than_so_many_are_replaced_in_a_while_and_tasks_count_apart():
    record = ReplayRecord(limit=3)
    for number in range(LASTING_MAX):
        record.on_replaced(failing(record, f"r{number}", kind=EMULATOR), 0.0)
    assert MANY in record.why_not(failing(record, "next", kind=EMULATOR), WINDOW_S)
    assert "" == record.why_not(failing(record, "task"), WINDOW_S)
    assert "" == record.why_not(record.failed["next"], WINDOW_S + 1)


def test_a_run_whose_workflow_task_comes_too_late_is_looked_at_each_time():
    record = ReplayRecord(limit=3)
    for _ in range(2):
        record.on_advanced("r1", EMULATOR, replayed=True)
        record.on_late("r1", "emulator/e1", EMULATOR, "timed out")
        assert ["r1"] == [run.run_id for run in record.stuck()]
    assert "" == record.why_not(record.failed["r1"], 0.0)


@pytest.mark.parametrize(
    ("kind", "failed_here", "failures", "enough"),
    [
        pytest.param(EMULATOR, 0, 2, False, id="an-emulator-that-was-late-twice"),
        pytest.param(EMULATOR, 0, 3, True, id="an-emulator-that-was-late-three-times"),
        pytest.param(TASK, 0, LATE_MAX - 1, False, id="a-task-that-was-only-late"),
        pytest.param(TASK, 0, LATE_MAX, True, id="a-task-that-is-late-for-hours"),
        pytest.param(TASK, 3, 3, True, id="a-task-that-failed-and-was-late"),
    ],
)
def test_lateness_counts_less_where_nothing_takes_the_place_of_a_run(
    kind: str, failed_here: int, failures: int, *, enough: bool
):
    record = ReplayRecord(limit=3)
    for _ in range(failed_here):
        record.on_failed("r1", "id", kind, "diverged")
    record.on_late("r1", "id", kind, "timed out")
    assert enough is record.is_enough(record.failed["r1"], failures)


def test_a_run_that_went_on_elsewhere_after_it_was_late_is_forgotten():
    record = ReplayRecord(limit=3)
    record.on_late("late", "id-late", EMULATOR, "timed out")
    failing(record, "both", 1)
    record.on_late("both", "id-both", TASK, "timed out")
    assert [False, False] == [record.is_enough(run, 1) for run in record.stuck()]
    assert (["both"], []) == (list(record.failed), record.stuck())
