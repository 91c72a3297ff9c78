"""Hands through the real adb server; the emulator's own journal is the witness."""

import string
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from droidherd.domain.errors import (
    CommandFailedError,
    DiskFullError,
    FencedError,
    LateError,
    NotReleasedError,
    NotSentError,
    UnknownOutcomeError,
)
from droidherd.domain.ports import Acted, Eyes, Hands, Recalled
from droidherd.emulator import lease
from droidherd.emulator.hands import read_journal
from droidherd.emulator.probe import DeviceLink
from droidherd.emulator.token import Token
from tests.emulator.farm import LONG_S, Farm, One, eventually

APP = "com.example.herd"
TAP = "input tap 100 200"


def test_each_act_happens_once_under_its_token(one: One):
    hands = one.hands()
    assert Acted.DONE == hands.start_app("1", APP)
    assert Acted.DONE == hands.tap("2", 100, 200)
    assert Acted.DONE == hands.swipe("3", (1, 2), (30, 40), 0.25)
    assert Acted.DONE == hands.key("4", "back")
    assert Acted.DONE == hands.stop_app("5", APP)
    assert [
        f"am start -a android.intent.action.MAIN -c android.intent.category.LAUNCHER {APP}",
        TAP,
        "input swipe 1 2 30 40 250",
        "input keyevent KEYCODE_BACK",
        f"am force-stop {APP}",
    ] == one.acts()
    assert {str(one.token())} == {command.token for command in one.did("input")}


def test_a_stage_that_runs_again_repeats_nothing_that_is_done(one: One):
    one.hands().tap("2", 100, 200)
    assert Acted.AGAIN == one.hands(attempt=2).tap("2", 100, 200)
    assert Acted.DONE == one.hands(attempt=2).tap("2#2", 100, 200)
    assert [TAP, TAP] == one.acts()


def test_every_printable_character_arrives_on_the_screen_of_the_emulator(one: One):
    hands = one.hands()
    text = string.printable[:95] + " 100%s"
    hands.type_text("1", text)
    typed = "".join(command.argv[2].replace("%s", " ") for command in one.did("input text"))
    assert text == typed


def test_seizing_says_that_nothing_was_begun_until_something_was(one: One):
    assert lease.seize(one.adb, one.address, one.token(1, 1), journal=one.key).journal_is_new
    one.hands(attempt=1).tap("1", 100, 200)
    assert not lease.seize(one.adb, one.address, one.token(1, 2), journal=one.key).journal_is_new


def test_a_stage_recalls_what_became_of_each_effect(one: One):
    hands = one.hands()
    assert {} == hands.recall()
    hands.tap("1", 100, 200)
    with pytest.raises(CommandFailedError):
        hands.start_app("2", "com.missing.app")
    one.control.cut_after(one.name, "^input tap", when="before")
    with pytest.raises(UnknownOutcomeError):
        hands.tap("3", 100, 200)
    again = one.hands(attempt=2)
    expected = {"1": Recalled.DONE, "2": Recalled.FAILED, "3": Recalled.UNKNOWN}
    assert expected == again.recall()
    again.forget("3")
    again.tap("4", 100, 200)
    assert {"1": Recalled.DONE, "2": Recalled.FAILED, "4": Recalled.DONE} == again.recall()


def test_hands_and_eyes_are_what_the_core_asks_for(one: One):
    hands: Hands = one.hands()
    eyes: Eyes = one.eyes()
    assert (Acted.DONE, 1280) == (hands.tap("1", 1, 2), eyes.look().width)


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["1", "2#1.3", "c"]),
            st.sampled_from(["begin x", "done 0", "done 1", "settled", "forgotten", "don", "done x"]),
        )
    )
)
def test_the_last_word_about_an_effect_is_recalled(words: list[tuple[str, str]]):
    meaning = {"done 0": Recalled.DONE, "settled": Recalled.DONE, "done 1": Recalled.FAILED}
    last = {effect: word for effect, word in words if word}
    expected = {effect: meaning.get(word, Recalled.UNKNOWN) for effect, word in last.items() if word != "forgotten"}
    journal = "".join(f"7/{effect} {word}\n17/{effect} begin y\n" for effect, word in words)
    assert expected == read_journal(journal, 7)


@given(st.text(max_size=200))
def test_any_journal_can_be_recalled(journal: str):
    assert {Recalled.DONE, Recalled.FAILED, Recalled.UNKNOWN} >= set(read_journal(journal, 1).values())


def test_an_app_that_is_not_there_failed_and_stays_failed(one: One):
    with pytest.raises(CommandFailedError, match="unable to resolve") as caught:
        one.hands().start_app("1", "com.missing.app")
    assert 0 != caught.value.rc
    with pytest.raises(CommandFailedError, match="had failed before") as again:
        one.hands(attempt=2).start_app("1", "com.missing.app")
    assert caught.value.rc == again.value.rc
    assert 1 == len(one.did("am start"))


