"""The states of hosts, accounts and subscription runs are handed over whole: nothing that is known is lost."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, JsonValue
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    RetryState,
    TerminatedError,
    TimeoutType,
    WorkflowAlreadyStartedError,
)
from temporalio.exceptions import TimeoutError as ActivityTimeout

from droidherd.contracts.accounts import AccountActionRequest, AccountInput, AccountState, SetAccount
from droidherd.contracts.fleet import HostInput, HostState, Join, PresenceEnd, Reports
from droidherd.contracts.subscriptions import Subscription, SubscriptionRunState
from droidherd.contracts.tasks import OperatorRequest, TaskSpec
from droidherd.domain.messages import Health, RecoveryPolicy, Seen
from droidherd.domain.outbox import Outbox
from droidherd.domain.schedule.catchup import CatchUp, Missed
from tests.domain.pool import seen
from workflows import account as account_module
from workflows import host as host_module
from workflows import subscription_run as run_module
from workflows.account import AccountWorkflow
from workflows.host import HostWorkflow
from workflows.subscription_run import SubscriptionRunWorkflow

NOW = datetime(2026, 1, 1, tzinfo=UTC)
M = TypeVar("M", bound=BaseModel)
TURNS = 5
"""Of the event loop, until what a workflow follows has ended."""


class Engine:
    """What these workflows ask of Temporal. It keeps what they hand over."""

    def __init__(self) -> None:
        self.handed_over: BaseModel | None = None
        self.memos: list[dict[str, JsonValue]] = []
        self.result_before: JsonValue = None
        self.caught_up: CatchUp | None = None
        """None: the activity fails."""
        self.suggests = True
        """To continue as new."""
        self.logger = logging.getLogger("test")

    def set_current_details(self, details: str) -> None:
        """Nobody looks."""

    def info(self) -> SimpleNamespace:
        return SimpleNamespace(
            workflow_id="account/42",
            run_id="0123456789",
            workflow_start_time=NOW,
            is_continue_as_new_suggested=lambda: self.suggests,
        )

    def now(self) -> datetime:
        return NOW + timedelta(seconds=5)

    def continue_as_new(self, given: BaseModel, **_: object) -> None:
        self.handed_over = given

    def upsert_memo(self, memo: dict[str, Any]) -> None:
        self.memos.append(memo)

    def get_last_completion_result(self) -> JsonValue:
        return self.result_before

    async def execute_activity(self, *_: object, **__: object) -> CatchUp:
        if self.caught_up is None:
            cause = ActivityError(
                "failed",
                scheduled_event_id=1,
                started_event_id=2,
                identity="",
                activity_type="settle_missed_runs",
                activity_id="1",
                retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED,
            )
            raise cause
        return self.caught_up

    async def wait_condition(self, condition: Callable[[], bool], **_: object) -> None:
        for _turn in range(TURNS):
            await asyncio.sleep(0)
        assert condition(), "nothing here ends later"


@pytest.fixture(autouse=True, scope="module")
def engine() -> Iterator[Engine]:
    patch, engine = pytest.MonkeyPatch(), Engine()
    for module in (host_module, account_module, run_module):
        patch.setattr(module, "workflow", engine)
    patch.setattr(run_module, "calls", engine)
    patch.setattr(account_module, "continues", lambda: True)
    yield engine
    patch.undo()


def as_carried(given: M) -> M:
    """Through JSON, as Temporal keeps it."""
    return type(given).model_validate_json(given.model_dump_json())


def deliver(outbox: Outbox[Any]) -> None:
    for target in outbox.ready():
        outbox.launch(target)
        outbox.mark_delivered(target)


# --- hosts -----------------------------------------------------------------------------------------------------------

HostStep = Callable[[Any], object]
EMULATORS = ("e1", "e2")


def observation(emulator: str, health: Health, boot: str, policy: RecoveryPolicy | None) -> Seen:
    one = seen("h1", health, seq=1, boot=boot)
    return replace(one, emulator_id=emulator, labels=("a=1",), recovery=policy)


def delivers(one: Any) -> None:
    deliver(one._outbox)


SEEN = st.builds(
    observation,
    st.sampled_from(EMULATORS),
    st.sampled_from(Health),
    st.sampled_from(["", "b1"]),
    st.sampled_from([None, RecoveryPolicy(controller="virtual", restarts=2)]),
)


def joins(incarnation: int, machine: str) -> HostStep:
    return lambda one: one.join(Join(host_id="h1", incarnation=incarnation, machine=machine, worker=f"w{incarnation}"))


def reports(incarnation: int, found: list[Any], listed: tuple[str, ...] | None) -> HostStep:
    return lambda one: one.reports(Reports(incarnation=incarnation, seen=tuple(found), listed=listed))


def presence_ends(how: TimeoutType | None, found: list[Any]) -> HostStep:
    """In order, or by silence."""

    def result() -> PresenceEnd:
        if how is None:
            return PresenceEnd(incarnation=1, seen=tuple(found))
        error = ActivityError(
            "lost",
            scheduled_event_id=1,
            started_event_id=2,
            identity="",
            activity_type="presence",
            activity_id="1",
            retry_state=RetryState.TIMEOUT,
        )
        raise error from ActivityTimeout("silence", type=how, last_heartbeat_details=())

    def step(one: HostWorkflow) -> None:
        if one._state.worker is not None:
            activity: Any = SimpleNamespace(done=lambda: True, result=result)
            one._presence = host_module._Presence(one._state.worker, activity)
            one._settle_presence()

    return step


HOST_STEPS = st.one_of(
    st.builds(joins, st.integers(1, 3), st.sampled_from(["m1", "m2"])),
    st.builds(
        reports,
        st.integers(1, 3),
        st.lists(SEEN, max_size=3),
        st.none() | st.lists(st.sampled_from(EMULATORS)).map(tuple),
    ),
    st.builds(
        presence_ends,
        st.sampled_from([None, TimeoutType.HEARTBEAT, TimeoutType.SCHEDULE_TO_START]),
        st.lists(SEEN, max_size=2),
    ),
    st.just(delivers),
)


async def nothing() -> None:
    """There is nothing left to deliver."""


def host_input(one: HostWorkflow, start: HostInput, engine: Engine) -> HostInput:
    """What the next run of this host is given."""
    one._delivery.drain = nothing
    asyncio.run(one.run(start))
    assert isinstance(engine.handed_over, HostInput)
    return engine.handed_over


@settings(max_examples=100, derandomize=True)
@given(steps=st.lists(HOST_STEPS, max_size=15))
def test_whatever_a_host_knows_is_carried_to_its_next_run(engine: Engine, steps: list[HostStep]):
    start = HostInput(host_id="h1")
    one = HostWorkflow(start)
    for step in steps:
        step(one)
    given_to = as_carried(host_input(one, start, engine))
    assert one._state == given_to.state
    again = HostWorkflow(given_to)
    assert one._state == again._state
    assert one._outbox == again._outbox


class LaterHost(HostState):
    added: tuple[int, ...] = ()


class LaterHostInput(HostInput):
    state: LaterHost | None = None  # pyright: ignore[reportIncompatibleVariableOverride]


def test_a_field_added_to_a_host_is_carried_without_another_line(engine: Engine):
    start = LaterHostInput(host_id="h1", state=LaterHost(added=(1,)))
    given_to: Any = as_carried(host_input(HostWorkflow(start), start, engine))
    assert (1,) == given_to.state.added


# --- accounts --------------------------------------------------------------------------------------------------------

AccountStep = Callable[[Any], object]
REQUESTS = st.builds(
    AccountActionRequest, actor=st.sampled_from(["ann", "ben"]), reason=st.text(max_size=9), pool=st.just("phones")
)


def sets(emulator: str, credentials: dict[str, str], note: str, request: AccountActionRequest) -> AccountStep:
    wanted = SetAccount(emulator=emulator, credentials=credentials, note=note, **dict(request))
    return lambda one: one.set(wanted)


def removes(request: AccountActionRequest) -> AccountStep:
    return lambda one: one.remove(request)


def stores(one: Any) -> None:
    one._store()


ACCOUNT_STEPS = st.one_of(
    st.builds(
        sets,
        st.sampled_from(["", "e1"]),
        st.sampled_from([{}, {"password": "env:SECRET"}]),
        st.text(max_size=9),
        REQUESTS,
    ),
    st.builds(removes, REQUESTS),
    st.just(delivers),
    st.just(stores),
)


def account_input(one: AccountWorkflow, engine: Engine) -> AccountInput | None:
    """What the next run of this account is given, as soon as everything is written and delivered. None: it ends."""
    engine.handed_over = None
    while one._outbox.ready():
        deliver(one._outbox)
    one._store()
    one._updates = one._start.continue_after
    asyncio.run(one.run())
    found: Any = engine.handed_over
    return found if isinstance(found, AccountInput) else None


@settings(max_examples=100, derandomize=True)
@given(steps=st.lists(ACCOUNT_STEPS, max_size=12))
def test_whatever_is_known_of_an_account_is_carried_to_its_next_run(engine: Engine, steps: list[AccountStep]):
    one = AccountWorkflow()
    for step in steps:
        step(one)
        assert one._state == as_carried(one._state)
    given_to = account_input(one, engine)
    assert one._state.removed is (given_to is None)
    if given_to is not None:
        again = AccountWorkflow(as_carried(given_to))
        assert one._state == again._state


class LaterAccount(AccountState):
    added: int = 0


class LaterAccountInput(AccountInput):
    state: LaterAccount | None = None  # pyright: ignore[reportIncompatibleVariableOverride]


def test_a_field_added_to_an_account_is_carried_without_another_line(engine: Engine):
    known = AccountWorkflow()._state
    start = LaterAccountInput(state=LaterAccount(**dict(known), added=7))
    given_to = account_input(AccountWorkflow(start), engine)
    assert given_to is not None
    later: Any = as_carried(given_to).state
    assert 7 == later.added


# --- runs of subscriptions -------------------------------------------------------------------------------------------

MOMENTS = st.integers(0, 10**6).map(lambda seconds: NOW + timedelta(seconds=seconds))
CATCH_UPS = st.builds(
    CatchUp,
    until=MOMENTS,
    missed=st.integers(0, 9),
    skipped=st.integers(0, 9),
    rows=st.lists(
        st.builds(
            Missed, MOMENTS, MOMENTS, st.integers(1, 9), st.text(max_size=9), st.lists(MOMENTS).map(tuple),
            st.booleans(),
        ),
        max_size=3,
    ).map(tuple),
)  # fmt: skip
SUBSCRIPTION = Subscription(
    id="daily",
    task=TaskSpec(type="sample"),
    cron="0 9 * * *",
    created_at=NOW,
    catch_up=CatchUp(until=NOW),
)
ENDS: list[BaseException | str] = [
    "completed",
    "failed",
    CancelledError(),
    TerminatedError("closed"),
    ApplicationError("no", {"state": "rejected"}),
    ApplicationError("no"),
]


class FakeTask:
    """The task of a run, as its parent sees it."""

    def __init__(self, end: BaseException | str) -> None:
        self._end = end

    def done(self) -> bool:
        return True

    def __await__(self) -> Iterator[Any]:
        yield from asyncio.sleep(0).__await__()
        if isinstance(self._end, str):
            return SimpleNamespace(state=self._end)
        error = ChildWorkflowError(
            "ended",
            namespace="default",
            workflow_id="t",
            run_id="r",
            workflow_type="Task",
            initiated_event_id=1,
            started_event_id=2,
            retry_state=None,
        )
        raise error from self._end


def run_of(engine: Engine, caught_up: CatchUp | None, end: BaseException | str, *, taken: int, stopped: bool) -> Any:
    """A whole run of a subscription, and each state that it showed on the way."""
    refused = iter(range(taken))

    async def start_task(task_id: str, *_: object) -> FakeTask:
        if next(refused, None) is not None:
            raise WorkflowAlreadyStartedError(task_id, "Task")
        return FakeTask(end)

    engine.caught_up, engine.memos, engine.suggests = caught_up, [], False
    one = SubscriptionRunWorkflow(SUBSCRIPTION)
    if stopped:
        one.cancel(OperatorRequest(actor="ann"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "start_task", start_task)
        asyncio.run(one._live())
    engine.suggests = True
    return one._state


@settings(max_examples=100, derandomize=True)
@given(st.none() | CATCH_UPS, st.sampled_from(ENDS), st.integers(0, 2), st.booleans())
def test_whatever_a_run_of_a_subscription_knows_reaches_the_next_one(
    engine: Engine, caught_up: CatchUp | None, end: BaseException | str, taken: int, stopped: bool
):
    engine.result_before = None
    state = run_of(engine, caught_up, end, taken=taken, stopped=stopped)
    engine.result_before = state.model_dump(mode="json")
    assert state == run_module._before()
    assert state == SubscriptionRunState.model_validate(engine.memos[-1]["subscription_run"])
    assert bool(state.task_id) is (not stopped and taken < 2)


def test_what_was_missed_so_far_is_kept_when_the_activity_fails(engine: Engine):
    engine.result_before = None
    known = CatchUp(until=NOW + timedelta(days=1), missed=3)
    engine.result_before = run_of(engine, known, "completed", taken=0, stopped=False).model_dump(mode="json")
    assert known == run_of(engine, None, "completed", taken=0, stopped=False).catch_up


def test_a_field_added_to_a_run_is_handed_over_without_another_line(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    class LaterRun(SubscriptionRunState):
        added: int = 7

    engine.result_before = None
    monkeypatch.setattr(run_module, "SubscriptionRunState", LaterRun)
    state = run_of(engine, CatchUp(until=NOW), "completed", taken=0, stopped=False)
    state.added = 8
    engine.result_before = state.model_dump(mode="json")
    before: Any = run_module._before()
    assert 8 == before.added
