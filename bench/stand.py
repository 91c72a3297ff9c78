"""Where the end-to-end numbers are taken: a real engine on a file, virtual emulators, a worker, the API, raw workers.

Both sides of a ratio run on the same server, in turns. Nothing is measured while something else of ours runs.
"""

import asyncio
import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError

from bench.processes import Program, cpu_s
from bench.raw_worker import QUEUE as RAW_QUEUE
from bench.raw_worker import slot
from bench.raw_workflows import Chain, RawChain, Span
from droidherd.cli.local import ports
from droidherd.cli.local.embedded import EmbeddedTemporal
from droidherd.contracts import names
from droidherd.contracts.queue import (
    CommandResult,
    DispatcherInput,
    EmulatorsPage,
    OperatorCommand,
    QueuePage,
    QueueQuery,
)
from droidherd.contracts.tasks import TaskInput, TaskSpec
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.virtual.process import VirtualFleet

ROOT = Path(__file__).resolve().parents[1]
POOL = "default"
LIMIT_S = 240.0
POLL_S = 1.0
CLIENTS = 32
"""How many submissions are on their way at once, raw or ours."""


@dataclass
class Stand:
    """Everything, started."""

    data: Path
    engine: EmbeddedTemporal
    worker: Program
    api: Program
    raw: Program
    url: str
    emulators: list[str]
    client: Client

    def used_s(self) -> dict[str, float]:
        """Processor time so far, of every process that takes part in a task."""
        pids = {"server": self.engine.pid, "worker": self.worker.pid, "api": self.api.pid, "raw": self.raw.pid}
        return {name: cpu_s(pid) for name, pid in pids.items()}

    # --- ours -------------------------------------------------------------------------------------------------

    async def start_tasks(self, prefix: str, count: int, kind: str) -> None:
        """As a foreign client would: start workflows, nothing else."""

        async def one(number: int) -> None:
            await self.client.start_workflow(
                names.Workflow.TASK.value,
                TaskInput(spec=TaskSpec(type=kind)),
                id=f"{prefix}-{number:04}",
                task_queue=names.QUEUE,
            )

        await at_once(one, count)

    async def post_tasks(self, prefix: str, count: int, kind: str) -> None:
        """As people do: through the API."""
        limits = httpx.Limits(max_connections=CLIENTS)
        async with httpx.AsyncClient(base_url=self.url, timeout=60, limits=limits) as http:

            async def one(number: int) -> None:
                answer = await http.post("/api/tasks", json={"type": kind, "id": f"{prefix}-{number:04}"})
                if answer.status_code not in (201, 202):
                    raise RuntimeError(f"submission answered {answer.status_code}: {answer.text[:300]}")

            await at_once(one, count)

    def dispatcher(self, run_id: str | None = None) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(names.dispatcher_id(POOL), run_id=run_id)

    async def order(self, update: names.Update) -> None:
        await self.dispatcher().execute_update(update.value, OperatorCommand(actor="bench"), result_type=CommandResult)

    async def queue(self) -> QueuePage:
        return await self.dispatcher().query(names.Query.QUEUE.value, QueueQuery(limit=1), result_type=QueuePage)

    async def waiting(self, count: int) -> None:
        async def there() -> bool:
            return (await self.queue()).waiting >= count

        await until(there, f"{count} tasks to wait in line")

    async def emulators_up(self) -> None:
        async def up() -> bool:
            page = await self.dispatcher().query(names.Query.EMULATORS.value, result_type=EmulatorsPage)
            return [one.state for one in page.emulators].count("up") == len(self.emulators)

        await until(up, "all emulators to be up")

    # --- raw --------------------------------------------------------------------------------------------------

    async def start_raw(self, prefix: str, count: int) -> None:
        async def one(number: int) -> None:
            await self.client.start_workflow(
                RawChain.run,
                Chain(queue=slot(number % len(self.emulators))),
                id=f"{prefix}-{number:04}",
                task_queue=RAW_QUEUE,
            )

        await at_once(one, count)

    async def raw_gaps_ms(self, name: str, count: int, *, busy_s: float = 0.0, side_by_side: int = 1) -> list[float]:
        """Between the end of one activity's body and the begin of the next one's, in one workflow."""

        async def chain(number: int) -> list[Span]:
            work = Chain(queue=slot(number), count=count, busy_s=busy_s)
            return await self.client.execute_workflow(RawChain.run, work, id=f"{name}-{number}", task_queue=RAW_QUEUE)

        chains = await asyncio.gather(*map(chain, range(side_by_side)))
        return [
            1000 * (after.began_s - before.ended_s) for spans in chains for before, after in itertools.pairwise(spans)
        ]

    # --- both -------------------------------------------------------------------------------------------------

    async def all_ended(self, prefix: str, count: int, watch: Callable[[float], None]) -> datetime:
        """Wait until all completed; return when the last one did, by the server's clock. Asks seldom."""
        mine = f"WorkflowId STARTS_WITH '{prefix}-'"

        async def ended() -> bool:
            completed = (await self.client.count_workflows(f"{mine} AND ExecutionStatus = 'Completed'")).count
            watch(completed / count)
            return completed >= count

        await until(ended, f"{count} workflows {prefix}-* to complete", every_s=POLL_S)
        moments = [one.close_time async for one in self.client.list_workflows(mine, page_size=1000)]
        return max(moment for moment in moments if moment is not None)


