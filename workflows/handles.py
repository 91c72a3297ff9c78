"""Timers with a summary, and tasks of a workflow that nobody waits for any more."""

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

from temporalio import workflow
from temporalio.api.sdk.v1 import UserMetadata
from temporalio.worker._workflow_instance import _TimerOptions, _TimerOptionsCtxVar


def start_timer(delay_s: float, ring: Callable[[], object], summary: str) -> asyncio.TimerHandle:
    """A durable timer whose summary the Web UI shows. It starts at once, as `call_later` does.

    `workflow.sleep` has a summary, too, but starts its timer only when its coroutine gets its turn, behind other
    commands. The SDK gives `call_later` no argument for a summary: it reads this context variable.
    """
    summary_payload = workflow.payload_converter().to_payload(summary)
    outside, inside = contextvars.copy_context(), contextvars.copy_context()
    inside.run(_TimerOptionsCtxVar.set, _TimerOptions(user_metadata=UserMetadata(summary=summary_payload)))
    loop = asyncio.get_running_loop()
    return inside.run(lambda: loop.call_later(delay_s, ring, context=outside))


def ignore(task: "asyncio.Task[Any]") -> None:
    """Read how this one ends, so that asyncio does not complain that nobody did."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
