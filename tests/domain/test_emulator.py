"""One emulator as its hosts and its pool see it."""

from dataclasses import replace

from droidherd.domain import messages as m
from droidherd.domain.emulator import GATE_TRIES, Emulator, GateOrder
from droidherd.domain.messages import Care, EmulatorState, Sight
from tests.domain.pool import seen


def up() -> Emulator:
    emulator = Emulator("e1")
    emulator.on_seen(seen("h1"))
    pass_gate(emulator)
    return emulator


def pass_gate(emulator: Emulator, evidence: str = "") -> GateOrder:
    order = emulator.order()
    assert order is not None
    emulator.on_gate(order, evidence)
    return order


def told(emulator: Emulator) -> list[EmulatorState]:
    lines = emulator.outbox.lines.get("dispatcher/pool", [])
    assert [one.seq for one in lines] == sorted({one.seq for one in lines})
    return [one.state for one in lines]


def test_a_new_emulator_is_up_after_its_boot_gate() -> None:
    emulator = Emulator("e1")
    emulator.on_seen(seen("h1"))
    assert EmulatorState.RECOVERING is emulator.state
    assert GateOrder("b1", full=True, fence=0) == pass_gate(emulator)
    assert [EmulatorState.RECOVERING, EmulatorState.UP] == told(emulator)


def test_a_reboot_leads_through_the_full_gate_and_a_bad_end_through_the_short_one() -> None:
    emulator = up()
    emulator.on_tidy(m.Tidy(7))
    assert GateOrder("b1", full=False, fence=7) == pass_gate(emulator)
    assert 7 == emulator.announcement().tidied
    emulator.on_seen(seen("h1", seq=2, boot="b2"))
    assert GateOrder("b2", full=True, fence=7) == emulator.order()


def test_a_gate_passed_for_an_older_boot_does_not_count_for_the_present_one() -> None:
    emulator = Emulator("e1")
    emulator.on_seen(seen("h1"))
    order = emulator.order()
    assert order is not None
    emulator.on_seen(seen("h1", seq=2, boot="b2"))
    emulator.on_gate(order, "")
    assert EmulatorState.RECOVERING is emulator.state


def test_an_emulator_that_never_passes_is_quarantined_with_evidence_until_it_boots_again() -> None:
    emulator = Emulator("e1")
    emulator.on_seen(seen("h1"))
    for _ in range(GATE_TRIES):
        pass_gate(emulator, "black frame")
    assert (EmulatorState.QUARANTINED, "black frame", None) == (emulator.state, emulator.evidence, emulator.order())
    emulator.on_seen(seen("h1", seq=2, boot="b2"))
    assert EmulatorState.RECOVERING is emulator.state


def test_suspicion_passes_and_down_is_down() -> None:
    emulator = up()
    emulator.on_seen(seen("h1", Sight.SUSPECT, seq=2))
    assert EmulatorState.SUSPECT is emulator.state
    emulator.on_seen(seen("h1", Sight.GOOD, seq=3))
    assert EmulatorState.UP is emulator.state
    emulator.on_seen(seen("h1", Sight.DOWN, seq=4))
    assert (EmulatorState.DOWN, None) == (emulator.state, emulator.order())


def test_labels_are_those_that_were_seen_last_and_the_pool_hears_of_each_change() -> None:
    emulator = up()
    for number, labels in enumerate([("account=ann",), (), ()]):
        emulator.on_seen(replace(seen("h1", seq=2 + number), labels=labels))
        assert labels == emulator.announcement().labels
    lines = emulator.outbox.lines["dispatcher/pool"]
    assert [("account=ann",), ()] == [one.labels for one in lines[2:]]


def test_of_a_host_that_leaves_in_order_what_runs_may_end_and_then_the_emulator_is_gone() -> None:
    emulator = up()
    emulator.on_seen(seen("h1", Sight.LEAVING, seq=2))
    assert EmulatorState.DRAINING is emulator.state
    emulator.on_seen(seen("h1", Sight.LEFT, seq=3))
    assert EmulatorState.RETIRED is emulator.state
    emulator.on_seen(seen("h1", incarnation=2))
    assert EmulatorState.UP is emulator.state


