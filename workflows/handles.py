"""Activities nobody waits for any more."""

from typing import Any

from temporalio import workflow


def ignore(handle: "workflow.ActivityHandle[Any]") -> None:
    """Whatever this one says later is of no interest; it is read, so that nobody complains that it was not."""
    handle.add_done_callback(lambda done: done.cancelled() or done.exception())
