"""A process for raw workflows, arranged like a worker of droidherd: one workflow worker, one slot per queue."""

import argparse
import asyncio
import contextlib
import os
import signal
from concurrent.futures import ThreadPoolExecutor

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

from bench.raw_workflows import RawChain, nothing
from workflows.guard import GuardedRunner

QUEUE = "raw"


def slot(number: int) -> str:
    return f"raw-slot-{number}"


async def serve(address: str, namespace: str, slots: int) -> None:
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    client = await Client.connect(address, namespace=namespace, data_converter=pydantic_data_converter)
    async with contextlib.AsyncExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(max_workers=slots))
        workflows = Worker(
            client,
            task_queue=QUEUE,
            workflows=[RawChain],
            workflow_runner=GuardedRunner(),
        )
        await stack.enter_async_context(workflows)
        for number in range(slots):
            one = Worker(
                client,
                task_queue=slot(number),
                activities=[nothing],
                activity_executor=threads,
                max_concurrent_activities=1,
                max_concurrent_activity_task_polls=1,
            )
            await stack.enter_async_context(one)
        await stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.raw_worker", description=__doc__)
    parser.add_argument("address")
    parser.add_argument("namespace")
    parser.add_argument("slots", type=int)
    options = parser.parse_args()
    asyncio.run(serve(options.address, options.namespace, options.slots))


if __name__ == "__main__":
    main()
    os._exit(0)  # orderly shutdown is behind us; the interpreter's own exit may abort
