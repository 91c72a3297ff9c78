"""The one loop of a task: whatever it waits for, it delivers messages and mirrors its state meanwhile.

Handlers, ends of activities and timers only change state. All commands come from here, or from whoever called `wait`,
in one order: first deliveries, then what the task goes on with; the mirror last, before it waits
(docs/adr/0042-one-loop-issues-commands.md).
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate

from droidherd.contracts import names
from droidherd.contracts.tasks import EventView, OperatorRequest
from droidherd.domain.task.lifecycle import FINAL, Intent, TaskStatus
from droidherd.domain.task.reaction import key_again_s
from workflows.delivery import Delivery
from workflows.handles import start_timer
from workflows.inbound import RESET_NOW
from workflows.task.state import TaskState

STATE = SearchAttributeKey.for_keyword(names.Attribute.TASK_STATE)
EMULATOR = SearchAttributeKey.for_keyword(names.Attribute.EMULATOR_ID)
TYPE = SearchAttributeKey.for_keyword(names.Attribute.TASK_TYPE)
ACCOUNT = SearchAttributeKey.for_keyword(names.Attribute.ACCOUNT_ID)
POOL = SearchAttributeKey.for_keyword(names.Attribute.POOL_ID)
LANE = SearchAttributeKey.for_keyword(names.Attribute.LANE)
TAGS = SearchAttributeKey.for_keyword_list(names.Attribute.TAGS)
SHOWN_EVENTS = 10
SAY_WHY = (
    TaskStatus.PENDING,
    TaskStatus.WAITING,
    TaskStatus.PAUSED,
    TaskStatus.RETRY_PENDING,
    TaskStatus.ROLLBACK_PENDING,
)


class TaskResetError(Exception):
    """Temporal reset the run to an earlier point: what it knows is not true any more, and it does nothing else."""


class ContinueAsNewError(Exception):
    """The history is long, and the task can go on in a new run."""


class TaskLoop:
    """Waits for a task. The one coroutine of its workflow calls it, and nobody else."""

    def __init__(self, state: TaskState) -> None:
        self.state = state
        self.cancelled = False
        """Temporal itself was asked to cancel the workflow."""
        self.may_continue = False
        """It holds nothing that a new run would not have: while it waits, it may continue as new."""
        self._was_reset = RESET_NOW.get()
        """Since before it began; later, `_hear_reset` says so."""
        self._delivery = Delivery(state.claim.outbox)
        if workflow.in_workflow():
            workflow.register_random_seed_callback(self._hear_reset)
        self.mirror = Mirror(state)

    async def wait(self, condition: Callable[[], bool], timeout_s: float = float("inf"), summary: str = "") -> bool:
        """Until the condition holds; False when the time is over before. A cancel of Temporal's becomes an intent.

        `summary`: what happens when the time is over, for the Web UI.
        Raises ContinueAsNewError, where the task allows that: whatever it waits for, others may send it messages.
        Raises TaskResetError, once for each reset.
        """
        timer = _Timer(timeout_s, summary)
        try:
            while True:
                self.check_reset()
                await self._deliver()
                if condition() or timer.is_over():
                    return condition()
                if self._must_continue():
                    raise ContinueAsNewError
                timer.start()
                self.mirror.show()
                await self._wake(lambda: condition() or timer.is_over() or self._is_due() or self._must_leave())
        finally:
            timer.stop()

    def _hear_reset(self, _seed: int) -> None:
        """Only a reset gives a run another seed. Called before anything else of the task runs."""
        self._was_reset = True

    def check_reset(self) -> None:
        """Raise TaskResetError after a reset. What the task still had to say was said, or is not true any more."""
        if not self._was_reset:
            return
        self._was_reset = False
        for target in list(self.state.claim.outbox.lines):
            self.state.claim.outbox.forget(target, lambda _: True)
        raise TaskResetError

    def _must_leave(self) -> bool:
        return self._was_reset or self._must_continue()

    def _must_continue(self) -> bool:
        return self.may_continue and self.is_history_long()

    def is_history_long(self) -> bool:
        """Whether it should go on in a new run: Temporal takes only so many messages for one."""
        return workflow.info().is_continue_as_new_suggested()

    async def idle(self, seconds: float, summary: str) -> bool:
        """Wait, durably; False when somebody wants something else meanwhile."""
        return not await self.wait(lambda: bool(self.state.intent), seconds, summary)

    async def wait_for_key(self) -> None:
        """A worker lacks a key: wait before it is tried again, or until somebody wants something else."""
        self.state.lacked_key += 1
        await self.idle(key_again_s(self.state.lacked_key), "waits for a key that is missing")

    async def drain(self) -> None:
        """Until everything is delivered and everybody who asked has an answer."""
        await self.wait(lambda: self._delivery.is_idle() and workflow.all_handlers_finished())

    def show_end(self) -> None:
        """Mirror the state as it is at the end, in the same workflow task as the end itself."""
        self.mirror.show(store=True)

    async def _wake(self, condition: Callable[[], bool]) -> None:
        try:
            await workflow.wait_condition(condition)
        except asyncio.CancelledError:
            self._hear_cancel()

    async def _deliver(self) -> None:
        for outcome in self._delivery.settle():
            if outcome.answer is not None:
                self.state.claim.hear(outcome.answer)
        try:
            await self._delivery.send()
        except asyncio.CancelledError:  # in its first workflow task: all is sent, `send` yields behind that
            self._hear_cancel()

    def _hear_cancel(self) -> None:
        self.cancelled = True
        self.state.ask_for(Intent.CANCEL, OperatorRequest(actor="temporal", reason="cancel requested in Temporal"))

    def _is_due(self) -> bool:
        return self._delivery.is_due() or self.mirror.is_due()


class _Timer:
    """Starts a durable timer when it is needed, and no sooner."""

    def __init__(self, seconds: float, summary: str) -> None:
        self._seconds, self._summary = seconds, summary
        self._over = seconds <= 0
        self._handle: asyncio.TimerHandle | None = None

    def is_over(self) -> bool:
        return self._over

    def start(self) -> None:
        if self._handle is None and self._seconds != float("inf"):
            self._handle = start_timer(self._seconds, self._end, self._summary)

    def stop(self) -> None:
        if self._handle is not None and not self._over:
            self._handle.cancel()

    def _end(self) -> None:
        self._over = True


class Mirror:
    """Shows a task's state: search attributes for lists, the memo for readers without a worker, details for the UI."""

    def __init__(self, state: TaskState) -> None:
        self._state = state
        known = workflow.info().typed_search_attributes.get(STATE, "")
        self._lists_know_it = bool(known)
        self._shown: tuple[object, ...] = (known, "")
        self._stored: tuple[object, ...] = ()

    def is_due(self) -> bool:
        """Whether `show` would issue a command."""
        return self._showable() != self._shown or self._must_store()

    def show(self, *, store: bool = False) -> None:
        """What changed since the last call; with `store` the memo in any case."""
        shown = self._showable()
        if shown != self._shown:
            updates: list[SearchAttributeUpdate[Any]] = [STATE.value_set(str(shown[0]))]
            if self._state.emulator:
                updates.append(EMULATOR.value_set(self._state.emulator))
            if not self._lists_know_it or self._state.ended_as is not None:
                updates.extend(_fixed_attributes(self._state))
            workflow.upsert_search_attributes(updates)
            self._shown, self._lists_know_it = shown, True
        if store or self._must_store():
            self._stored = self._storable()
            self.store()
        workflow.set_current_details(details(self._state))

    def store(self) -> None:
        """Into the memo: it survives a terminate."""
        view = self._state.view(events=False).model_dump(mode="json", exclude_defaults=True)
        workflow.upsert_memo({names.MEMO_TASK: view})

    def _showable(self) -> tuple[object, ...]:
        ended_as = self._state.ended_as
        return (ended_as.state if ended_as else self._state.status).value, self._state.emulator

    def _must_store(self) -> bool:
        state = self._state
        tells = bool(state.attempts or state.prioritized or self._why() or self._stored)
        return tells and self._storable() != self._stored

    def _why(self) -> str:
        """What it waits for: lists read it from the memo. Of those that are queued they ask the dispatcher."""
        return self._state.why if self._state.status in SAY_WHY else ""

    def _storable(self) -> tuple[object, ...]:
        """What must not be lost with a terminate, in short."""
        state = self._state
        outcome = state.attempts[-1].outcome if state.attempts else ""
        undone = sum(1 for one in state.undo if one.undone)
        known = state.attempt, len(state.attempts), outcome, len(state.undo), undone, state.prioritized, state.intent
        return *known, self._why(), state.questions, state.acted()


