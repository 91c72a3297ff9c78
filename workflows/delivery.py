"""Delivers a workflow's messages: at most one in flight per target, kept in the outbox until it arrived.

A workflow has one loop that issues its commands (docs/adr/0042-one-loop-issues-commands.md):

    while ...:
        await workflow.wait_condition(lambda: delivery.is_due() or ...)
        await delivery.send()    # first what messages made possible
        ...                      # then what time made possible
"""

import asyncio
import dataclasses
import functools
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError, WorkflowAlreadyStartedError

from droidherd.contracts import names
from droidherd.contracts.delivery import (
    AskDispatcher,
    Batch,
    BatchResult,
    DeliveryResult,
    DispatcherAnswer,
    Envelope,
)
from droidherd.contracts.fleet import EmulatorInput
from droidherd.contracts.queue import DispatcherInput
from droidherd.domain import messages as m
from droidherd.domain.outbox import Outbox
from workflows import calls, options
from workflows.handles import start_timer

NOT_FOUND = "ExternalWorkflowExecutionNotFound"
BATCH_LIMIT = 200
SUMMARIZED = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one message."""

    target: str
    message: Any
    result: DeliveryResult
    answer: m.FromDispatcher | None = None
    """Of a question that was asked directly."""


class Delivery:
    """Sends what waits in an outbox. What ends in between only changes state, until the loop calls again.

    A task asks its dispatcher directly and says its last word so too: two messages that need not wait until Temporal
    has written down that they are sent (docs/adr/0019-two-messages-go-directly.md). Everything else leaves only
    together with the decision behind it: as a signal of the workflow's own, or, for a workflow that speaks to many, in
    one batch at a time.
    """

    def __init__(self, outbox: Outbox[Any], *, batched: bool = False) -> None:
        self._outbox = outbox
        self._batched = batched
        self._batch_in_flight = False
        self._ended: list[asyncio.Task[list[Outcome]]] = []
        self._failed: list[str] = []
        """Targets to try again after a moment."""
        self._missing: list[str] = []
        """Targets to start before trying again."""
        self._by_signal: set[str] = set()
        """Targets that could not be reached directly."""

    def is_idle(self) -> bool:
        """Nothing waits and nothing is in flight."""
        return not self._outbox

    def is_due(self) -> bool:
        """Whether `send` has something to do."""
        if self._ended or self._failed or self._missing:
            return True
        return not self._batch_in_flight and bool(self._outbox.ready())

    def settle(self) -> list[Outcome]:
        """Take note of what ended since the last call; returns what arrived, or found nobody and is dropped."""
        ended = self._ended.copy()
        self._ended.clear()
        return [outcome for task in ended for outcome in task.result() if self._is_over(outcome)]

    async def send(self) -> None:
        """Issue the commands for everything that is ready. Waits for none of them."""
        self.settle()
        missing, self._missing = self._missing, []
        for target in missing:
            self._begin(self._start(target))
        failed, self._failed = self._failed, []
        for target in failed:
            again = functools.partial(self._outbox.mark_failed, target)
            start_timer(options.SENDING_BACKOFF_S, again, f"sends to {target} again")
        if not self._batched:
            for target in self._outbox.ready():
                self._begin(self._send_one(target, self._outbox.launch(target)))
        elif not self._batch_in_flight and (ready := self._outbox.ready()[:BATCH_LIMIT]):
            self._batch_in_flight = True
            self._begin(self._send_batch([(target, self._outbox.launch(target)) for target in ready]))
        await asyncio.sleep(0)  # their commands stand before whatever the loop does next

    async def drain(self) -> None:
        """Deliver what waits, for a moment, before the workflow continues as new. What is left goes with its state."""
        if self.is_idle():
            return
        late = asyncio.Event()
        timer = start_timer(options.CONTINUE_DRAIN_S, late.set, options.CONTINUE_SUMMARY)
        while not self.is_idle() and not late.is_set():
            await self.send()
            await workflow.wait_condition(lambda: self.is_due() or self.is_idle() or late.is_set())
        timer.cancel()
        if not self.is_idle():
            workflow.logger.warning("continuing with %d messages undelivered", len(self._outbox))

    def _begin(self, work: Coroutine[Any, Any, list[Outcome]]) -> None:
        asyncio.create_task(work).add_done_callback(self._ended.append)

    def _is_over(self, outcome: Outcome) -> bool:
        target = outcome.target
        if outcome.result is DeliveryResult.NOT_FOUND and _can_be_started(target):
            self._missing.append(target)
        elif outcome.result is DeliveryResult.FAILED and _goes_directly(outcome.message) and self._no_signal(target):
            self._by_signal.add(target)
            self._outbox.mark_failed(target)
        elif outcome.result is DeliveryResult.FAILED:
            self._failed.append(target)
        else:
            self._by_signal.discard(target)
            self._outbox.mark_delivered(target)
            return True
        return False

    def _no_signal(self, target: str) -> bool:
        return target not in self._by_signal

    # --- ways -------------------------------------------------------------------------------------------------

    async def _send_one(self, target: str, message: Any) -> list[Outcome]:
        if isinstance(message, m.Enqueue) and self._no_signal(target):
            return [await _ask(target, message)]
        if _goes_directly(message) and self._no_signal(target):
            return [await _tell(target, message)]
        return [await _signal(target, message)]

    async def _send_batch(self, messages: list[tuple[str, Any]]) -> list[Outcome]:
        batch = Batch(envelopes=tuple(_envelope(target, message) for target, message in messages))
        try:
            answer = await calls.execute_activity(
                "deliver",
                batch,
                BatchResult,
                start_to_close_timeout=options.DELIVERY_TIMEOUT,
                schedule_to_close_timeout=options.DELIVERY_TOTAL,
                retry_policy=options.DELIVERY_RETRY,
                cancellation_type=workflow.ActivityCancellationType.ABANDON,
                summary=_describe(batch.envelopes),
            )
        except FailureError as error:
            workflow.logger.warning("%d messages could not be delivered: %s", len(messages), error.__cause__ or error)
            answer = None
        results = _results(answer, len(messages))
        self._batch_in_flight = False
        return [Outcome(*sent, result) for sent, result in zip(messages, results, strict=True)]

    async def _start(self, target: str) -> list[Outcome]:
        await start_missing(target)
        self._outbox.mark_failed(target)
        return []


def _goes_directly(message: object) -> bool:
    return isinstance(message, m.Enqueue) or (isinstance(message, m.Done) and message.final)


def _envelope(target: str, message: Any) -> Envelope:
    return Envelope(target=target, signal=names.signal_of(message), message=dataclasses.asdict(message))


def _results(answer: BatchResult | None, count: int) -> tuple[DeliveryResult, ...]:
    """One for each message. Who answers for another number of messages did not deliver ours."""
    if answer is None or len(answer.results) != count:
        return (DeliveryResult.FAILED,) * count
    return answer.results


def _describe(envelopes: Sequence[Envelope]) -> str:
    """Which messages go where, in one line. Temporal takes no summary of more than 400 bytes."""
    first = ", ".join(f"{one.signal} to {one.target}" for one in envelopes[:SUMMARIZED])
    more = len(envelopes) - SUMMARIZED
    return f"{first} and {more} more" if more > 0 else first


async def _ask(target: str, message: m.Enqueue) -> Outcome:
    """A question that Temporal then does not remember is one more place in line, given back when its turn comes."""
    try:
        answer = await calls.execute_local_activity(
            "ask_dispatcher",
            AskDispatcher(dispatcher=target, message=message),
            DispatcherAnswer,
            start_to_close_timeout=options.DIRECT_TIMEOUT,
            retry_policy=options.ONCE,
            summary=f"asks {target} for an emulator",
        )
    except FailureError as error:  # as an ActivityError the first time, and unwrapped when it is replayed
        workflow.logger.debug("%s is asked by a signal: %s", target, error)
        return Outcome(target, message, DeliveryResult.FAILED)
    return Outcome(target, message, DeliveryResult.DELIVERED, answer.message)


async def _tell(target: str, message: object) -> Outcome:
    """A last word would be said again, whatever else arrives."""
    try:
        answer = await calls.execute_local_activity(
            "deliver",
            Batch(envelopes=(_envelope(target, message),)),
            BatchResult,
            start_to_close_timeout=options.DIRECT_TIMEOUT,
            retry_policy=options.ONCE,
            summary=f"tells {target} that it ended",
        )
    except FailureError as error:
        workflow.logger.debug("%s is told by a signal: %s", target, error)
        return Outcome(target, message, DeliveryResult.FAILED)
    return Outcome(target, message, _results(answer, 1)[0])


async def _signal(target: str, message: object) -> Outcome:
    try:
        await workflow.get_external_workflow_handle(target).signal(names.signal_of(message), message)
    except ApplicationError as error:
        if error.type == NOT_FOUND:
            return Outcome(target, message, DeliveryResult.NOT_FOUND)
        workflow.logger.warning("sending to %s failed: %s", target, error)
        return Outcome(target, message, DeliveryResult.FAILED)
    return Outcome(target, message, DeliveryResult.DELIVERED)


def _can_be_started(target: str) -> bool:
    return target.startswith((names.dispatcher_id(""), names.emulator_id("")))


async def start_missing(target: str) -> None:
    """Start the dispatcher or emulator that is not there, as an abandoned child; when several try, one wins."""
    kind, _, name = target.partition("/")
    if kind == "dispatcher":
        child, start = names.Workflow.DISPATCHER, DispatcherInput(pool=name)
    else:
        child, start = names.Workflow.EMULATOR, EmulatorInput(emulator_id=name)
    try:
        started = await calls.start_child(
            child.value,
            start,
            None,
            id=target,
            task_queue=names.FLEET_QUEUE,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            task_timeout=options.STARTING_TIMEOUT,
            static_summary=f"{kind} {name}",
        )
    except WorkflowAlreadyStartedError:
        workflow.logger.debug("%s was started by somebody else", target)
    else:
        started.ignore()
