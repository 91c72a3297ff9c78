"""The very lines that run on emulators, under every real shell this machine has."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from droidherd.domain.errors import (
    BadParametersError,
    DiskFullError,
    FencedError,
    InfrastructureError,
    LateError,
    NotReleasedError,
    UnknownOutcomeError,
)
from droidherd.emulator import acts, lines
from droidherd.emulator.lines import TOKEN_PROPERTY, UPTIME_LIMIT_S, JournalEntry, ShellReply
from droidherd.emulator.token import Token
from tests.emulator.stand import BOOT_ID, SHELLS, Stand

LEASE = 1_790_000_000_000
MINE = Token(LEASE, 2, 1)
KEY = "task-1.run-1.1"
TAP = "input tap 10 20"


@pytest.fixture(params=SHELLS)
def stand(request: pytest.FixtureRequest, tmp_path: Path) -> Stand:
    return Stand.build(tmp_path / "stand", str(request.param))


def entry(effect: str = "2/1.1", token: Token = MINE, until_s: int = UPTIME_LIMIT_S) -> JournalEntry:
    return JournalEntry(KEY, effect, token, until_s)


def tap(stand: Stand, token: Token = MINE, until_s: int = UPTIME_LIMIT_S, act: str = TAP) -> ShellReply:
    return stand.run(lines.effect(entry(token=token, until_s=until_s), act, stand.places))


# --- seize ---------------------------------------------------------------------------------------------------


def test_seizing_from_a_smaller_token_sets_mine_and_reads_the_clock(stand: Stand):
    stand.set(Token(LEASE - 1, 9, 9))
    answer = stand.run(lines.seize(MINE, deck=False, places=stand.places))
    assert ("seized", (str(Token(LEASE - 1, 9, 9)), "100.00", BOOT_ID, "old")) == (answer.word, answer.rest)
    assert str(MINE) == stand.token()


def test_seizing_says_whether_there_is_a_journal_already(stand: Stand):
    stand.set(MINE)
    line = lines.seize(MINE, deck=False, journal=KEY, places=stand.places)
    assert "new" == stand.run(line).rest[-1]
    stand.run(lines.effect(entry(), "true", stand.places))
    assert "old" == stand.run(line).rest[-1]


def test_seizing_again_with_the_same_token_is_harmless(stand: Stand):
    stand.set(MINE)
    assert "seized" == stand.run(lines.seize(MINE, deck=True, places=stand.places)).word


def test_a_rebooted_emulator_refuses_everybody(stand: Stand):
    for line in (
        lines.seize(MINE, deck=False, places=stand.places),
        lines.effect(entry(), TAP, stand.places),
        lines.settle(entry(), stand.places),
        lines.guard(MINE, TAP),
        lines.release(MINE),
        lines.fence(MINE),
    ):
        with pytest.raises(FencedError, match="restarted"):
            stand.run(line).refuse("stand")
    assert ("", []) == (stand.token(), stand.acts())


@pytest.mark.parametrize("greater", [Token(LEASE, 2, 2), Token(LEASE, 3), Token(LEASE + 1), Token(999_999_999_999_999)])
def test_a_greater_token_fences(stand: Stand, greater: Token):
    stand.set(greater)
    for line in (
        lines.seize(MINE, deck=False, places=stand.places),
        lines.effect(entry(), TAP, stand.places),
        lines.forget(entry(), stand.places),
        lines.guard(MINE, TAP),
    ):
        with pytest.raises(FencedError, match=str(greater)):
            stand.run(line).refuse("stand")
    assert (str(greater), []) == (stand.token(), stand.acts())


def test_a_smaller_token_fences_acts_too_because_only_seize_may_take_over(stand: Stand):
    stand.set(Token(LEASE, 2, 0))
    assert "fenced" == tap(stand).word
    assert [] == stand.acts()


def test_on_deck_the_lease_before_must_have_reported_its_end(stand: Stand):
    before = Token(LEASE - 7, 3, 1)
    stand.set(before, free=f"{LEASE - 8:015d}")
    with pytest.raises(NotReleasedError):
        stand.run(lines.seize(MINE, deck=True, places=stand.places)).refuse("stand")
    assert str(before) == stand.token()
    assert "released" == stand.run(lines.release(before)).word
    assert "seized" == stand.run(lines.seize(MINE, deck=True, places=stand.places)).word


def test_on_deck_a_later_stage_of_the_same_lease_needs_no_release(stand: Stand):
    stand.set(Token(LEASE, 1, 1))
    assert "seized" == stand.run(lines.seize(MINE, deck=True, places=stand.places)).word


def test_a_lease_that_comes_after_another_waits_until_that_one_was_there(stand: Stand):
    """Two leases granted in a row: the second must not overtake the first, which has not begun yet."""
    gone, first, second = Token(LEASE, 3, 1), Token(LEASE + 1, 1, 1), Token(LEASE + 2, 1, 1)
    overtake = lines.seize(second, deck=True, after=LEASE + 1, places=stand.places)
    stand.set(gone)
    stand.run(lines.release(gone))
    assert "held" == stand.run(overtake).word
    assert "seized" == stand.run(lines.seize(first, deck=True, places=stand.places)).word
    assert "held" == stand.run(overtake).word
    stand.run(lines.release(first))
    assert "seized" == stand.run(overtake).word


@pytest.mark.parametrize(
    ("journal", "known"),
    [
        (None, "new"),
        (["c1 done 0"], "bare"),
        (["2/1 done 0"], "bare"),
        (["1/c1 done 0"], "bare"),
        (["1/2 begin"], "old"),
    ],
)
def test_seizing_says_whether_a_step_of_the_stage_stands_in_the_journal(
    stand: Stand, journal: list[str] | None, known: str
):
    stand.set(Token(LEASE - 100))
    if journal is not None:
        stand.write_journal("key", *journal)
    line = lines.seize(Token(LEASE, 1, 1), deck=False, journal="key", places=stand.places)
    assert known == stand.run(line).rest[-1]


def test_release_is_refused_to_a_lease_that_was_overtaken(stand: Stand):
    stand.set(Token(LEASE + 1), free="x")
    with pytest.raises(FencedError):
        stand.run(lines.release(MINE)).refuse("stand")
    assert "x" == stand.free()


def test_a_fence_only_raises(stand: Stand):
    stand.set(Token(LEASE - 1))
    assert (str(MINE),) == stand.run(lines.fence(MINE)).rest
    stand.set(Token(LEASE + 1))
    assert (str(Token(LEASE + 1)),) == stand.run(lines.fence(MINE)).rest
    assert str(Token(LEASE + 1)) == stand.token()


def test_a_floor_is_set_after_a_boot_and_never_otherwise(stand: Stand):
    assert (str(MINE),) == stand.run(lines.floor(MINE)).rest
    assert MINE.lease_text == stand.free()
    assert (str(MINE),) == stand.run(lines.floor(Token(LEASE + 5))).rest
    next_lease = Token(LEASE + 1)
    assert "seized" == stand.run(lines.seize(next_lease, deck=True, places=stand.places)).word


# --- effects -------------------------------------------------------------------------------------------------


def test_an_effect_writes_its_intent_before_and_its_result_after(stand: Stand):
    stand.set(MINE)
    answer = tap(stand, act='input tap "$(cat "$f" | wc -l)"')
    assert ("acted", ("0",)) == (answer.word, answer.rest)
    assert ["input tap 1"] == stand.acts()
    intent, result = stand.journal(KEY)
    assert ["2/1.1", "begin", str(MINE), BOOT_ID] == [*intent.split()[:3], intent.split()[4]]
    assert "2/1.1 done 0" == result


def test_a_done_effect_is_not_repeated(stand: Stand):
    stand.set(MINE)
    tap(stand)
    answer = tap(stand)
    assert ("again", ("done", "0")) == (answer.word, answer.rest)
    assert [TAP] == stand.acts()


def test_an_act_that_fails_with_a_code_of_ours_is_not_taken_for_a_refusal(stand: Stand):
    stand.set(MINE)
    stand.act_fails()
    answer = tap(stand)
    assert ("acted", ("75",), "refused") == (answer.word, answer.rest, answer.output)
    assert ("again", ("done", "75")) == (tap(stand).word, tap(stand).rest)


def test_an_intent_without_result_is_unknown_and_not_repeated(stand: Stand):
    stand.set(MINE)
    stand.write_journal(KEY, f"2/1.1 begin {Token(LEASE, 2, 0)}")
    with pytest.raises(UnknownOutcomeError, match="intent without a result"):
        tap(stand).refuse("stand")
    assert [] == stand.acts()


def test_a_settled_effect_is_not_repeated(stand: Stand):
    stand.set(MINE)
    stand.write_journal(KEY, f"2/1.1 begin {MINE}")
    assert "written" == stand.run(lines.settle(entry(), stand.places)).word
    assert ("again", ("settled",)) == (tap(stand).word, tap(stand).rest)
    assert [] == stand.acts()


def test_a_forgotten_effect_is_repeated(stand: Stand):
    stand.set(MINE)
    stand.write_journal(KEY, f"2/1.1 begin {MINE}")
    assert "written" == stand.run(lines.forget(entry(), stand.places)).word
    assert "acted" == tap(stand).word
    assert [TAP] == stand.acts()


def test_what_finished_late_cannot_be_forgotten(stand: Stand):
    stand.set(MINE)
    tap(stand)
    assert "written" == stand.run(lines.forget(entry(), stand.places)).word
    assert "again" == tap(stand).word
    assert [TAP] == stand.acts()


def test_what_is_still_being_carried_out_cannot_be_forgotten(stand: Stand):
    stand.set(MINE)
    stand.write_journal(KEY, f"2/1.1 begin {MINE} 77 {BOOT_ID}")
    stand.process_runs(77)
    with pytest.raises(UnknownOutcomeError, match="still carrying it out"):
        stand.run(lines.forget(entry(), stand.places)).refuse("stand")
    assert "unknown" == tap(stand).word
    assert "written" == stand.run(lines.settle(entry(), stand.places)).word
    assert "again" == tap(stand).word


def test_a_process_of_an_earlier_boot_does_not_count_as_running(stand: Stand):
    stand.set(MINE)
    stand.write_journal(KEY, f"2/1.1 begin {MINE} 77 another-boot")
    stand.process_runs(77)
    assert "written" == stand.run(lines.forget(entry(), stand.places)).word
    assert "acted" == tap(stand).word


def test_an_act_at_work_is_found_running_by_its_own_intent(stand: Stand):
    stand.set(MINE)
    act = 'eval "set -- $(tail -n 1 "$f")"; echo "pid $4 is $(echo $$)"'
    assert "pid is" == re.sub(r"(pid) (\d+) (is) \2$", r"\1 \3", tap(stand, act=act).output)


def test_only_the_effect_of_exactly_this_name_counts(stand: Stand):
    stand.set(MINE)
    stand.write_journal(KEY, "2/1x1 done 0", "12/1.1 done 0", "2/1.10 done 0", "2/1.1.1 begin x")
    assert "acted" == tap(stand).word


def test_a_torn_line_of_the_journal_never_lets_an_act_happen_twice(stand: Stand):
    stand.set(MINE)
    stand.write_journal(KEY, "2/1.1 beg2/1.1 begin x")
    assert "unknown" == tap(stand).word


def test_a_stage_recalls_its_own_effects_only(stand: Stand):
    stand.set(MINE)
    mine = ["2/1.1 begin x", "2/1.1 done 0", "2/1.2 begin x"]
    stand.write_journal(KEY, *mine, "12/1 begin x", "1/2/1 begin x")
    answer = stand.run(lines.recall(entry(), 2, stand.places))
    assert ("recalled", mine) == (answer.word, answer.output.splitlines())
    assert "" == stand.run(lines.recall(JournalEntry("another", "2/1", MINE, 1), 2, stand.places)).output
    stand.set(Token(LEASE, 2, 2))
    assert "fenced" == stand.run(lines.recall(entry(), 2, stand.places)).word


def test_a_journal_that_cannot_be_read_is_not_recalled_as_empty(stand: Stand):
    stand.set(MINE)
    stand.write_journal(KEY, "2/1.1 done 0")
    stand.breaks("grep")
    assert 0 != stand.raw(lines.recall(entry(), 2, stand.places)).rc


def test_a_journal_that_cannot_be_read_lets_nothing_happen(stand: Stand):
    stand.set(MINE)
    stand.write_journal(KEY, "2/1.1 done 0")
    stand.breaks("grep")
    with pytest.raises(UnknownOutcomeError, match="cannot be read: broken"):
        tap(stand).refuse("stand")
    assert [] == stand.acts()


def test_the_last_word_about_an_effect_counts(stand: Stand):
    stand.set(MINE)
    stand.write_journal(KEY, "2/1.1 begin x", "2/1.1 forgotten", "2/1.1 begin x", "2/1.1 settled", "2/1.2 begin x")
    assert ("again", ("settled",)) == (tap(stand).word, tap(stand).rest)


def test_the_deadline_is_the_emulators_uptime(stand: Stand):
    stand.set(MINE)
    stand.uptime(500.99)
    assert "acted" == tap(stand, until_s=500).word
    stand.uptime(501)
    with pytest.raises(LateError, match="501"):
        stand.run(lines.effect(entry("2/9", until_s=500), TAP, stand.places)).refuse("stand")
    with pytest.raises(LateError):
        stand.run(lines.settle(entry("2/9", until_s=500), stand.places)).refuse("stand")
    assert [TAP] == stand.acts()


def test_a_token_that_rose_while_the_intent_was_written_stops_the_act(stand: Stand):
    """Another try seized between the guard and the act: it may have looked into the journal before the intent."""
    stand.set(MINE)
    stand.meanwhile(f"setprop {TOKEN_PROPERTY} {Token(LEASE, 2, 2)}")
    with pytest.raises(FencedError):
        tap(stand).refuse("stand")
    assert ([], 1) == (stand.acts(), len(stand.journal(KEY)))
    assert "unknown" == tap(stand, Token(LEASE, 2, 2)).word


def test_time_that_passed_while_the_intent_was_written_counts(stand: Stand):
    stand.set(MINE)
    stand.meanwhile("echo '501.00 1.00' >\"$STAND/uptime\"")
    with pytest.raises(LateError):
        tap(stand, until_s=500).refuse("stand")
    assert [] == stand.acts()


def test_without_space_for_the_intent_nothing_is_acted(stand: Stand):
    stand.set(MINE)
    folder = Path(stand.places.journals)
    folder.mkdir(parents=True)
    (folder / KEY).symlink_to("/dev/full")
    with pytest.raises(DiskFullError, match="free space"):
        tap(stand).refuse("stand")
    assert [] == stand.acts()


def test_a_swept_journal_folder_is_made_again(stand: Stand):
    stand.set(MINE)
    assert not Path(stand.places.root).exists()
    assert "acted" == tap(stand).word
    assert 2 == len(stand.journal(KEY))


def test_a_journal_that_is_lost_amid_a_stage_is_not_begun_anew(stand: Stand):
    stand.set(MINE)
    folder = Path(stand.places.journals)
    later = replace(entry(), begun=True)
    folder.mkdir(parents=True)
    (folder / KEY).write_text(f"{MINE.stage}/cleanup.1 done 0\n")
    with pytest.raises(InfrastructureError, match="was removed while it ran"):
        stand.run(lines.effect(later, TAP, stand.places)).refuse("stand")
    assert [] == stand.acts()
    (folder / KEY).write_text(f"{MINE.stage}/0.1 done 0\n")
    assert "acted" == stand.run(lines.effect(later, TAP, stand.places)).word


def test_a_guarded_act_leaves_no_journal(stand: Stand):
    stand.set(MINE)
    assert "acted" == stand.run(lines.guard(MINE, TAP)).word
    assert ([TAP], []) == (stand.acts(), stand.journal(KEY))


def test_a_guarded_act_that_fails_says_so(stand: Stand):
    stand.set(MINE)
    stand.act_fails()
    answer = stand.run(lines.guard(MINE, TAP))
    assert (("75",), "refused") == (answer.rest, answer.output)


def test_an_act_never_waits_for_input(stand: Stand):
    stand.set(MINE)
    for line in (lines.effect(entry(), "cat", stand.places), lines.guard(MINE, "cat")):
        answer = stand.run(f"echo typed | {{ {line}\n}}")
        assert ("acted", "") == (answer.word, answer.output)


def test_an_act_that_prints_a_marker_is_still_only_output(stand: Stand):
    stand.set(MINE)
    answer = tap(stand, act="echo dh:again done 0")
    assert ("acted", "dh:again done 0") == (answer.word, answer.output)


# --- acts ----------------------------------------------------------------------------------------------------


def test_typed_text_reaches_the_tool_as_it_was_meant(stand: Stand):
    stand.set(MINE)
    tap(stand, act=acts.type_text('it\'s $HOME `id` "x" \\ 50%s off'))
    assert ['input text it\'s%s$HOME%s`id`%s"x"%s\\%s50%', "input text s%soff"] == stand.acts()


def test_nothing_to_type_is_no_act(stand: Stand):
    stand.set(MINE)
    assert ("acted", ("0",)) == (tap(stand, act=acts.type_text("")).word, ("0",))
    assert [] == stand.acts()


def test_an_app_that_am_refuses_in_words_failed(stand: Stand):
    stand.set(MINE)
    (stand.root / "bin" / "am").write_text("#!/bin/sh\necho 'Error: Activity not started'\n")
    answer = tap(stand, act=acts.start_app("com.example.herd"))
    assert ("acted", ("1",), "Error: Activity not started") == (answer.word, answer.rest, answer.output)


def test_an_app_is_started_by_component_or_by_launcher(stand: Stand):
    stand.set(MINE)
    tap(stand, act=acts.start_app("com.example.herd/.MainActivity"))
    stand.run(lines.effect(entry("2/2"), acts.start_app("com.example.herd"), stand.places))
    stand.run(lines.effect(entry("2/3"), acts.stop_app("com.example.herd"), stand.places))
    assert [
        "am start -n com.example.herd/.MainActivity",
        "am start -a android.intent.action.MAIN -c android.intent.category.LAUNCHER com.example.herd",
        "am force-stop com.example.herd",
    ] == stand.acts()


@pytest.mark.parametrize(
    "make",
    [
        lambda: acts.tap(-1, 0),
        lambda: acts.tap(0, 100_001),
        lambda: acts.swipe((0, 0), (1, 1), 61),
        lambda: acts.swipe((0, 0), (1, 1), float("nan")),
        lambda: acts.key("back; reboot"),
        lambda: acts.key(""),
        lambda: acts.start_app("x; reboot"),
        lambda: acts.start_app("com.example.herd/.Main;reboot"),
        lambda: acts.stop_app("-a"),
        lambda: acts.type_text("Enter\n"),
        lambda: acts.type_text("Grüße\n"),
        lambda: acts.type_text("x" * 1001),
        lambda: JournalEntry(KEY, "2 done", MINE, 1),
        lambda: lines.effect(JournalEntry("../x", "1", MINE, 1), TAP),
        lambda: lines.effect(JournalEntry(".", "1", MINE, 1), TAP),
        lambda: lines.effect(JournalEntry(KEY, "1", MINE, 2**31), TAP),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_sent(make: object):
    with pytest.raises(BadParametersError):
        make()  # pyright: ignore[reportCallIssue, reportUnknownVariableType] - parametrized lambdas have no useful type


# --- answers -------------------------------------------------------------------------------------------------


def test_a_line_that_never_reached_its_marker_is_of_unknown_outcome(stand: Stand):
    for line in ("exit 75", "echo hello", "if"):
        with pytest.raises(UnknownOutcomeError):
            stand.run(line)


def test_a_word_nobody_expected_is_an_infrastructure_error(stand: Stand):
    with pytest.raises(InfrastructureError, match="nonsense 1"):
        stand.run("echo dh:nonsense 1").refuse("stand")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    held=st.tuples(st.integers(0, 10**15 - 1), st.integers(0, 999), st.integers(0, 999)),
    asked=st.tuples(st.integers(0, 10**15 - 1), st.integers(0, 999), st.integers(0, 999)),
)
def test_every_shell_orders_tokens_as_numbers(tmp_path: Path, held: tuple[int, int, int], asked: tuple[int, int, int]):
    for shell in SHELLS:
        place = tmp_path / shell
        stand = Stand(place, shell) if place.exists() else Stand.build(place, shell)
        stand.set(Token(*held))
        answer = stand.run(lines.seize(Token(*asked), deck=False, places=stand.places))
        assert ("seized" if asked >= held else "fenced") == answer.word
        assert str(Token(*max(held, asked))) == stand.token()