async def at_once(one: Callable[[int], Awaitable[None]], count: int) -> None:
    """So many, CLIENTS of them at a time."""
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            await one(number)

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


async def until(ask: Callable[[], Awaitable[bool]], what: str, limit_s: float = LIMIT_S, every_s: float = 0.1) -> None:
    deadline_s = time.monotonic() + limit_s
    last: object = "the answer was no"
    while time.monotonic() < deadline_s:
        try:
            if await ask():
                return
        except (RPCError, httpx.TransportError) as error:
            last = error
        await asyncio.sleep(every_s)
    raise TimeoutError(f"waited {limit_s:g} s for {what}; last: {last}")


@contextlib.asynccontextmanager
async def stand(data: Path, count: int) -> AsyncGenerator[Stand]:
    """With `count` emulators, all of them up."""
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(EmbeddedTemporal.start(data / "temporal"))
        fleet = stack.enter_context(VirtualFleet.start(count=count, state=data / "virtual"))
        inventory = [
            InventoryEntry(emulator_id=one, address=address, controller="virtual")
            for one, address in fleet.addresses.items()
        ]
        Inventory(data).add(*inventory)
        port = ports.free()
        environment = _environment(data, engine, port)
        worker = Program("worker", [sys.executable, str(ROOT / "worker_main.py"), "run"], environment, data / "w.log")
        api = Program("api", [sys.executable, "-m", "api"], environment, data / "api.log")
        slots = [engine.address, engine.profile.namespace, str(count)]
        raw = Program("raw", [sys.executable, "-m", "bench.raw_worker", *slots], environment, data / "raw.log")
        client = await Client.connect(
            engine.address, namespace=engine.profile.namespace, data_converter=pydantic_data_converter
        )
        for program in (worker, api, raw):
            program.start()
            stack.callback(program.stop)
        url = f"http://127.0.0.1:{port}"
        known = [one.emulator_id for one in inventory]
        made = Stand(data, engine, worker, api, raw, url, known, client)
        await _ready(made)
        yield made


async def _ready(made: Stand) -> None:
    await made.client.start_workflow(
        names.Workflow.DISPATCHER.value,
        DispatcherInput(pool=POOL),
        id=names.dispatcher_id(POOL),
        task_queue=names.FLEET_QUEUE,
        start_signal=names.Signal.WAKE.value,
    )
    await made.emulators_up()

    async def api_answers() -> bool:
        async with httpx.AsyncClient(base_url=made.url, timeout=5) as http:
            return (await http.get("/readyz")).status_code == 200

    await until(api_answers, "the API to answer")
    await made.raw_gaps_ms("raw-first", 3)


def _environment(data: Path, engine: EmbeddedTemporal, port: int) -> dict[str, str]:
    return {
        **os.environ,
        "DROIDHERD_DATA": str(data),
        "DROIDHERD_CONFIG": str(data / "none.toml"),
        "DROIDHERD_TEMPORAL__ADDRESS": engine.address,
        "DROIDHERD_ADB__PORT": "0",
        "DROIDHERD_API__PORT": str(port),
        "DROIDHERD_FLOWS__PATHS": json.dumps([str(ROOT / "bench" / "flows")]),
        "PYTHONPATH": str(ROOT),
    }
