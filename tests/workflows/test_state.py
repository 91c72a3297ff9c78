"""`TaskState` is handed over whole: whatever a task knows survives a dump and a load."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from temporalio.contrib.pydantic import pydantic_data_converter

from droidherd.contracts import inbound
from droidherd.contracts.changes import Change, Thing, Value
from droidherd.contracts.plan import Effect, Plan, Stage
from droidherd.contracts.tasks import (
    Answer,
    EventView,
    Failure,
    OperatorRequest,
    Question,
    Rerun,
    Rollback,
    TaskInput,
    TaskSpec,
    TaskView,
)
from droidherd.domain import messages as m
from droidherd.domain.errors import IllegalTransitionError
from droidherd.domain.task.claim import Claim
from droidherd.domain.task.lifecycle import Intent, TaskEvent, TaskNote, TaskStatus
from workflows.task import state as module
from workflows.task.state import Lasts, TaskState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLAN = Plan(
    task_type="t",
    flow="f",
    flow_hash="h",
    stages=(
        Stage(name="one", steps=(), changes=(Change(step="0", thing=Thing.SETTING, name="a"),)),
        Stage(name="two", steps=(), effect=Effect.ACCOUNT),
    ),
)
VALUE = Value(step="0", thing=Thing.SETTING, name="a", value="1")
QUESTION = Question(text="which?", step="0", choices=("a", "b"))
CREATED = EventView(at=NOW, before="pending", event="created", after="pending", actor="ann", reason="sample")
LEASE = m.Lease(7, "e1", "h1", 99_000, after=3)


@pytest.fixture(autouse=True, scope="module")
def clock() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    info = SimpleNamespace(
        run_id="r1", workflow_id="t1", workflow_start_time=NOW + timedelta(hours=1), first_execution_run_id="r2"
    )
    patch.setattr(module, "workflow", SimpleNamespace(now=lambda: NOW, info=lambda: info))
    yield
    patch.undo()


def fresh() -> TaskState:
    return TaskState(
        task_id="t1",
        spec=TaskSpec(type="sample", account="42"),
        run="r1",
        claim=Claim("dispatcher/default", 5, run="r1"),
        created_at=NOW,
        updated_at=NOW,
        events=[CREATED],
    )


def enqueue(state: TaskState) -> None:
    state.claim.request(m.Enqueue(state.key(), 0, "account", "sample", mutex=("m",), ticket=state.claim.ticket))


def admit(state: TaskState) -> None:
    if state.claim.ask is not None:
        state.claim.hear(m.Admitted(state.claim.ask.key, state.claim.ask.seq, -4, 2, 300.0, "no emulator", 1))


def grant(state: TaskState) -> None:
    if state.claim.ask is not None:
        state.claim.hear(m.Grant(state.claim.ask.key, 3, LEASE, state.claim.ask.seq))


def revoke(state: TaskState) -> None:
    state.claim.hear(m.Revoked(state.key(), LEASE.token, m.RevokeReason.DOWN))


def change(state: TaskState) -> None:
    state.note_capture(0, (VALUE,))
    state.stage_began(0)
    state.note_changes(0, (VALUE,), completed=True)


def question(state: TaskState) -> None:
    state.question = QUESTION.model_copy(update={"until": NOW + timedelta(seconds=9)})
    state.answer = Answer(choice="a", actor="ann")


STEPS: list[Callable[[TaskState], object]] = [
    *(lambda state, event=event: state.move(event, "ann", "since") for event in TaskEvent),
    *(lambda state, intent=intent: state.ask_for(intent, OperatorRequest(actor="ben")) for intent in Intent),
    lambda state: state.set_plan(PLAN),
    lambda state: state.attempt_began(LEASE),
    lambda state: state.attempt_ended("failed", Failure(kind="K", verdict="final", message="broke")),
    lambda state: state.claim.ending(),
    lambda state: state.claim.done("failed", clean=False, seconds=1.5),
    lambda state: state.claim.soon(state.key(), 12, ("a=b",), "lane"),
    lambda state: state.roll_back(Rollback(force=True, skipped=("e2",))),
    lambda state: state.undone(),
    lambda state: setattr(state, "following", "t2"),
    lambda state: setattr(state, "rounds", state.rounds + 1),
    enqueue,
    admit,
    grant,
    revoke,
    question,
    change,
    lambda state: state.try_sent(1, LEASE.token, 1),
]


async def carried(state: TaskState) -> TaskState:
    """Through the converter that Temporal uses, into what the workflow takes."""
    (payload,) = await pydantic_data_converter.encode([state])
    return inbound.read_own(TaskState, payload.data)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(range(len(STEPS))), max_size=25))
def test_any_state_that_can_be_reached_is_carried_as_it_is(steps: list[int]):
    state = fresh()
    state.set_plan(PLAN)
    for step in steps:
        try:
            STEPS[step](state)
        except IllegalTransitionError:
            continue
    assert state == TaskState.model_validate_json(state.model_dump_json())


@pytest.mark.asyncio
async def test_a_workflow_takes_the_state_of_the_run_before():
    state = fresh()
    enqueue(state)
    grant(state)
    found = await carried(state)
    assert (TaskState, state) == (type(found), found)
    assert LEASE == found.claim.lease


def test_a_field_that_is_added_is_carried_without_another_line():
    class Later(TaskState):
        added: tuple[int, ...] = ()

    later = Later(**dict(fresh()), added=(1,))
    assert (1,) == Later.model_validate_json(later.model_dump_json()).added


def test_every_field_of_the_view_is_read_from_the_state():
    state = fresh()
    state.set_plan(PLAN)
    state.attempt_began(LEASE)
    view = state.view(events=True)
    assert {name: getattr(state, name) for name in ("attempt", "emulator", "flow_hash", "lane", "account")} == {
        name: getattr(view, name) for name in ("attempt", "emulator", "flow_hash", "lane", "account")
    }


def test_a_stage_may_have_acted_until_all_its_tries_say_that_they_did_not():
    state = fresh()
    state.set_plan(PLAN)
    first, second = state.try_sent(1, 7, 1), state.try_sent(1, 7, 2)
    state.try_ended(second, acted=False)
    assert (7, 7, 0) == (state.acted_under(1), state.acted_under(1, 8), state.acted_under(1, 7))
    assert [0, 7] == [stage.wrote_under for stage in state.stages]
    state.try_ended(first, acted=False)
    assert 0 == state.acted_under(1)


def test_a_try_that_a_run_did_not_hear_of_counts_as_having_acted():
    state = fresh()
    state.set_plan(PLAN)
    state.try_sent(0, 7, 1)
    state.try_sent(1, 7, 1)
    state.stop_listening()
    assert ({1: 7}, []) == (state.wrote_under, state.unreported)


def test_a_late_report_says_nothing_of_a_stage_that_completed():
    state = fresh()
    state.set_plan(PLAN)
    first = state.try_sent(1, 7, 1)
    state.stage_ended(1, completed=True)
    state.try_ended(first, acted=True)
    assert 0 == state.acted_under(1)


# --- a task that ended, once more ------------------------------------------------------------------------------------


class LaterView(TaskView):
    added: int = 0


class LaterState(TaskState):
    added: Annotated[int, Lasts.OVER_RERUNS] = 0
    passing: Annotated[int, Lasts.ROUND] = 3
    other: int = 0


def later(**fields: Any) -> LaterState:
    return LaterState(**{**dict(fresh()), **fields})


def once_more(past: TaskView) -> TaskInput:
    return TaskInput.model_construct(
        spec=TaskSpec(type="sample", account="42"),
        again=Rerun.model_construct(past=past),
    )


@settings(max_examples=100, derandomize=True)
@given(st.lists(st.sampled_from(range(len(STEPS))), max_size=25))
def test_a_task_that_ended_begins_its_next_run_with_its_whole_past(steps: list[int]):
    state = fresh()
    state.set_plan(PLAN)
    for step in steps:
        try:
            STEPS[step](state)
        except IllegalTransitionError:
            continue
    past = state.view(events=True)
    again = TaskState.begin(once_more(past)).view(events=True)
    same = ("created_at", "updated_at", "state", "attempts", "events", "undo", "following", "rounds", "priority")
    assert [getattr(past, name) for name in same] == [getattr(again, name) for name in same]
    assert (state.attempt + 1, "r2") == (again.attempt, TaskState.begin(once_more(past)).run)


def test_who_created_a_task_stands_first_however_much_happens():
    state = TaskState.begin(TaskInput(spec=TaskSpec(type="sample", actor="ann")))
    for _ in range(300):
        state.note(TaskNote.INTERRUPTED, "its worker fell silent")
    assert 200 == len(state.events)
    assert ("created", "ann", "sample") == (state.events[0].event, state.events[0].actor, state.events[0].reason)


@pytest.mark.parametrize("completed", [True, False])
def test_a_stage_of_the_account_that_was_renamed_since_may_have_acted(*, completed: bool):
    state = again_as(failed_after_two(completed=completed), "one", "second", "third")
    assert [0, LEASE.token, LEASE.token] == [stage.wrote_under for stage in state.stages]
    assert ["", "", ""] == state.done_on


def test_a_stage_that_is_new_in_a_flow_that_keeps_the_others_did_not_act():
    state = again_as(failed_after_two(completed=True), "one", "two", "third")
    assert [0, 0, 0] == [stage.wrote_under for stage in state.stages]
    assert ["", "e1", ""] == state.done_on


def failed_after_two(*, completed: bool) -> TaskState:
    """Its second stage acted in the account."""
    state = fresh()
    state.set_plan(PLAN)
    state.attempt_began(LEASE)
    state.try_ended(state.try_sent(1, LEASE.token, 1), acted=True)
    state.stage_ended(1, completed=completed)
    state.attempt_ended("failed")
    return state


def again_as(past: TaskState, first: str, *others: str) -> TaskState:
    """Tried again under a flow that was edited: all but its first stage act in the account."""
    account = (Stage(name=name, steps=(), effect=Effect.ACCOUNT) for name in others)
    state = TaskState.begin(once_more(past.view(events=True)))
    state.set_plan(PLAN.model_copy(update={"flow_hash": "edited", "stages": (Stage(name=first, steps=()), *account)}))
    return state


def test_a_field_that_lasts_over_reruns_is_kept_without_another_line():
    state = later(added=7, other=5)
    past = LaterView(**dict(state.view(events=True)), added=state.added)
    again = LaterState.begin(once_more(past))
    assert (7, 0) == (again.added, again.other)


def test_a_field_of_one_round_is_back_at_its_default_in_the_next_round():
    state = later(status=TaskStatus.RUNNING, moves=2, error=Failure(kind="K", verdict="final", message="broke"))
    state.begun_on, state.answers, state.passing, state.other = {0: "e1"}, {"0": "a"}, 9, 5
    state.next_round()
    assert (3, 5) == (state.passing, state.other)
    assert (0, None, {}, {}) == (state.moves, state.error, state.begun_on, state.answers)
    assert (1, 2, 2) == (state.rounds, state.attempt, state.first_attempt)
