# ruff: noqa: INP001 - a program to hand on
"""A cold worker, an update, and a workflow task without commands before it: no replay fits the history.

python docs/upstream/cold_update.py PATH_OF_THE_TEMPORAL_CLI [RUNS]
"""

import asyncio
import sys
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer, Worker


@activity.defn
async def post(number: int) -> int:
    await asyncio.sleep(0.6)
    return number


@workflow.defn
class Sender:
    """Two coroutines issue commands: one delivers, one keeps time."""

    def __init__(self) -> None:
        self.outbox = 0

    @workflow.run
    async def run(self) -> None:
        await asyncio.gather(self.deliver(), self.keep_time())

    async def deliver(self) -> None:
        while True:
            await workflow.wait_condition(lambda: self.outbox > 0)
            number, self.outbox = self.outbox, 0
            await workflow.execute_activity(post, number, start_to_close_timeout=timedelta(seconds=5))

    async def keep_time(self) -> None:
        while True:
            await workflow.sleep(3)

    @workflow.update
    def order(self) -> int:
        self.outbox += 1
        return self.outbox

    @workflow.signal
    def nothing(self) -> None: ...

    @workflow.signal
    def put(self) -> None:
        self.outbox += 1


async def main(cli: str, runs: int) -> int:
    """How many of so many histories cannot be replayed."""
    async with await WorkflowEnvironment.start_local(dev_server_existing_path=cli) as env:
        client, stick = env.client, timedelta(seconds=1)

        def worker() -> Worker:
            return Worker(
                client, task_queue="q", workflows=[Sender], activities=[post],
                sticky_queue_schedule_to_start_timeout=stick,
            )  # fmt: skip

        async with worker():
            started = [
                await client.start_workflow(Sender.run, id=f"s{n}", task_queue="q", task_timeout=timedelta(seconds=2))
                for n in range(runs)
            ]
            await asyncio.sleep(1.5)
            for handle in started:
                await handle.signal(Sender.put)  # an activity runs and ends: its workflow task gives no command
            await asyncio.sleep(0.2)
            for handle in started:
                await handle.signal(Sender.nothing)  # a workflow task without a command while the activity runs
            await asyncio.sleep(0.8)
        updates = [asyncio.create_task(handle.execute_update(Sender.order)) for handle in started]  # nobody serves
        await asyncio.sleep(2.5)  # the timer fires meanwhile
        async with worker():
            await asyncio.gather(*updates)
            await asyncio.sleep(1.0)
        replayer = Replayer(workflows=[Sender])
        results = [
            await replayer.replay_workflow(await handle.fetch_history(), raise_on_replay_failure=False)
            for handle in started
        ]
        return sum(1 for one in results if one.replay_failure is not None)


if __name__ == "__main__":
    RUNS = int(sys.argv[2]) if sys.argv[2:] else 20
    sys.stdout.write(f"{asyncio.run(main(sys.argv[1], RUNS))} of {RUNS} histories cannot be replayed\n")
