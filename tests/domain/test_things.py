"""What can be changed by value, and what undoing means for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from droidherd.contracts.changes import Thing
from droidherd.domain.task.things import (
    ABSENT,
    MIRRORS,
    OWN_FOLDER,
    Move,
    State,
    mirror_of,
    move,
    problem_with,
    problem_with_value,
    spare_of,
)

STATES = st.one_of(st.just(ABSENT), st.sampled_from(["", "a", "b"]).map(State))


def test_every_kind_of_thing_has_a_judge_of_its_names():
    assert all(problem_with(thing, "../") for thing in Thing)


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        ("setting", "global/animator_duration_scale"),
        ("setting", "secure/com.example:key@1"),
        ("wm", "size"),
        ("wm", "density"),
        ("property", "debug.hwui.renderer"),
        ("property", "persist.sys.timezone"),
        ("package", "com.example.game"),
        ("file", "/sdcard/a b'c$x.cfg"),
        ("file", "/data/local/tmp/droidherd.cfg"),
    ],
)
def test_what_can_be_changed_has_no_problem(thing: str, name: str):
    assert "" == problem_with(thing, name)


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        ("setting", "airplane_mode_on"),
        ("setting", "config/x"),
        ("setting", "global/"),
        ("setting", "global/x; reboot"),
        ("setting", "global/-x"),
        ("setting", "global/x\n"),
        ("wm", "overscan"),
        ("property", ""),
        ("property", "-x"),
        ("property", "a..b"),
        ("property", "a."),
        ("property", "ro.serialno"),
        ("property", "debug.droidherd.token"),
        ("package", "game"),
        ("package", "com.example."),
        ("package", "com.example.x; reboot"),
        ("file", "relative/x"),
        ("file", "/x"),
        ("file", "/sdcard/"),
        ("file", "/sdcard//x"),
        ("file", "/sdcard/../data/x"),
        ("file", "/sdcard/a\nb"),
        ("file", "/sdcard/\ud800"),
        ("file", "/sdcard/" + "x" * 700),
        ("file", OWN_FOLDER),
        ("file", f"{OWN_FOLDER}/j/task"),
        ("file", spare_of("/sdcard/x")),
    ],
)
def test_what_must_not_be_changed_is_refused(thing: str, name: str):
    assert problem_with(thing, name)


@pytest.mark.parametrize(
    ("thing", "name", "value"),
    [
        ("setting", "global/x", "a\0b"),
        ("setting", "global/x", "\udc80"),
        ("setting", "global/x", "x" * 8001),
        ("setting", "global/x", "--user"),
        ("property", "debug.x", "ü" * 46),
        ("wm", "size", "1280 x 720"),
        ("wm", "size", "01280x720"),
        ("wm", "size", "720x1280; reboot"),
        ("wm", "density", "1"),
        ("wm", "density", "reset"),
    ],
)
def test_a_value_that_cannot_be_is_refused(thing: str, name: str, value: str):
    assert problem_with_value(thing, name, value)


@pytest.mark.parametrize(
    ("thing", "name", "value"),
    [("setting", "global/x", "x" * 8000), ("wm", "size", "720x1280"), ("wm", "density", "90")],
)
def test_a_value_that_can_be_has_no_problem(thing: str, name: str, value: str):
    assert "" == problem_with_value(thing, name, value)


@given(before=STATES, left=st.sets(STATES), now=STATES)
def test_undoing_restores_what_is_as_it_was_left_and_nothing_else(before: State, left: set[State], now: State):
    expected = Move.NOTHING if now == before else Move.RESTORE if now in left else Move.CONFLICT
    assert expected == move(before, left, now)


def test_absent_and_empty_are_two_states():
    assert Move.RESTORE == move(ABSENT, {State("")}, State(""))
    assert ("absent", "empty", "a") == (str(ABSENT), str(State("")), str(State("a")))


def test_a_long_value_is_shortened_for_people():
    assert 80 == len(str(State("x" * 500)))


def test_each_override_of_the_screen_has_a_mirror_and_nothing_else_has():
    assert ("global/display_size_forced", "720,1280") == mirror_of("wm", "size", "720x1280")
    assert ("secure/display_density_forced", "240") == mirror_of("wm", "density", "240")
    assert ("", "") == mirror_of("setting", "global/size", "1")
    assert all(problem_with("setting", name) == "" for name in MIRRORS.values())


@given(st.text("ab./ ", max_size=200))
def test_what_is_about_to_be_moved_lies_beside_its_place(name: str):
    path = f"/sdcard/{name}"
    assert path.rpartition("/")[0] == spare_of(path).rpartition("/")[0]
