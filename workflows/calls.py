"""Activities and child workflows that a workflow calls: the only place that starts them and reads what they return.

Whoever reaches Temporal can complete or fail any activity that is open, with anything. The SDK decodes a result before
the workflow sees it. A result that it cannot decode fails the workflow task, which Temporal tries again for ever. So
results come in as they are, and are read here: one that cannot be read is a failed activity (`BAD_RESULT`), and goes
the way of any other failed activity.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any, Generic, TypeVar

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError, ChildWorkflowError, FailureError
from typing_extensions import Unpack

from droidherd.contracts import inbound
from droidherd.contracts.delivery import BatchResult, DispatcherAnswer
from droidherd.contracts.engine import Predecessor
from droidherd.contracts.fleet import GateResult, PresenceEnd, RecoveryResult
from droidherd.contracts.subscriptions import WaitingTask
from droidherd.domain.fleet.emulator import StandingOrders
from droidherd.domain.schedule.catchup import CatchUp
from workflows.handles import ignore
from workflows.inbound import encoding_of, locked_value, missing_key_of

R = TypeVar("R")
Handle = workflow.ActivityHandle[RawValue] | workflow.ChildWorkflowHandle[Any, RawValue]
BAD_RESULT = "BadResultError"
MISSING_KEY = "MissingKeyError"
"""The type of what a worker raises that cannot decrypt."""
MESSAGES: Mapping[type, int] = {DispatcherAnswer: inbound.MESSAGE_BYTES, PresenceEnd: inbound.START_BYTES}
"""Results that are messages: what holds for a signal holds for them, and this size in bytes."""
_SMALL = (BatchResult, CatchUp, GateResult, RecoveryResult, StandingOrders, WaitingTask, str)
SIZES: Mapping[type, int] = {Predecessor: 2 * inbound.START_BYTES, **dict.fromkeys(_SMALL, inbound.MESSAGE_BYTES)}
"""Bytes of a result, where these are not `START_BYTES`: a full queue has a snapshot of 1.5 MB."""


class Call(Generic[R]):
    """An activity or a child workflow that was started. A thin cover: it adds no task, and so changes no order."""

    def __init__(self, handle: Handle, name: str, returns: Any) -> None:
        """`returns`: the type of its result. None: nobody reads its result."""
        self._handle, self._name, self._returns = handle, name, returns

    def __await__(self) -> Generator[Any, None, R]:
        return self._read((yield from self._handle.__await__()))

    def done(self) -> bool:
        return self._handle.done()

    def result(self) -> R:
        """Of one that is done."""
        return self._read(self._handle.result())

    def cancel(self) -> None:
        self._handle.cancel()

    def drop(self) -> None:
        """Cancel it, and ignore how it ends."""
        self.ignore()
        self._handle.cancel()

    def ignore(self) -> None:
        """How it ends is nobody's business."""
        ignore(self._handle)

    def on_done(self, hear: "Callable[[Call[R]], object]") -> None:
        self._handle.add_done_callback(lambda _: hear(self))

    def _read(self, raw: Any) -> R:
        if self._returns is None:
            return raw
        payload = raw.payload if isinstance(raw, RawValue) else None
        if key := missing_key_of(payload):
            # Of a worker of ours that has the key: it is waited for, as for any input that was accepted.
            raise locked_value(f"the result of {self._name}", key)
        encoding, data = encoding_of(payload), payload.data if payload is not None else b""
        try:
            if self._returns in MESSAGES:
                limits = inbound.MessageLimits(MESSAGES[self._returns], int(workflow.time() * 1000))
                return inbound.read(self._returns, encoding, data, limits)
            return inbound.read_result(self._returns, encoding, data, SIZES.get(self._returns, inbound.START_BYTES))
        except inbound.UnreadableError as error:
            text = f"the result of {self._name} cannot be read, so nobody knows what it did: {error}"
            workflow.logger.error("%s", text)
            raise self._failed() from ApplicationError(text, type=BAD_RESULT, non_retryable=True)

    def _failed(self) -> FailureError:
        """As Temporal says that one failed."""
        text = f"{self._name} returned what cannot be read"
        if isinstance(self._handle, workflow.ChildWorkflowHandle):
            return ChildWorkflowError(
                text,
                namespace=workflow.info().namespace,
                workflow_id=self._handle.id,
                run_id=self._handle.first_execution_run_id or "",
                workflow_type=self._name,
                initiated_event_id=0,
                started_event_id=0,
                retry_state=None,
            )
        return ActivityError(
            text,
            scheduled_event_id=0,
            started_event_id=0,
            identity="",
            activity_type=self._name,
            activity_id="",
            retry_state=None,
        )


def lacks_key(error: BaseException | None) -> bool:
    """Whether an activity could not begin, or not go on, for a key that its worker does not have."""
    while error is not None:
        if isinstance(error, ApplicationError) and error.type == MISSING_KEY:
            return True
        error = error.__cause__
    return False


def start_activity(
    name: str, work: object, returns: type[R] | None, **options: Unpack[workflow.ActivityConfig]
) -> Call[R]:
    """`work`: its argument; None: it takes none."""
    args = [] if work is None else [work]
    return Call(workflow.start_activity(name, args=args, result_type=RawValue, **options), name, returns)


async def execute_activity(
    name: str, work: object, returns: type[R] | None, **options: Unpack[workflow.ActivityConfig]
) -> R:
    return await start_activity(name, work, returns, **options)


def start_local_activity(
    name: str, work: object, returns: type[R], **options: Unpack[workflow.LocalActivityConfig]
) -> Call[R]:
    return Call(workflow.start_local_activity(name, work, result_type=RawValue, **options), name, returns)


async def execute_local_activity(
    name: str, work: object, returns: type[R], **options: Unpack[workflow.LocalActivityConfig]
) -> R:
    return await start_local_activity(name, work, returns, **options)


async def start_child(
    name: str, start: object, returns: type[R] | None, **options: Unpack[workflow.ChildWorkflowConfig]
) -> Call[R]:
    """WorkflowAlreadyStartedError: there is, or was, one of this id."""
    return Call(await workflow.start_child_workflow(name, start, result_type=RawValue, **options), name, returns)
