"""Every timeout and retry policy of the workflows, named. No literal stands at a call site."""

from datetime import timedelta

from temporalio.common import RetryPolicy

ONCE = RetryPolicy(maximum_attempts=1)
"""The workflow alone decides what happens after a failure."""

PLANNING_RETRY = RetryPolicy(maximum_attempts=3, initial_interval=timedelta(milliseconds=200))
PLANNING_TIMEOUT = timedelta(seconds=20)

ENGINE_RETRY = RetryPolicy(initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=10))
"""Questions to the engine: repeated until it answers, within ENGINE_TOTAL."""
ENGINE_TIMEOUT = timedelta(seconds=20)
ENGINE_TOTAL = timedelta(minutes=10)

CANCEL_PATIENCE = timedelta(minutes=10)
"""After this a task that is to close as cancelled asks for it once more."""

PRESENCE_LIFE = timedelta(days=3650)
"""A presence activity lives as long as its worker; its heartbeats are what is watched."""
AWAIT_HEARTBEAT = timedelta(seconds=30)
PRESENCE_BACKOFF_S = 5.0
"""Between a presence that raised an error and the next try."""

DIRECT_TIMEOUT = timedelta(seconds=1)
"""For a message that is carried directly. After that it is sent as a signal, which needs nobody to be awake."""

CLEANUP_TOTAL = timedelta(hours=6)
CLEANUP_HEARTBEAT = timedelta(seconds=20)
CLEANUP_RETRY = RetryPolicy(
    maximum_attempts=20, initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1)
)
"""A cleanup goes on where it stopped; what twenty tries did not do waits for the next day."""
SWEEP_START = timedelta(seconds=30)
"""A host that takes nothing for so long is away."""

DELIVERY_TIMEOUT = timedelta(seconds=3)
DELIVERY_TOTAL = timedelta(seconds=30)
DELIVERY_RETRY = RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=2))
"""A worker that died with a batch is waited for no longer; what failed goes into a later batch."""

SENDING_BACKOFF_S = 1.0
CONTINUE_DRAIN_S = 5.0
CONTINUE_SUMMARY = "delivers what is left, then continues as new"
TICK_MIN_S = 0.2
STARTING_TIMEOUT = timedelta(seconds=2)
"""Of a workflow task: how long the engine waits for a worker that took it and died."""


def seconds(value: float) -> timedelta:
    """Seconds, as Temporal wants them."""
    return timedelta(seconds=value)