def test_what_a_host_said_before_is_not_news() -> None:
    emulator = up()
    emulator.on_seen(seen("h1", Sight.DOWN, seq=3))
    emulator.on_seen(seen("h1", Sight.GOOD, seq=2))
    assert EmulatorState.DOWN is emulator.state


def test_one_owner_and_a_second_host_takes_over_when_the_first_one_lost_it() -> None:
    emulator = up()
    emulator.on_seen(seen("h2"))
    assert "h1" == emulator.owner
    before = emulator.incarnation
    emulator.on_seen(seen("h1", Sight.DOWN, seq=2))
    assert ("h2", EmulatorState.UP) == (emulator.owner, emulator.state)
    assert before < emulator.incarnation


def test_what_its_owner_let_go_belongs_to_a_host_that_could_start_it_also_while_it_is_down() -> None:
    emulator = up()
    emulator.on_seen(replace(seen("h2", Sight.DOWN), care=Care(controller="virtual")))
    assert "h1" == emulator.owner
    emulator.on_seen(seen("h1", Sight.LEFT, seq=2))
    assert ("h2", EmulatorState.DOWN) == (emulator.owner, emulator.state)


def test_what_its_owner_let_go_is_not_given_to_a_host_that_could_not_start_it_either() -> None:
    emulator = up()
    emulator.on_seen(replace(seen("h2", Sight.DOWN), care=Care()))
    emulator.on_seen(replace(seen("h3", Sight.DOWN), care=Care(controller="virtual")))
    emulator.on_seen(seen("h1", Sight.LEFT, seq=2))
    assert "h3" == emulator.owner


def test_what_its_owner_let_go_is_not_given_to_a_host_that_fell_silent() -> None:
    emulator = up()
    emulator.on_seen(seen("h2", Sight.DOWN))
    emulator.on_seen(seen("h1", Sight.LEFT, seq=2))
    assert ("h1", EmulatorState.RETIRED) == (emulator.owner, emulator.state)


def test_a_pool_hears_that_an_emulator_left_it_for_another_one() -> None:
    emulator = up()
    emulator.on_seen(replace(seen("h1", incarnation=2), pool="other"))
    assert EmulatorState.RETIRED is told(emulator)[-1]
    (news,) = emulator.outbox.lines["dispatcher/other"]
    assert (EmulatorState.UP, 2) == (news.state, news.incarnation)
    emulator.on_seen(replace(seen("h1", incarnation=3), pool="pool"))
    assert EmulatorState.UP is told(emulator)[-1]
    assert EmulatorState.RETIRED is emulator.outbox.lines["dispatcher/other"][-1].state


def test_a_late_word_of_a_host_that_lost_the_emulator_does_not_give_it_back() -> None:
    emulator = up()
    emulator.on_seen(seen("h2"))
    emulator.on_seen(seen("h1", Sight.DOWN, seq=2))
    emulator.on_seen(seen("h2", Sight.DOWN, seq=2))
    emulator.on_seen(seen("h2", Sight.GOOD, seq=1))
    emulator.on_seen(seen("h1", Sight.GOOD, seq=1))
    assert EmulatorState.DOWN is emulator.state


def test_draining_lets_nobody_new_in_and_ends() -> None:
    emulator = up()
    emulator.on_drain(on=True)
    assert EmulatorState.DRAINING is emulator.state
    emulator.on_drain(on=False)
    assert EmulatorState.UP is emulator.state


def test_recalled_it_announces_itself_again_with_a_greater_number() -> None:
    emulator = up()
    before = told(emulator)
    emulator.on_recall()
    assert [*before, EmulatorState.UP] == told(emulator)


def test_before_any_host_saw_it_there_is_nobody_to_tell() -> None:
    emulator = Emulator("e1")
    emulator.on_tidy(m.Tidy(3))
    emulator.on_recall()
    assert 0 == len(emulator.outbox)
