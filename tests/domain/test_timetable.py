"""When something is due: cron fields, intervals, time zones, clocks that change."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from droidherd.domain.errors import BadParametersError
from droidherd.domain.schedule.timetable import CRON_MOST, MACROS, Timetable, read_cron, read_zone

BEGINS = st.integers(0, 3 * 366 * 86_400).map(lambda n: datetime(2025, 1, 1, tzinfo=UTC) + timedelta(seconds=n))


def seconds(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())


def due(table: Timetable, after: str, until: str) -> list[str]:
    """As wall clocks of the table's zone show it."""
    zone = read_zone(table.zone)
    found = table.due(seconds(after, table.zone), seconds(until, table.zone))
    return [f"{datetime.fromtimestamp(one, zone):%m-%d %H:%M %z}" for one in found.times]


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("* * * * *", "minutes", tuple(range(60))),
        ("*/15 * * * *", "minutes", (0, 15, 30, 45)),
        ("10-20/5 * * * *", "minutes", (10, 15, 20)),
        ("50/5 * * * *", "minutes", (50, 55)),
        ("1,3,3,2 * * * *", "minutes", (1, 2, 3)),
        ("0 22-23 * * *", "hours", (22, 23)),
        ("0 0 1 jan,DEC *", "months", (1, 12)),
        ("0 0 * * mon-fri", "weekdays", (1, 2, 3, 4, 5)),
        ("0 0 * * 7", "weekdays", (0,)),
        ("0 0 * * 5-7", "weekdays", (0, 5, 6)),
        ("@daily", "hours", (0,)),
    ],
)
def test_a_field_is_read(text: str, field: str, expected: tuple[int, ...]):
    assert expected == tuple(getattr(read_cron(text), field))


@pytest.mark.parametrize("macro", sorted(MACROS))
def test_every_word_for_a_cron_is_one(macro: str):
    assert 1 == len(read_cron(macro).minutes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("0 0 0 1 1 *", "five fields"),
        ("@often", "five fields"),
        ("60 * * * *", "is no minute"),
        ("* 24 * * *", "is no hour"),
        ("* * 0 * *", "is no day of month"),
        ("* * * 13 *", "is no month"),
        ("* * * janu *", "is no month"),
        ("* * * * 8", "is no day of week"),
        ("5-1 * * * *", "names no minute"),
        ("*/0 * * * *", "names no minute"),
        ("*-3 * * * *", "is no minute"),
        ("1, * * * *", "is no minute"),
        ("-1 * * * *", "is no minute"),
        ("\u0661 * * * *", "is no minute"),
        ("9999999999999999 * * * *", "is no minute"),
        ("0 0 30 2 *", "never due"),
        ("0 0 31 4,6 *", "never due"),
    ],
)
def test_what_is_no_cron_says_which_field_is_wrong(text: str, expected: str):
    with pytest.raises(BadParametersError, match=expected) as raised:
        read_cron(text)
    assert "cron" == raised.value.to


@given(st.text(max_size=30))
def test_whatever_is_written_is_read_or_refused(text: str):
    with suppress(BadParametersError):
        assert read_cron(text).minutes


NO_ZONES = ["right/Europe/Berlin", "posix/Europe/Berlin", "Factory", "localtime", "posixrules"]


@pytest.mark.parametrize(
    "name", [*NO_ZONES, "Mars/Base", "", "../etc/passwd", "/etc/passwd", "Europe", "a\x00b", "x" * 300, "é"]
)
def test_a_time_zone_nobody_knows_is_refused(name: str):
    with pytest.raises(BadParametersError) as raised:
        read_zone(name)
    assert "time_zone" == raised.value.to


def test_an_interval_counts_from_1970_and_its_offset_shifts_it():
    assert [0, 10, 20] == list(Timetable(every_s=10).due(-1, 20).times)
    assert [13, 23] == list(Timetable(every_s=10, offset_s=3).due(3, 23.9).times)
    assert [] == list(Timetable(every_s=10).due(20, 29.9).times)


