"""Whatever hosts, accounts and tasks are told: what they hand to their next run has a limit."""

import logging
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from droidherd.contracts.accounts import SetAccount
from droidherd.contracts.fleet import EmulatorInput, HostInput, Join, Reports
from droidherd.contracts.tasks import Answer, OperatorRequest, RollbackRequest, TaskInput, TaskSpec
from droidherd.domain import messages as m
from droidherd.domain.fleet.emulator import Emulator, EmulatorAction, EmulatorRequest, EmulatorState
from droidherd.domain.messages import Health
from droidherd.domain.outbox import Outbox
from tests.protocol.boards import a_name
from workflows import account as account_module
from workflows import host as host_module
from workflows import inbound
from workflows.account import UNHEARD_MAX, AccountWorkflow
from workflows.host import EMULATORS_MAX, HostWorkflow
from workflows.task import loop as loop_module
from workflows.task import state as state_module
from workflows.task import workflow as task_module
from workflows.task.workflow import TaskWorkflow

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MANY = 10_000
STATE_BYTES = 1_500_000
"""Of a host with as many emulators as it may have. Everything else has less than a third of that."""


def ignore(*_: Any, **__: Any) -> None:
    """Nobody looks."""


class Engine:
    """What these workflows ask of Temporal outside of their loops."""

    def __init__(self) -> None:
        self.logger = logging.getLogger("test")
        self.logger.disabled = True

    def info(self) -> SimpleNamespace:
        return SimpleNamespace(
            workflow_id="account/42",
            run_id="r1",
            first_execution_run_id="r1",
            workflow_start_time=NOW,
            typed_search_attributes={},
        )

    def now(self) -> datetime:
        return NOW

    def __getattr__(self, name: str) -> Any:
        return ignore


@pytest.fixture(autouse=True, scope="module")
def engine() -> Iterator[None]:
    patch, engine = pytest.MonkeyPatch(), Engine()
    for module in (host_module, account_module, loop_module, state_module, task_module):
        patch.setattr(module, "workflow", engine)
    patch.setattr(inbound.workflow, "in_workflow", lambda: False)
    yield
    patch.undo()