def test_a_command_that_reached_nobody_is_sent_again_when_somebody_is_there(one: One):
    hands = one.hands()
    for _ in range(2):
        with pytest.raises(NotSentError, match="its services are not up"):
            hands.run_effect("1", "cmd nobody ping")
    assert {} == hands.recall()
    hands.run_effect("1", "true")
    assert {"1": Recalled.DONE} == hands.recall()


def test_a_typed_secret_is_in_no_error(one: One):
    hands = one.hands()
    one.control.set_fault(one.name, "disk_full")
    with pytest.raises(DiskFullError) as caught:
        hands.type_text("1", "s3cret")
    assert "s3cret" not in str(caught.value)


def test_an_older_try_is_fenced_by_a_newer_one(one: One):
    old = one.hands(attempt=1)
    new = one.hands(attempt=2)
    with pytest.raises(FencedError, match=str(one.token(1, 2))):
        old.tap("1", 100, 200)
    with pytest.raises(FencedError):
        one.seize(attempt=1)
    assert Acted.DONE == new.tap("1", 100, 200)
    assert [TAP] == one.acts()


def test_after_the_deadline_nothing_is_done(one: One):
    hands = one.hands(until_s=-5.0)
    with pytest.raises(LateError):
        hands.tap("1", 100, 200)
    with pytest.raises(LateError):
        hands.forget("1")
    assert ([], []) == (one.acts(), one.journal())


def test_the_lease_on_deck_waits_for_the_word_of_the_one_before(one: One):
    one.hands().tap("1", 100, 200)
    following = Token(one.lease + 1)
    with pytest.raises(NotReleasedError):
        lease.seize(one.adb, one.address, following, after=1)
    lease.release(one.adb, one.address, one.token())
    assert str(one.token()) == lease.seize(one.adb, one.address, following, after=1).before
    with pytest.raises(FencedError):
        lease.release(one.adb, one.address, one.token())
    after = Token(one.lease + 2)
    assert str(after) == lease.fence(one.adb, one.address, after)
    assert str(after) == lease.fence(one.adb, one.address, following)


def test_a_full_disk_stops_the_act_and_names_the_way_out(one: One):
    hands = one.hands()
    hands.tap("1", 100, 200)
    one.control.set_fault(one.name, "disk_full")
    with pytest.raises(DiskFullError, match="No space left"):
        hands.tap("2", 100, 200)
    assert [TAP] == one.acts()
    one.control.clear_fault(one.name)
    assert Acted.DONE == hands.tap("2", 100, 200)


def test_a_rebooted_emulator_refuses_until_it_has_a_floor(one: One):
    hands = one.hands()
    hands.tap("1", 100, 200)
    one.control.reboot(one.name, boot_s=0.0)
    DeviceLink(one.adb).ensure(one.address, deadline_s=LONG_S)
    with pytest.raises(FencedError, match="restarted"):
        hands.tap("2", 100, 200)
    with pytest.raises(FencedError, match="restarted"):
        one.seize(attempt=2)
    lease.floor(one.adb, one.address, Token(one.lease))
    assert Acted.AGAIN == one.hands(attempt=2).tap("1", 100, 200)
    assert [TAP] == one.acts()


# --- cuts: the line stops at every command, and the stage runs again -------------------------------------------


def test_cut_before_the_intent_nothing_happened_and_the_act_follows(one: One):
    hands = one.hands()
    one.control.cut_after(one.name, r"^echo 1/1 begin", when="before")
    with pytest.raises(UnknownOutcomeError):
        hands.tap("1", 100, 200)
    assert ([], []) == (one.acts(), one.journal())
    assert Acted.DONE == one.hands(attempt=2).tap("1", 100, 200)
    assert [TAP] == one.acts()


@pytest.mark.parametrize(("match", "when", "taps"), [(r"^input tap", "before", 0), (r"^input tap", "after", 1)])
def test_cut_around_the_act_it_is_unknown_until_somebody_looked(one: One, match: str, when: str, taps: int):
    hands = one.hands()
    one.control.cut_after(one.name, match, when=when)
    with pytest.raises(UnknownOutcomeError):
        hands.tap("1", 100, 200)
    assert [TAP] * taps == one.acts()
    again = one.hands(attempt=2)
    with pytest.raises(UnknownOutcomeError, match="intent without a result"):
        again.tap("1", 100, 200)
    assert [TAP] * taps == one.acts()
    if taps:
        again.settle("1")
        assert Acted.AGAIN == again.tap("1", 100, 200)
    else:
        again.forget("1")
        assert Acted.DONE == again.tap("1", 100, 200)
    assert [TAP] == one.acts()


