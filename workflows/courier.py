"""Carries a machine's messages: at most one in flight per target, kept until delivered."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts import names
    from droidherd.contracts.fleet import EmulatorInput
    from droidherd.contracts.queue import DispatcherInput
    from droidherd.domain.outbox import Outbox
    from workflows import options
    from workflows.handles import ignore, unless_ended

GONE = "ExternalWorkflowExecutionNotFound"


async def _not_directly(target: str, message: object) -> bool:  # noqa: ARG001 - the shape of what carries
    return False


def called(message: object) -> str:
    """The signal that carries this kind of message."""
    return type(message).__name__.lower()


class Courier:
    """One loop sends; handlers only put into the outbox."""

    def __init__(
        self,
        outbox: Outbox[Any],
        directly: Callable[[str, Any], Awaitable[bool]] = _not_directly,
    ) -> None:
        """`directly(target, message)` may carry a message its own way; False: it goes as a signal."""
        self._outbox = outbox
        self._directly = directly
        self._broken: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Send whatever is ready, for as long as the workflow lives."""
        while True:
            await unless_ended(lambda: bool(self._outbox.ready()), *self._broken)
            for target in self._outbox.ready():
                sending = asyncio.create_task(self._send(target, self._outbox.launch(target)))
                sending.add_done_callback(self._check)

    def _check(self, sent: "asyncio.Task[None]") -> None:
        if not sent.cancelled() and sent.exception() is not None:
            self._broken.append(sent)

    def idle(self) -> bool:
        """Nothing waits and nothing flies."""
        return not self._outbox

    async def _send(self, target: str, message: Any) -> None:
        try:
            if not await self._directly(target, message):
                handle = workflow.get_external_workflow_handle(target)
                await handle.signal(called(message), message)
        except ApplicationError as error:
            if error.type != GONE:
                workflow.logger.warning("sending to %s failed: %s", target, error)
                await workflow.sleep(options.SENDING_BACKOFF_S)
                self._outbox.failed(target)
            else:
                await start_missing(target)
                self._outbox.failed(target)
        else:
            self._outbox.delivered(target)


async def start_missing(target: str) -> None:
    """Start the dispatcher or emulator that is not there, as an abandoned child; when several try, one wins."""
    kind, _, name = target.partition("/")
    if kind == "dispatcher":
        child, start = names.Workflow.DISPATCHER, DispatcherInput(pool=name)
    else:
        child, start = names.Workflow.EMULATOR, EmulatorInput(emulator_id=name)
    try:
        started = await workflow.start_child_workflow(
            child,
            start,
            id=target,
            task_queue=names.FLEET_QUEUE,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            task_timeout=options.STARTING_TIMEOUT,
            static_summary=f"{kind} {name}",
        )
    except WorkflowAlreadyStartedError:
        workflow.logger.debug("%s was started by somebody else", target)
    else:
        ignore(started)  # how it ends is nobody's business here