@given(
    st.integers(1, 100_000),
    st.integers(0, 100_000),
    st.integers(0, 2_000_000_000),
    st.integers(0, 1_000_000),
)
def test_every_time_of_an_interval_is_found_and_nothing_else(every: int, offset: int, after: int, length: int):
    found = Timetable(every_s=every, offset_s=offset % every).due(after, after + length)
    expected = [at for at in range(after + 1, after + length + 1) if (at - offset % every) % every == 0]
    assert (expected, False) == (list(found.times), found.more)


def test_an_interval_knows_its_times_without_counting_them():
    assert 10**9 == len(Timetable(every_s=1).due(0, 10**9).times)


def test_a_cron_is_due_on_the_wall_clock_of_its_zone():
    table = Timetable(cron="30 5 * * 1-5", zone="Asia/Shanghai")
    assert ["11-13 05:30 +0800", "11-16 05:30 +0800"] == due(table, "2026-11-13T00:00", "2026-11-17T00:00")


def test_both_kinds_of_days_named_means_either():
    found = due(Timetable(cron="0 0 13 * 5"), "2026-11-01T00:00", "2026-11-30T00:00")
    assert ["06", "13", "20", "27"] == [one[3:5] for one in found]
    found = due(Timetable(cron="0 0 */10 * 0"), "2026-11-01T00:00", "2026-11-30T00:00")
    assert [] == found, "a star restricts nothing: both must hold"


def test_an_hour_the_clock_jumps_over_does_not_happen():
    table = Timetable(cron="30 2 * * *", zone="Europe/Berlin")
    assert ["03-28 02:30 +0100", "03-30 02:30 +0200"] == due(table, "2026-03-28T00:00", "2026-03-31T00:00")


def test_an_hour_the_clock_repeats_is_not_counted_on():
    table = Timetable(cron="30 1-3 * * *", zone="Europe/Berlin")
    expected = ["10-25 01:30 +0200", "10-25 03:30 +0100"]
    assert expected == due(table, "2026-10-25T00:00", "2026-10-26T00:00")


def test_a_leap_day_comes():
    assert ["02-29 00:00 +0000"] == due(Timetable(cron="0 0 29 2 *"), "2026-01-01T00:00", "2029-01-01T00:00")


def test_a_cron_counts_no_further_than_it_must():
    found = Timetable(cron="* * * * *").due(0, 60 * (CRON_MOST + 5))
    assert (CRON_MOST, True, 60 * CRON_MOST) == (len(found.times), found.more, found.times[-1])
    exact = Timetable(cron="* * * * *").due(0, 60 * CRON_MOST)
    assert (CRON_MOST, False) == (len(exact.times), exact.more)


@given(
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    st.sampled_from(["*/20 * * * *", "0 */3 * * *", "15 1,2,3 * * *", "0 0 1,15 * 3", "59 23 * 3,10 *"]),
    BEGINS,
    st.integers(0, 72),
    st.integers(0, 72),
)
def test_a_stretch_is_the_sum_of_its_parts(zone: str, cron: str, begin: datetime, first: int, second: int):
    table = Timetable(cron=cron, zone=zone)
    start = begin.timestamp()
    middle, end = start + 3600 * first, start + 3600 * (first + second)
    whole = list(table.due(start, end).times)
    assert whole == [*table.due(start, middle).times, *table.due(middle, end).times]
    assert sorted(set(whole)) == whole
    assert all(table.at(one) for one in whole)


@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    BEGINS,
)
def test_it_is_due_when_the_wall_clock_says_so(zone: str, begin: datetime):
    """Minute by minute, over two days: exactly those at which the wall clock shows one of the wanted times, once."""
    table, wall = Timetable(cron="*/30 1-3 * * *", zone=zone), ZoneInfo(zone)
    start = begin.replace(second=0)
    minutes = [start + timedelta(minutes=n) for n in range(1, 2 * 1440)]
    shown = [(one, one.astimezone(wall)) for one in minutes]
    wanted = [(one, at) for one, at in shown if at.hour in {1, 2, 3} and at.minute in {0, 30}]
    once = [one for one, at in wanted if at.replace(fold=0).utcoffset() == at.replace(fold=1).utcoffset()]
    expected = [int(one.timestamp()) for one in once]
    assert expected == list(table.due(start.timestamp(), minutes[-1].timestamp()).times)
