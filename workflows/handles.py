"""Work nobody waits for any more."""

import asyncio
from collections.abc import Callable
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception


def ignore(task: "asyncio.Task[Any]") -> None:
    """Whatever this one says later is of no interest; it is read, so that nobody complains that it was not."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())


class LoopEndedError(RuntimeError):
    """A loop that should run as long as its workflow ended. Fails the workflow task: visible, and tried again."""


async def unless_ended(condition: Callable[[], bool], *loops: "asyncio.Task[None]") -> None:
    """Wait, unless a loop ends before: a workflow that hears and never speaks would look alive."""
    await workflow.wait_condition(lambda: condition() or any(loop.done() for loop in loops))
    for loop in loops:
        if loop.done():
            raise LoopEndedError("a loop of this workflow ended") from (None if loop.cancelled() else loop.exception())


def unless_cancelled(error: ActivityError) -> None:
    """A loop that was cancelled ends: whatever it asked for next would stand behind the continue-as-new."""
    if is_cancelled_exception(error):
        raise asyncio.CancelledError from error
