"""Which of the runs that a worker cannot play are replaced."""

from droidherd.domain.replay import REPLACED_MAX, WINDOW_S, FailedRun, ReplayRecord

KIND = "TaskWorkflow"


def failing(record: ReplayRecord, run: str, times: int = 3, kind: str = KIND) -> FailedRun:
    for _ in range(times):
        record.on_failed(run, f"id-{run}", kind, "diverged")
    return record.failed[run]


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
    record.on_advanced("a", KIND, replayed=False)
    failing(record, "a", 2)
    assert [] == record.stuck()


def test_with_a_limit_of_zero_nothing_is_replaced():
    record = ReplayRecord(limit=0)
    failing(record, "a", 100)
    assert [] == record.stuck()


def test_a_release_that_cannot_replay_a_kind_replaces_none_of_its_runs():
    record = ReplayRecord(limit=3)
    failing(record, "other", 3, kind="DispatcherWorkflow")
    runs = [failing(record, run, times) for run, times in (("a", 3), ("b", 1))]
    assert "2 runs of TaskWorkflow fail here and 0 could be replayed" in record.why_not(runs[0], 0.0)
    assert "" == record.why_not(record.failed["other"], 0.0)


def test_few_broken_runs_among_many_valid_ones_are_replaced():
    record = ReplayRecord(limit=3)
    for number in range(20):
        record.on_advanced(f"valid-{number}", KIND, replayed=True)
        record.on_advanced(f"never-replayed-{number}", KIND, replayed=False)
    runs = [failing(record, run) for run in "ab"]
    assert ["", ""] == [record.why_not(run, 0.0) for run in runs]
    failing(record, "c", 1)
    assert "3 runs" in record.why_not(runs[0], 0.0)


def test_no_more_than_a_few_are_replaced_in_a_while():
    record = ReplayRecord(limit=3)
    for number in range(REPLACED_MAX):
        failing(record, f"r{number}")
        record.on_replaced(f"r{number}", 0.0)
    assert "no more for now" in record.why_not(failing(record, "next"), WINDOW_S)
    assert "" == record.why_not(record.failed["next"], WINDOW_S + 1)
