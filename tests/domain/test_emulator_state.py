"""`EmulatorState` is handed over whole: whatever an emulator knows survives continue-as-new."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from droidherd.contracts.fleet import EmulatorInput
from droidherd.domain import messages as m
from droidherd.domain.fleet.emulator import Emulator, EmulatorAction, EmulatorRequest, EmulatorState
from droidherd.domain.messages import EmulatorStatus, Health, RecoveryPolicy
from tests.domain.pool import seen

POLICY = RecoveryPolicy(controller="virtual", restarts=2)
Act = Callable[[Emulator, int], object]


def sees(host: str, health: Health, boot: str, recovery: RecoveryPolicy | None) -> Act:
    return lambda one, now: one.on_seen(
        replace(seen(host, health, seq=now, boot=boot), recovery=recovery, labels=("a=1",)), now * 1000
    )


def passes(evidence: str) -> Act:
    def act(one: Emulator, now: int) -> None:
        request = one.gate_request()
        if request is not None:
            one.on_gate(request, evidence, now * 1000)

    return act


def recovers(evidence: str) -> Act:
    def act(one: Emulator, now: int) -> None:
        due = one.state.due
        if due is not None:
            one.begin_step(due)
            one.on_step_done(due, evidence, now * 1000)

    return act


def begins(one: Emulator, _: int) -> None:
    if one.state.due is not None:
        one.begin_step(one.state.due)


def controls(action: EmulatorAction) -> Act:
    return lambda one, now: one.on_control(EmulatorRequest(action, "ann", "why not"), now * 1000)


def switches(on: bool) -> Act:
    return lambda one, now: one.on_switch(m.Switch(on, now), now * 1000)


def drains(on: bool) -> Act:
    return lambda one, now: one.on_drain(on=on, now_ms=now * 1000)


def resets(one: Emulator, now: int) -> None:
    one.on_reset(m.Reset(now))


def recalls(one: Emulator, now: int) -> None:
    one.on_recall(m.Recall(now, voids=now), now * 1000)


ACTS = st.one_of(
    st.builds(
        sees,
        st.sampled_from(["h1", "h2"]),
        st.sampled_from(Health),
        st.sampled_from(["b1", "b2"]),
        st.sampled_from([None, POLICY, RecoveryPolicy()]),
    ),
    st.builds(passes, st.sampled_from(["", "black frame"])),
    st.builds(recovers, st.sampled_from(["", "it does not boot"])),
    st.builds(controls, st.sampled_from(EmulatorAction)),
    st.builds(switches, st.booleans()),
    st.builds(drains, st.booleans()),
    st.sampled_from([begins, resets, recalls]),
)


def carried(state: EmulatorState) -> EmulatorState | None:
    """What the next run finds in its input."""
    given_to = EmulatorInput(emulator_id=state.emulator_id, state=state).model_dump_json()
    return EmulatorInput.model_validate_json(given_to).state


@settings(max_examples=200, deadline=None)
@given(st.lists(ACTS, max_size=25))
def test_a_reachable_state_is_the_same_after_dump_and_load(acts: list[Act]) -> None:
    one = Emulator(EmulatorState("e1"))
    for now, act in enumerate(acts, start=1):
        act(one, now)
        assert one.state == carried(one.state)


def test_a_loaded_machine_goes_on_where_the_other_one_stopped() -> None:
    one = Emulator(EmulatorState("e1"))
    sees("h1", Health.GOOD, "b1", POLICY)(one, 1)
    passes("")(one, 2)
    state = carried(one.state)
    assert state is not None
    again = Emulator(state)
    again.resume()
    for machine in (one, again):
        sees("h1", Health.DOWN, "b1", POLICY)(machine, 3)
    assert (EmulatorStatus.DOWN, one.state.due) == (again.state.status, again.state.due)
    assert one.outbox.lines["dispatcher/pool"] == again.outbox.lines["dispatcher/pool"]


@dataclass
class WithOneMore(EmulatorState):
    """A state with a field that nobody else knows of."""

    more: tuple[str, ...] = ()


def test_a_new_field_is_carried_without_another_line_of_code() -> None:
    kind = TypeAdapter(WithOneMore)
    state = WithOneMore("e1", more=("new",), reports={"h1": seen("h1")})
    assert state == kind.validate_json(kind.dump_json(state))
    assert "more" in {one.name for one in fields(state)}