class Stranger:
    """Texts as long and as random as they may be."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self, length: int) -> str:
        return (a_name(self.random) * (length // 64 + 1))[:length]

    def seen(self, number: int) -> m.Seen:
        return m.Seen(
            self.random.choice(["e1", a_name(self.random)]),
            self.random.choice(["h1", a_name(self.random)]),
            number,
            number,
            self.random.choice(list(Health)),
            self.text(1_000),
            self.text(1_000),
            self.text(1_000),
            tuple(self.text(200) for _ in range(self.random.randint(0, 9))),
            a_name(self.random),
            m.RecoveryPolicy(controller="virtual"),
            number,
        )

    def operator(self) -> OperatorRequest:
        return OperatorRequest(actor=self.text(1_000), reason=self.text(1_000))


def a_host() -> Any:
    """Its updates are plain methods here."""
    return HostWorkflow(HostInput(host_id="h1"))


def test_a_host_can_continue_as_new_after_anything() -> None:
    stranger, host = Stranger(1), a_host()
    host.join(Join(host_id="h1", incarnation=1, machine=stranger.text(1_000), worker=stranger.text(1_000)))
    for number in range(MANY):
        host.reports(Reports(incarnation=1, seen=(stranger.seen(number),)))
    assert len(host._state.last) <= EMULATORS_MAX
    assert len(host._state.model_dump_json()) < STATE_BYTES


def test_a_host_with_as_many_emulators_as_it_may_have_goes_on_watching_them() -> None:
    host = a_host()
    host.join(Join(host_id="h1", incarnation=1, machine="m", worker="w"))
    for number in range(EMULATORS_MAX + 9):
        host.reports(Reports(incarnation=1, seen=(m.Seen(f"e{number}", "h1", 1, 0, Health.GOOD, "b1"),)))
    host.reports(Reports(incarnation=1, seen=(m.Seen("e7", "h1", 1, 0, Health.DOWN),)))
    assert (EMULATORS_MAX, Health.DOWN) == (len(host._state.last), host._state.last["e7"].health)
    host.reports(Reports(incarnation=1, seen=(m.Seen("e7", "h1", 1, 0, Health.LEFT),)))
    host.reports(Reports(incarnation=1, seen=(m.Seen("late", "h1", 1, 0, Health.GOOD, "b1"),)))
    assert "late" in host._state.last


def test_an_emulator_can_continue_as_new_after_anything() -> None:
    stranger, one = Stranger(2), Emulator(EmulatorState("e1"))
    orders: list[Callable[[int], object]] = [
        lambda number: one.on_seen(stranger.seen(number), number),
        lambda number: one.on_reset(m.Reset(number)),
        lambda number: one.on_recall(m.Recall(number, voids=number), number),
        lambda number: one.on_switch(m.Switch(number % 2 == 0, number), number),
        lambda number: one.on_drain(on=number % 2 == 0, actor=stranger.text(1_000), reason=stranger.text(1_000)),
        lambda _: one.on_control(
            EmulatorRequest(stranger.random.choice(list(EmulatorAction)), stranger.text(1_000), stranger.text(1_000))
        ),
    ]
    for number in range(MANY):
        stranger.random.choice(orders)(number)
    assert len(EmulatorInput(emulator_id="e1", state=one.state).model_dump_json()) < STATE_BYTES // 3


def test_an_account_refuses_changes_that_its_audit_does_not_hear_of() -> None:
    stranger = Stranger(3)
    account: Any = AccountWorkflow()  # updates are plain methods here
    refused: list[str] = []
    for number in range(MANY):
        actor, reason, pool = stranger.text(1_000), stranger.text(1_000), a_name(stranger.random)
        change = SetAccount(note=f"{number} {stranger.text(900)}", actor=actor, reason=reason, pool=pool)
        try:
            account._check_set(change)
        except ApplicationError as error:
            refused.append(error.message)
        else:
            account.set(change)
    assert MANY - UNHEARD_MAX == len(refused)
    assert "has not heard of the last 100 changes" in refused[0]
    assert len(account._state.model_dump_json()) < STATE_BYTES // 3
    deliver(account._outbox)
    account._check_set(SetAccount())


def deliver(outbox: Outbox[Any]) -> None:
    for target in outbox.ready():
        outbox.launch(target)
        outbox.mark_delivered(target)


def test_a_task_can_continue_as_new_after_anything() -> None:
    stranger = Stranger(4)
    task = TaskWorkflow(TaskInput(spec=TaskSpec(type="sample", actor=stranger.text(1_000))))
    state, claim = task._state, task._state.claim
    claim.request(m.Enqueue(state.key(), 0, "anonymous", "sample"))

    def key() -> m.Key:
        return m.Key(state.task_id, state.run, stranger.random.randint(0, 3))

    def lease(number: int) -> m.Lease:
        return m.Lease(number, a_name(stranger.random), a_name(stranger.random), 2**53)

    kinds: list[Callable[[int], object]] = [
        lambda _: task.pause(stranger.operator()),
        lambda _: task.resume(stranger.operator()),
        lambda _: task.cancel(stranger.operator()),
        lambda _: task.rollback(RollbackRequest(actor=stranger.text(1_000))),
        lambda _: task.answer(Answer(choice=stranger.text(1_000))),
        lambda number: task.admitted(m.Admitted(key(), number, number, 1, 9.0, stranger.text(1_000))),
        lambda number: task.rejected(m.Rejected(key(), number, stranger.text(1_000), stranger.text(1_000))),
        lambda number: task.grant(m.Grant(key(), number, lease(number), number)),
        lambda number: task.revoked(m.Revoked(key(), number, m.RevokeReason.DOWN)),
        lambda number: task.recall(m.Recall(number, key(), seq=number)),
        lambda _: state.take_effect() if state.intent and state.status == "pending" else None,
    ]
    for number in range(MANY):
        stranger.random.choice(kinds)(number)
    assert len(state.model_dump_json()) < STATE_BYTES // 3
