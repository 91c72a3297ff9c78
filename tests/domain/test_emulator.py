"""One emulator as its hosts and its pool see it."""

from dataclasses import replace

from droidherd.domain import messages as m
from droidherd.domain.fleet.emulator import GATE_TRIES, Emulator, EmulatorState, GateRequest
from droidherd.domain.messages import EmulatorStatus, Health, RecoveryPolicy
from tests.domain.pool import seen


def up() -> Emulator:
    emulator = Emulator(EmulatorState("e1"))
    emulator.on_seen(seen("h1"))
    pass_gate(emulator)
    return emulator


def pass_gate(emulator: Emulator, evidence: str = "") -> GateRequest:
    order = emulator.gate_request()
    assert order is not None
    emulator.on_gate(order, evidence)
    return order


def announced(emulator: Emulator, pool: str = "dispatcher/pool") -> list[m.Announce]:
    return [one for one in emulator.outbox.lines.get(pool, []) if isinstance(one, m.Announce)]


def announced_states(emulator: Emulator) -> list[EmulatorStatus]:
    lines = announced(emulator)
    assert [one.seq for one in lines] == sorted({one.seq for one in lines})
    return [one.state for one in lines]


def test_a_new_emulator_is_up_after_its_boot_gate() -> None:
    emulator = Emulator(EmulatorState("e1"))
    emulator.on_seen(seen("h1"))
    assert EmulatorStatus.RECOVERING is emulator.state.status
    assert GateRequest("b1", full=True, fence=0) == pass_gate(emulator)
    assert [EmulatorStatus.RECOVERING, EmulatorStatus.UP] == announced_states(emulator)


def test_a_reboot_leads_through_full_gate_a_bad_end_through_the_short_one() -> None:
    emulator = up()
    emulator.on_reset(m.Reset(7))
    assert GateRequest("b1", full=False, fence=7) == pass_gate(emulator)
    assert 7 == emulator.announcement().reset_up_to
    emulator.on_seen(seen("h1", seq=2, boot="b2"))
    assert GateRequest("b2", full=True, fence=7) == emulator.gate_request()


def test_a_gate_passed_for_an_older_boot_does_not_count_for_the_present_one() -> None:
    emulator = Emulator(EmulatorState("e1"))
    emulator.on_seen(seen("h1"))
    order = emulator.gate_request()
    assert order is not None
    emulator.on_seen(seen("h1", seq=2, boot="b2"))
    emulator.on_gate(order, "")
    assert EmulatorStatus.RECOVERING is emulator.state.status


def test_an_emulator_that_never_passes_is_quarantined_until_it_boots_again() -> None:
    emulator = Emulator(EmulatorState("e1"))
    emulator.on_seen(seen("h1"))
    for _ in range(GATE_TRIES):
        pass_gate(emulator, "black frame")
    assert (EmulatorStatus.QUARANTINED, "black frame", None) == (
        emulator.state.status,
        emulator.state.evidence,
        emulator.gate_request(),
    )
    emulator.on_seen(seen("h1", seq=2, boot="b2"))
    assert EmulatorStatus.RECOVERING is emulator.state.status


def test_suspicion_passes_and_down_is_down() -> None:
    emulator = up()
    emulator.on_seen(seen("h1", Health.SUSPECT, seq=2))
    assert EmulatorStatus.SUSPECT is emulator.state.status
    emulator.on_seen(seen("h1", Health.GOOD, seq=3))
    assert EmulatorStatus.UP is emulator.state.status
    emulator.on_seen(seen("h1", Health.DOWN, seq=4))
    assert (EmulatorStatus.DOWN, None) == (emulator.state.status, emulator.gate_request())


def test_an_emulator_that_is_down_says_why_even_if_nothing_else_is_known() -> None:
    emulator = up()
    emulator.on_seen(seen("h1", Health.DOWN, seq=4))
    assert (EmulatorStatus.DOWN, "answers no probe") == (emulator.announcement().state, emulator.announcement().why)


def test_labels_are_those_seen_last_and_the_pool_hears_of_each_change() -> None:
    emulator = up()
    for number, labels in enumerate([("account=ann",), (), ()]):
        emulator.on_seen(replace(seen("h1", seq=2 + number), labels=labels))
        assert labels == emulator.announcement().labels
    lines = announced(emulator)
    assert [("account=ann",), (), ()] == [one.labels for one in lines[2:]]  # what its host repeats is told again


def test_of_a_host_that_leaves_in_order_what_runs_may_end() -> None:
    emulator = up()
    emulator.on_seen(seen("h1", Health.LEAVING, seq=2))
    assert EmulatorStatus.DRAINING is emulator.state.status
    emulator.on_seen(seen("h1", Health.LEFT, seq=3))
    assert EmulatorStatus.RETIRED is emulator.state.status
    emulator.on_seen(seen("h1", incarnation=2))
    assert EmulatorStatus.UP is emulator.state.status


def test_what_a_host_reported_before_is_not_news() -> None:
    emulator = up()
    emulator.on_seen(seen("h1", Health.DOWN, seq=3))
    emulator.on_seen(seen("h1", Health.GOOD, seq=2))
    assert EmulatorStatus.DOWN is emulator.state.status


def test_one_owner_and_a_second_host_takes_over_when_the_first_one_lost_it() -> None:
    emulator = up()
    emulator.on_seen(seen("h2"))
    assert "h1" == emulator.state.owner
    before = emulator.state.incarnation
    emulator.on_seen(seen("h1", Health.DOWN, seq=2))
    assert ("h2", EmulatorStatus.UP) == (emulator.state.owner, emulator.state.status)
    assert before < emulator.state.incarnation