def test_cut_after_the_result_it_is_done(one: One):
    hands = one.hands()
    one.control.cut_after(one.name, r"^echo 1/1 done", when="after")
    with pytest.raises(UnknownOutcomeError):
        hands.tap("1", 100, 200)
    assert Acted.AGAIN == one.hands(attempt=2).tap("1", 100, 200)
    assert [TAP] == one.acts()


def test_a_line_that_went_on_without_us_is_done(one: One):
    hands = one.hands()
    one.control.cut_after(one.name, r"^echo 1/1 begin", when="after", line="continue")
    with pytest.raises(UnknownOutcomeError):
        hands.tap("1", 100, 200)
    eventually(lambda: one.acts() == [TAP])
    again = one.hands(attempt=2)
    eventually(lambda: one.journal() == ["1/1 begin", "1/1 done"])
    again.forget("1")
    assert Acted.AGAIN == again.tap("1", 100, 200)
    assert [TAP] == one.acts()


def test_cut_at_any_command_and_run_again_no_act_happens_twice(one: One):
    """Cut after every simple command of the line, which is before the next; the emulator's own journal judges."""
    hands = one.hands()
    hands.tap("0", 100, 200)
    one.mark()
    hands.tap("0#2", 100, 200)
    commands = len(one.did(""))
    assert {TAP, "echo 1/0#2 done 0"} <= {command.line for command in one.did("")}
    one.mark()
    for turn in range(1, commands + 1):
        effect = f"after-{turn}"
        one.control.cut_after(one.name, "", count=turn)
        try:
            hands.tap(effect, 100, 200)
        except UnknownOutcomeError:
            one.control.clear_fault(one.name)
            _bring_to_an_end(one, effect)
        one.control.clear_fault(one.name)
        assert ([TAP], Acted.AGAIN) == (one.acts(), hands.tap(effect, 100, 200)), effect
        one.mark()


def _bring_to_an_end(one: One, effect: str) -> None:
    """As the interpreter does: try, and when it is unknown, look and say so."""
    again = one.hands()
    try:
        again.tap(effect, 100, 200)
    except UnknownOutcomeError:
        happened = bool(one.acts())
        again.settle(effect) if happened else again.forget(effect)
        again.tap(effect, 100, 200)


# --- late ----------------------------------------------------------------------------------------------------


def test_a_tap_sent_into_a_stall_is_refused_when_the_emulator_wakes_too_late(one: One):
    hands = one.hands(until_s=1.5, act_s=0.3)
    one.control.stall(one.name)
    with pytest.raises(UnknownOutcomeError):
        hands.tap("1", 100, 200)
    time.sleep(2.0)
    one.control.release(one.name)
    # Its answer may find the stream closed already; what it compared shows that it ran, and how it decided.
    eventually(lambda: any("-gt" in command.argv and command.rc == 0 for command in one.did("[")))
    assert [] == one.acts()


def test_a_tap_that_wakes_in_time_happens_once_though_its_caller_gave_up(one: One):
    hands = one.hands(act_s=0.3)
    one.control.stall(one.name)
    with pytest.raises(UnknownOutcomeError):
        hands.tap("1", 100, 200)
    one.control.release(one.name)
    eventually(lambda: one.acts() == [TAP])
    assert Acted.AGAIN == one.hands(attempt=2).tap("1", 100, 200)
    assert [TAP] == one.acts()


# --- many at once --------------------------------------------------------------------------------------------


def test_answers_are_never_mixed_up_between_threads(one: One, other: One):
    wrong: list[str] = []

    def ask(number: int) -> None:
        target = one if number % 2 else other
        for turn in range(20):
            text = f"{number}-{turn}"
            if one.adb.shell(target.address, f"echo {text}", LONG_S).text != text + "\n":
                wrong.append(text)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert ([], False) == (wrong, any(thread.is_alive() for thread in threads))


# --- links ---------------------------------------------------------------------------------------------------


def test_without_an_adb_server_nothing_was_sent(farm: Farm, one: One):
    hands = one.hands()
    farm.server.stop()
    try:
        with pytest.raises(NotSentError):
            hands.tap("1", 100, 200)
    finally:
        farm.server.start()
    one.adb.connect(one.address, LONG_S)
    assert Acted.DONE == hands.tap("1", 100, 200)
    assert [TAP] == one.acts()


def test_an_emulator_that_is_not_connected_was_sent_nothing(one: One):
    hands = one.hands()
    one.adb.disconnect(one.address)
    with pytest.raises(NotSentError, match="not found"):
        hands.tap("1", 100, 200)
    one.adb.connect(one.address, LONG_S)
    assert [] == one.acts()
