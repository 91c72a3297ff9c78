"""What Temporal itself costs: workflows that do nothing but run activities that do nothing."""

import time
from datetime import timedelta

from pydantic import BaseModel
from temporalio import activity, workflow
from temporalio.common import RetryPolicy

LIMIT = timedelta(seconds=60)
ONCE = RetryPolicy(maximum_attempts=1)


class Nothing(BaseModel):
    """What the activity gets: where, and how long it keeps its slot."""

    busy_s: float = 0.0


class Span(BaseModel):
    """When an activity's body began and ended, by the clock of its process."""

    began_s: float
    ended_s: float


class Chain(BaseModel):
    """So many activities one after the other, on one queue."""

    queue: str
    count: int = 1
    busy_s: float = 0.0


@activity.defn(name="raw_nothing", no_thread_cancel_exception=True)
def nothing(work: Nothing) -> Span:
    """In a thread, like the stages of tasks."""
    began_s = time.monotonic()
    if work.busy_s:
        time.sleep(work.busy_s)
    return Span(began_s=began_s, ended_s=time.monotonic())


@workflow.defn(name="RawChain")
class RawChain:
    """The least that does durably what a task does."""

    @workflow.run
    async def run(self, chain: Chain) -> list[Span]:
        return [
            await workflow.execute_activity(
                nothing,
                Nothing(busy_s=chain.busy_s),
                task_queue=chain.queue,
                start_to_close_timeout=LIMIT,
                retry_policy=ONCE,
            )
            for _ in range(chain.count)
        ]