def _fixed_attributes(state: TaskState) -> list[SearchAttributeUpdate[Any]]:
    """Attributes that never change; another client may have started the task without them."""
    fixed: list[SearchAttributeUpdate[Any]] = [
        TYPE.value_set(state.type),
        POOL.value_set(state.pool),
        LANE.value_set(state.lane),
    ]
    if state.account:
        fixed.append(ACCOUNT.value_set(state.account))
    if tags := [*state.spec.tags(state.task_id), *([names.RERUN_TAG] if state.is_rerun else [])]:
        fixed.append(TAGS.value_set(tags))
    return fixed


def details(state: TaskState) -> str:
    """In Markdown, for the Temporal Web UI."""
    who = f" for account {state.account}" if state.account else ""
    where = f" on emulator {state.emulator}" if state.emulator else ""
    parts = [f"**{state.status}**: {state.type}{who}, attempt {state.attempt}{where}"]
    if state.why:
        parts.append(state.why if state.status in FINAL else f"waits: {state.why}")
    if state.intent:
        reason = f": {state.requested.reason}" if state.requested.reason else ""
        parts.append(f"{state.intent} asked for by {state.requested.actor}{reason}")
    if state.error:
        remedy = f" ({state.error.remedy})" if state.error.remedy else ""
        parts.append(f"{state.error.kind}: {state.error.message}{remedy}")
    deadlines = {
        "not before": state.not_before,
        "next attempt": state.retry_at,
        "expires": state.expires_at,
        "the question runs out": state.question.until if state.question else None,
        f"waits for emulator {state.home()} until": state.home_until,
    }
    dates = {"submitted": state.created_at, **(deadlines if state.status not in FINAL else {})}
    parts.append("\n".join(f"- {name}: {shown(moment)}" for name, moment in dates.items() if moment))
    if state.stages:
        parts.append("\n".join(f"- stage {stage.name}: {stage.state}" for stage in state.stages))
    parts.append("\n".join(f"- {_line(event)}" for event in state.events[-SHOWN_EVENTS:]))
    return "\n\n".join(parts)


def _line(event: EventView) -> str:
    moved = f"{event.before} → {event.after}" if event.before != event.after else event.event
    return f"{shown(event.at)}: {moved}, by {event.actor}{': ' if event.reason else ''}{event.reason}"


def shown(moment: datetime) -> str:
    """A time in the Web UI, which shows this text as it is, to people of all time zones."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def until_s(moment: datetime | None, *, far: float = 0.0) -> float:
    """Seconds from now; `far` when no moment was named."""
    return far if moment is None else (moment - workflow.now()) / timedelta(seconds=1)
