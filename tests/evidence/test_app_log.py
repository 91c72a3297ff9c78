"""What an app wrote to the emulator's log."""

import pytest

from droidherd.evidence import folder
from tests.emulator.farm import One

APP = "com.example.herd"
LINE = "08-01 12:00:00.000  {pid}  {pid} I Herd    : {text}"


def of(*lines: str) -> list[str]:
    return folder.lines_of_app("\r\n".join(lines), folder.AppLog(APP, 60.0)).splitlines()


def test_lines_of_its_processes_and_lines_about_it_are_kept():
    mine, died = LINE.format(pid=2210, text="hello"), LINE.format(pid=600, text=f"Process {APP} has died")
    other = LINE.format(pid=2211, text="nothing to do with it")
    head = "--------- beginning of main"
    assert [mine, died] == of("droidherd-pids 2210 99", head, mine, other, died)
    assert [died] == of("droidherd-pids", mine, died), "an app that died has no process"
    assert [] == of("")


def test_the_newest_lines_are_kept_within_two_limits():
    many = [LINE.format(pid=1, text=f"line {number}") for number in range(2 * folder.LOG_KEPT_LINES)]
    assert many[-folder.LOG_KEPT_LINES :] == of("droidherd-pids 1", *many)
    long = [LINE.format(pid=1, text=f"{number}" + "x" * 4_000) for number in range(100)]
    kept = of("droidherd-pids 1", *long)
    assert long[-1] == kept[-1]
    assert sum(map(len, kept)) <= folder.LOG_KEPT_CHARS


def test_the_log_of_the_app_is_read_off_an_emulator(one: One):
    one.hands().start_app("1", APP)
    one.control.log(one.name, f"{APP} is watched")
    trouble: list[str] = []
    text = folder.read_app_log(one.adb, one.address, folder.AppLog(APP, 60.0), trouble.append)
    assert f"{APP} is watched" in text
    assert "Herd" in text
    assert [] == trouble


@pytest.mark.parametrize(
    ("now", "stamps", "kept"),
    [
        ("2026-08-01 12:01:00", ["08-01 11:59:58.000", "08-01 11:59:59.000", "08-01 12:00:30.500"], 2),
        ("2026-01-01 00:00:30", ["12-31 23:58:00.000", "12-31 23:59:45.000", "01-01 00:00:01.000"], 2),
        ("2026-08-01 12:01:00", ["2026-08-01 11:00:00.000", "2026-08-01 12:00:59.123456"], 1),
        ("not a time", ["08-01 11:00:00.000", "08-01 12:00:00.000"], 2),
        ("2026-03-01 12:00:00", ["02-29 12:00:00.000"], 1),
    ],
)
def test_the_log_begins_with_the_attempt(now: str, stamps: list[str], kept: int):
    """By the emulator's clock, which no clock of ours agrees with."""
    lines = [f"{stamp}  2210  2210 I Herd    : hello" for stamp in stamps]
    assert lines[-kept:] == of(f"droidherd-now {now}", "droidherd-pids 2210", *lines)


def test_what_was_logged_before_the_attempt_is_not_its_log(one: One):
    """An attempt that begins in ten seconds has logged nothing yet."""
    one.control.log(one.name, f"{APP} of somebody else")
    trouble: list[str] = []
    assert "" == folder.read_app_log(one.adb, one.address, folder.AppLog(APP, -10.0), trouble.append)
    assert "of somebody else" in folder.read_app_log(one.adb, one.address, folder.AppLog(APP, 60.0), trouble.append)
    assert [] == trouble


def test_a_log_that_cannot_be_read_is_empty_and_says_why(one: One):
    one.control.set_fault(one.name, "refuse_open", times=1)
    trouble: list[str] = []
    assert "" == folder.read_app_log(one.adb, one.address, folder.AppLog(APP, 60.0), trouble.append)
    assert trouble[0].startswith("the app's log was not read")


def test_the_last_words_of_a_crashed_app_are_kept_though_its_process_is_gone():
    """The trace of a crash names its package once, and no list of processes names it any more."""
    crash = [
        LINE.format(pid=2210, text=text)
        for text in ("FATAL EXCEPTION: main", f"Process: {APP}, PID: 2210", "java.lang.Oops", "\tat a.b.c(d.java:1)")
    ]
    assert crash == of("droidherd-pids", *crash)
    before = LINE.format(pid=77, text="says something")
    for event in (f"Start proc 77:{APP}/u0a101 for activity", f"Process {APP} (pid 77) has died: fg TOP"):
        system = LINE.format(pid=600, text=event)
        assert [before, system] == of("droidherd-pids", before, system)