def test_what_its_owner_let_go_goes_to_a_host_that_could_start_it() -> None:
    emulator = up()
    emulator.on_seen(replace(seen("h2", Health.DOWN), recovery=RecoveryPolicy(controller="virtual")))
    assert "h1" == emulator.state.owner
    emulator.on_seen(seen("h1", Health.LEFT, seq=2))
    assert ("h2", EmulatorStatus.DOWN) == (emulator.state.owner, emulator.state.status)


def test_what_its_owner_let_go_does_not_go_to_a_host_that_cannot_start_it() -> None:
    emulator = up()
    emulator.on_seen(replace(seen("h2", Health.DOWN), recovery=RecoveryPolicy()))
    emulator.on_seen(replace(seen("h3", Health.DOWN), recovery=RecoveryPolicy(controller="virtual")))
    emulator.on_seen(seen("h1", Health.LEFT, seq=2))
    assert "h3" == emulator.state.owner


def test_what_its_owner_let_go_is_not_given_to_a_host_that_fell_silent() -> None:
    emulator = up()
    emulator.on_seen(seen("h2", Health.DOWN))
    emulator.on_seen(seen("h1", Health.LEFT, seq=2))
    assert ("h1", EmulatorStatus.RETIRED) == (emulator.state.owner, emulator.state.status)


def test_a_pool_hears_that_an_emulator_left_it_for_another_one() -> None:
    emulator = up()
    emulator.on_seen(replace(seen("h1", incarnation=2), pool="other"))
    assert EmulatorStatus.RETIRED is announced_states(emulator)[-1]
    (news,) = announced(emulator, "dispatcher/other")
    assert (EmulatorStatus.UP, 2) == (news.state, news.incarnation)
    emulator.on_seen(replace(seen("h1", incarnation=3), pool="pool"))
    assert EmulatorStatus.UP is announced_states(emulator)[-1]
    assert EmulatorStatus.RETIRED is announced(emulator, "dispatcher/other")[-1].state


def test_a_late_word_of_a_host_that_lost_the_emulator_does_not_give_it_back() -> None:
    emulator = up()
    emulator.on_seen(seen("h2"))
    emulator.on_seen(seen("h1", Health.DOWN, seq=2))
    emulator.on_seen(seen("h2", Health.DOWN, seq=2))
    emulator.on_seen(seen("h2", Health.GOOD, seq=1))
    emulator.on_seen(seen("h1", Health.GOOD, seq=1))
    assert EmulatorStatus.DOWN is emulator.state.status


def test_draining_lets_nobody_new_in_and_ends() -> None:
    emulator = up()
    emulator.on_drain(on=True)
    assert EmulatorStatus.DRAINING is emulator.state.status
    emulator.on_drain(on=False)
    assert EmulatorStatus.UP is emulator.state.status


def test_the_last_good_probe_is_remembered_while_it_is_silent() -> None:
    emulator = up()
    emulator.on_seen(replace(seen("h1", Health.DOWN, seq=90), good_at_ms=5_000))
    emulator.on_seen(replace(seen("h1", Health.DOWN, seq=91), good_at_ms=0))
    assert 5_000 == emulator.state.good_at_ms


def test_recalled_it_announces_itself_again_with_a_greater_number() -> None:
    emulator = up()
    before = announced_states(emulator)
    emulator.on_recall()
    assert [*before, EmulatorStatus.UP] == announced_states(emulator)


def test_before_any_host_saw_it_there_is_nobody_to_tell() -> None:
    emulator = Emulator(EmulatorState("e1"))
    emulator.on_reset(m.Reset(3))
    emulator.on_recall()
    assert 0 == len(emulator.outbox)


def test_an_older_report_is_answered_with_the_newest_one_that_was_heard() -> None:
    emulator = up()
    emulator.on_seen(replace(seen("h1", incarnation=90_000, seq=90_000), health=Health.DOWN))
    emulator.outbox.lines.clear()
    emulator.on_seen(seen("h1", seq=2))
    [recall] = emulator.outbox.lines["host/h1"]
    assert isinstance(recall, m.Recall)
    assert (90_000, 90_000, "e1") == (recall.incarnation, recall.seq, recall.emulator_id)
    assert EmulatorStatus.DOWN is emulator.state.status


def test_what_was_announced_in_its_name_is_outdone() -> None:
    emulator = up()
    emulator.on_recall(m.Recall(1, seq=77, incarnation=88))
    last = announced(emulator)[-1]
    assert (EmulatorStatus.UP, 89, 78) == (last.state, last.incarnation, last.seq)


def test_a_switch_that_is_older_is_answered_with_the_newest() -> None:
    emulator = up()
    emulator.on_recall(m.Recall(1, voids=900))
    emulator.outbox.lines.clear()
    emulator.on_switch(m.Switch(on=False, seq=5))
    assert [900] == [one.switched for one in announced(emulator)]


def test_a_token_more_than_a_day_ahead_fails_the_gate() -> None:
    emulator = up()
    emulator.on_reset(m.Reset(7))
    assert "ahead of the clock" in emulator.note_token(1_000 + m.AHEAD_MS + 1, 1_000)
    assert "" == emulator.note_token(1_000 + m.AHEAD_MS, 1_000)
    pass_gate(emulator)
    assert 1_000 + m.AHEAD_MS == announced(emulator)[-1].token
