"""Work nobody waits for any more."""

import asyncio
from typing import Any


def ignore(task: "asyncio.Task[Any]") -> None:
    """Whatever this one says later is of no interest; it is read, so that nobody complains that it was not."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
