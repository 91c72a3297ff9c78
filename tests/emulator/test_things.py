"""Things of a virtual emulator, through the real adb server: read, made, pulled, under a token."""

import hashlib
import io
import random
import threading
from collections.abc import Callable
from functools import partial

import pytest

from droidherd.adb.files import DeviceFiles
from droidherd.contracts.changes import Thing
from droidherd.domain.errors import (
    AbandonedError,
    BadParametersError,
    CommandFailedError,
    DiskFullError,
    FencedError,
    FinalError,
    LateError,
    UnknownOutcomeError,
)
from droidherd.domain.ports import Acted, Recalled, Things, Wanted
from droidherd.domain.task.things import ABSENT, OWN_FOLDER, State, spare_of
from droidherd.emulator.hands import EmulatorHands
from droidherd.emulator.things import EmulatorThings
from tests.emulator.farm import LONG_S, One, eventually

PATH = "/sdcard/a file.bin"


def nothing() -> None:
    pass


def things(one: One, hands: EmulatorHands | None = None, beat: Callable[[], None] = nothing) -> EmulatorThings:
    return EmulatorThings(hands or one.hands(), partial(DeviceFiles, one.adb, one.address), one.token(), beat)


def file(content: bytes, path: str = PATH) -> Wanted:
    return Wanted("file", path, State(hashlib.sha256(content).hexdigest()), lambda: io.BytesIO(content))


def shell(one: One, line: str) -> str:
    return one.adb.shell(one.address, line, LONG_S).text


def test_they_are_what_the_core_asks_for(one: One):
    port: Things = things(one)
    assert Acted.DONE == port.make("1", Wanted("setting", "global/x", State("a")))
    assert (State("a"), ABSENT) == (port.read("setting", "global/x"), port.read("setting", "global/none"))


def test_what_was_made_once_is_not_made_again_by_a_later_try(one: One):
    things(one).make("1", Wanted("setting", "global/x", State("a")))
    shell(one, "settings put global x b")
    assert Acted.AGAIN == things(one, one.hands(attempt=2)).make("1", Wanted("setting", "global/x", State("a")))
    assert "b\n" == shell(one, "settings get global x")


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted("setting", "global/x", State("late")),
        Wanted("wm", "density", State("111")),
        file(b"late", "/sdcard/late"),
    ],
)
def test_who_is_fenced_out_or_late_changes_nothing(one: One, wanted: Wanted):
    before = one.control.dump(one.name)
    fenced, late = one.hands(), one.hands(attempt=2, until_s=-5)
    with pytest.raises(FencedError):
        things(one, fenced).make("1", wanted)
    with pytest.raises((LateError, FencedError)):
        EmulatorThings(late, partial(DeviceFiles, one.adb, one.address), one.token(1, 2), nothing).make("2", wanted)
    with pytest.raises(FencedError):
        things(one, fenced).read(wanted.thing, wanted.name)
    assert before == one.control.dump(one.name)


def test_a_large_file_travels_piece_by_piece_and_beats_on_its_way(one: One):
    beats: list[int] = []
    content = random.Random(1).randbytes(6_000_000)
    mine = things(one, beat=lambda: beats.append(1))
    mine.make("1", file(content))
    sent = len(beats)
    into = io.BytesIO()
    found = mine.find("file", PATH)
    mine.pull(found, into, 10_000_000)
    assert content == into.getvalue()
    assert (True, True) == (sent > 50, len(beats) > sent + 50)
    with pytest.raises(FinalError, match="too many to be kept"):
        mine.pull(found, into, 5_999_999)


def test_a_try_that_is_given_up_stops_in_the_middle_of_a_file(one: One):
    def beat() -> None:
        raise AbandonedError("given up")

    before = one.control.dump(one.name)
    with pytest.raises(AbandonedError):
        things(one, beat=beat).make("1", file(bytes(1_000_000)))
    assert before == one.control.dump(one.name)


def test_a_full_disk_is_final_and_leaves_the_file_as_it_was(one: One):
    things(one).make("1", file(b"old"))
    one.control.set_fault(one.name, "push_full")
    with pytest.raises(DiskFullError):
        things(one, one.hands(attempt=2)).make("2", file(b"new"))
    assert "old" == shell(one, f"cat '{PATH}'")


