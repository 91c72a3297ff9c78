"""Tasks of a workflow that nobody waits for any more."""

import asyncio
from typing import Any


def ignore(task: "asyncio.Task[Any]") -> None:
    """Read how this one ends, so that asyncio does not complain that nobody did."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
