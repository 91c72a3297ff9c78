"""What arrives together with something else, or too often: none of it is lost, and none of it wedges a run."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from droidherd.contracts.accounts import AccountInput, SetAccount
from droidherd.contracts.plan import Policy, TaskTiming
from droidherd.contracts.tasks import Answer, OperatorRequest
from droidherd.domain import messages as m
from droidherd.domain.outbox import Outbox
from droidherd.domain.task.claim import Claim, Want
from droidherd.domain.task.lifecycle import Intent, TaskStatus
from droidherd.domain.task.reaction import FailureCause
from tests.workflows.plays import lacks_key
from workflows.account import AccountWorkflow
from workflows.calls import MISSING_KEY
from workflows.delivery import Delivery
from workflows.task import workflow as task_workflow
from workflows.task.loop import TaskLoop
from workflows.task.running import LeaseRun, _Failed, _infrastructure


@pytest.fixture
def info(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a workflow knows of itself, outside of one."""
    known = SimpleNamespace(workflow_id="account/ann", typed_search_attributes={})
    monkeypatch.setattr(workflow, "info", lambda: known)
    monkeypatch.setattr(workflow, "now", lambda: datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.usefixtures("info")
def test_a_cancel_in_the_first_workflow_task_is_a_request_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK raises it where the loop yields to its deliveries; it must not end the workflow there."""
    asked: list[Intent] = []

    def ask_for(intent: Intent, _request: OperatorRequest) -> None:
        asked.append(intent)

    state: Any = SimpleNamespace(claim=SimpleNamespace(outbox=Outbox()), ask_for=ask_for)

    async def send(_self: Delivery) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(Delivery, "send", send)
    loop = TaskLoop(state)
    assert asyncio.run(loop.wait(lambda: True))
    assert loop.cancelled
    assert asked == [Intent.CANCEL]


@pytest.mark.usefixtures("info")
def test_setting_an_account_to_what_it_is_counts_towards_a_new_run() -> None:
    """Temporal takes 2000 updates per run, whether they change anything or not."""
    account: Any = AccountWorkflow(AccountInput(continue_after=3))
    request = SetAccount(note="same", actor="ann", pool="default")
    account.set(request)
    changed = account.view()
    for _ in range(2):
        account.set(request)
    assert account.view() is changed
    assert account._updates == 3


def test_a_pause_does_not_leave_an_answer_for_the_next_question() -> None:
    """Whoever answered first was told that it counts."""
    answer = Answer(choice="yes", actor="ann")
    taken: list[Answer] = []

    def go_on_with(given: Answer, *, later: bool) -> None:
        if later:
            taken.append(given)

    state: Any = SimpleNamespace(
        intent=Intent.PAUSE,
        answer=answer,
        patience_s=lambda: 1.0,
        take_answer=lambda: answer,
        go_on_with=go_on_with,
    )

    class Loop:
        def __init__(self) -> None:
            self.state = state

        async def wait(self, condition: Callable[[], bool], _seconds: float, _summary: str = "") -> bool:
            return condition()

    loop: Any = Loop()
    waiting: Any = task_workflow.STATES[TaskStatus.WAITING]
    asyncio.run(waiting(loop))
    assert taken == [answer]


def test_a_restart_that_was_answered_does_not_cut_later_pauses_short() -> None:
    """A worker that restarted once, and an emulator that needs a moment afterwards."""
    key = m.Key("t", "r", 1)
    claim = Claim("dispatcher/x", 1, want=Want.HOLDING, run="r", lease=m.Lease(5, "e", "h", 10**15, incarnation=1))
    claim.on_revoked(m.Revoked(key, 5, m.RevokeReason.RESTARTED, incarnation=2))
    at_once: list[bool] = []

    class Loop:
        state = SimpleNamespace(claim=claim, intent=Intent.NONE, the_plan=lambda: None)

        async def wait(self, condition: Callable[[], bool], _seconds: float, _summary: str = "") -> bool:
            at_once.append(condition())
            return at_once[-1]

    loop: Any = Loop()
    lease: Any = claim.lease
    jobs: Any = None
    run = LeaseRun(loop, lease, jobs)
    failed = _Failed(FailureCause.SILENT, _infrastructure("fell silent"))
    asyncio.run(run._before_again(failed))
    run._revoked_for()
    asyncio.run(run._before_again(failed))
    assert at_once == [True, False]


def ignores(_worker: str, _artifacts: object) -> None: ...


def test_a_worker_that_lacks_a_key_uses_up_no_move() -> None:
    loop: Any = SimpleNamespace(
        state=SimpleNamespace(
            claim=SimpleNamespace(lease=None, revoked=None), the_plan=lambda: None, note_report=ignores
        )
    )
    lease: Any = None
    jobs: Any = None
    run = LeaseRun(loop, lease, jobs)
    inside = run._reported_failure(lacks_key())
    outside = run._reported_failure(ApplicationError("no key", type=MISSING_KEY))
    assert (FailureCause.REVOKED, FailureCause.NOT_STARTED) == (inside.cause, outside.cause)
    assert (False, False) == (inside.counts, outside.counts)
    assert (False, True) == (inside.unserved, outside.unserved)
    assert (True, False) == (inside.returns, outside.returns), "what it did there is worth coming back to"


def test_what_counts_as_no_move_does_not_fail_who_has_none_left() -> None:
    plan = SimpleNamespace(policy=Policy())
    state = SimpleNamespace(moves=10, timing=TaskTiming(moves=10), attempt=1, first_attempt=1)
    state.claim, state.the_plan = None, lambda: plan
    loop: Any = SimpleNamespace(state=state)
    jobs: Any = None
    run = LeaseRun(loop, jobs, jobs)
    assert (0, 1) == (run._budget(counts=True).moves_left, run._budget(counts=False).moves_left)