@pytest.mark.parametrize("match", ["^mv ", "^sha256sum", "^chmod", "^stat -c %a"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_cut_anywhere_a_file_is_the_old_one_or_the_new_one_never_half_of_it(one: One, match: str, when: str):
    things(one).make("1", file(b"old" * 1000))
    one.control.cut_after(one.name, match, when=when)
    with pytest.raises(UnknownOutcomeError):
        things(one, one.hands(attempt=2)).make("2", file(b"new" * 1000))
    again = one.hands(attempt=3)
    assert shell(one, f"cat '{PATH}'") in {"old" * 1000, "new" * 1000}
    assert Recalled.UNKNOWN is again.recall()["2"]
    again.forget("2")
    mine = EmulatorThings(again, partial(DeviceFiles, one.adb, one.address), one.token(1, 3), nothing)
    assert Acted.DONE == mine.make("2", file(b"new" * 1000))
    assert ("new" * 1000, "") == (shell(one, f"cat '{PATH}'"), shell(one, f"ls '{spare_of(PATH)}' 2>/dev/null"))


def test_what_earlier_tries_left_on_its_way_is_swept_away(one: One):
    shell(one, f"mkdir -p {OWN_FOLDER}/in; echo x >{OWN_FOLDER}/in/left; echo x >'{spare_of(PATH)}'")
    things(one).make("1", file(b"new"))
    assert ("", "") == (shell(one, f"ls {OWN_FOLDER}/in"), shell(one, f"ls '{spare_of(PATH)}' 2>/dev/null"))


def test_what_changed_since_it_was_looked_at_is_neither_sent_nor_kept(one: One):
    wanted = Wanted("file", PATH, State("0" * 64), lambda: io.BytesIO(b"another"))
    with pytest.raises(FinalError, match="not what it was"):
        things(one).make("1", wanted)
    mine = things(one, one.hands(attempt=2))
    mine.make("2", file(b"old"))
    found = mine.find("file", PATH)
    shell(one, f"echo new >'{PATH}'")
    with pytest.raises(UnknownOutcomeError, match="changed while it was read"):
        mine.pull(found, io.BytesIO(), 1000)


def test_an_app_says_in_androids_words_why_it_is_not_installed(one: One):
    content = b"no apk"
    wanted = Wanted("package", "com.example.x", State(hashlib.sha256(content).hexdigest()), lambda: io.BytesIO(content))
    with pytest.raises(CommandFailedError, match="INSTALL_PARSE_FAILED_NOT_APK"):
        things(one).make("1", wanted)


def test_a_file_without_a_content_is_a_mistake(one: One):
    with pytest.raises(BadParametersError, match="nothing is there to be sent"):
        things(one).make("1", Wanted("file", PATH, State("0" * 64)))


def test_every_kind_of_thing_can_be_read(one: One):
    mine = things(one)
    names = {"setting": "global/x", "wm": "size", "property": "debug.x", "package": "com.example.herd", "file": PATH}
    assert set(Thing) == set(names)
    for thing, name in names.items():
        mine.read(thing, name)
    assert mine.read("package", "com.example.herd").there


def test_a_line_still_at_work_is_seen_by_whoever_wants_to_undo_it(one: One):
    """A line of an earlier lease of the same task: it wrote its intent, and its caller is gone."""
    folder = f"{OWN_FOLDER}/j"
    line = f'read i </proc/sys/kernel/random/boot_id; mkdir -p {folder}; echo "1/1 begin T $$ $i" >>{folder}/task.r.1.7'
    act = f"until [ -e {folder}/enough ]; do sleep 0.1; done"
    at_work = threading.Thread(target=shell, args=(one, f"{line}; {act}; echo '1/1 done 0' >>{folder}/task.r.1.7"))
    hands = one.hands()
    assert hands.is_quiet("task", last_look=False)
    at_work.start()
    eventually(lambda: not hands.is_quiet("task", last_look=False))
    with pytest.raises(UnknownOutcomeError, match="still carrying it out"):
        hands.is_quiet("task", last_look=True)
    assert hands.is_quiet("tas", last_look=False)
    shell(one, f"echo >{folder}/enough")
    eventually(lambda: hands.is_quiet("task", last_look=False))
    at_work.join(LONG_S)


def test_an_intent_whose_line_died_is_quiet(one: One):
    one.control.cut_after(one.name, "^fsync")
    hands = one.hands()
    with pytest.raises(UnknownOutcomeError):
        things(one, hands).make("1", Wanted("setting", "global/x", State("a")))
    assert one.hands(attempt=2).is_quiet("task", last_look=True)
