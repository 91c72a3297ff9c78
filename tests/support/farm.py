"""A whole farm on loopback: a real engine on a file, real virtual emulators, a real worker process with its adb server.

Everything is ended by its own pid. The witness of what happened on the emulators is their own command journal.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter

from droidherd.adb.program import bundled_adb
from droidherd.cli.local.embedded import EmbeddedTemporal
from droidherd.contracts import names
from droidherd.contracts.queue import DispatcherInput, EmulatorsPage, QueuePage, QueueQuery
from droidherd.contracts.tasks import TaskInput, TaskSpec, TaskView
from droidherd.domain.task.lifecycle import FINAL, TaskStatus
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.testing import skipping
from droidherd.virtual import journal
from droidherd.virtual.control import VirtualControl
from droidherd.virtual.process import VirtualFleet
from tests.support.proxy import Links, TcpProxy

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120.0


@dataclass
class WorkerProcess:
    """`worker_main.py run`, as an operator would start it."""

    environment: dict[str, str]
    log: Path
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "worker_main.py"), "run"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
            )

    @property
    def pid(self) -> int:
        if self.process is None:
            raise RuntimeError("the worker was not started")
        return self.process.pid

    def check(self) -> None:
        """Nobody brings back one that ended by itself."""
        if self.process is not None and self.process.poll() is not None:
            raise RuntimeError(f"the worker ended by itself with {self.process.returncode}; its last words: {self.log}")

    def kill(self) -> None:
        """As the kernel would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)

    def stop(self) -> int:
        """As an operator would."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(10)


@dataclass(kw_only=True)
class Place:
    """Virtual emulators and the Temporal that serves them, as clients and judges see them."""

    data: Path
    address: str
    """Of Temporal."""
    emulators: list[str]
    namespace: str = "droidherd"

    async def client(self) -> Client:
        return await Client.connect(self.address, namespace=self.namespace, data_converter=pydantic_data_converter)

    def journal(self, emulator: str) -> list[journal.ExecutedCommand]:
        return journal.read(self.data / "virtual", emulator)

    # --- tasks ------------------------------------------------------------------------------------------------

    async def submit(self, client: Client, task_id: str, type_: str, **spec: Any) -> "WorkflowHandle[Any, Any]":
        """As a foreign client would: start the workflow, nothing else."""
        return await client.start_workflow(
            names.Workflow.TASK,
            TaskInput(spec=TaskSpec(type=type_, **spec)),
            id=task_id,
            task_queue=names.QUEUE,
        )

    async def view(self, client: Client, task_id: str) -> TaskView:
        return await client.get_workflow_handle(task_id).query(names.Query.VIEW, result_type=TaskView)

    async def ended(self, client: Client, task_id: str, limit_s: float = LIMIT_S) -> TaskView:
        """The task's view once it is in a final state."""

        async def final() -> TaskView | None:
            view = await self.view(client, task_id)
            return view if view.state in FINAL else None

        return await until(final, f"task {task_id} to end", limit_s)

    async def reached(self, client: Client, task_id: str, *states: TaskStatus, limit_s: float = LIMIT_S) -> TaskView:
        async def there() -> TaskView | None:
            view = await self.view(client, task_id)
            return view if view.state in states else None

        return await until(there, f"task {task_id} to be {'/'.join(states)}", limit_s)

    # --- the pool ---------------------------------------------------------------------------------------------

    async def wake(self, client: Client, **settings: Any) -> None:
        await client.start_workflow(
            names.Workflow.DISPATCHER,
            DispatcherInput(pool="default", **settings),
            id=names.dispatcher_id("default"),
            task_queue=names.FLEET_QUEUE,
            start_signal=names.Signal.WAKE,
            task_timeout=timedelta(seconds=2),
        )

    async def queue(self, client: Client) -> QueuePage:
        handle = client.get_workflow_handle(names.dispatcher_id("default"))
        return await handle.query(names.Query.QUEUE, QueueQuery(), result_type=QueuePage)

    async def all_up(self, client: Client, limit_s: float = LIMIT_S) -> EmulatorsPage:
        async def up() -> EmulatorsPage | None:
            handle = client.get_workflow_handle(names.dispatcher_id("default"))
            page = await handle.query(names.Query.EMULATORS, result_type=EmulatorsPage)
            states = [one.state for one in page.emulators]
            return page if states.count("up") == len(self.emulators) else None

        return await until(up, "all emulators to be up", limit_s)


@dataclass(kw_only=True)
class Farm(Place):
    """Everything, started."""

    engine: EmbeddedTemporal
    fleet: VirtualFleet
    worker: WorkerProcess
    links: Links | None = None
    """Between the processes, if somebody wants to cut them."""

    def control(self) -> VirtualControl:
        return self.fleet.control()


async def until(ask: Callable[[], Awaitable[Any]], what: str, limit_s: float = LIMIT_S) -> Any:
    """Ask until there is an answer. The engine may be away meanwhile."""
    return await skipping.until(ask, what, limit_s)


@contextlib.contextmanager
def farm(
    data: Path,
    count: int,
    *,
    in_memory: bool = False,
    linked: bool = False,
    flows: Path | None = None,
    queue: Mapping[str, int] | None = None,
    settings: Mapping[str, str] | None = None,
    **timing: float,
) -> Generator[Farm]:
    """A farm with `count` emulators, flows beside the gallery's, and settings: of its queue, its timing, and others.

    The others by variable, without the `DROIDHERD_`. `linked`: its connections can be cut.
    """
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(EmbeddedTemporal.start(data / "temporal", in_memory=in_memory))
        fleet = stack.enter_context(VirtualFleet.start(count=count, state=data / "virtual"))
        links = _link(data, engine, fleet) if linked else None
        if links is not None:
            stack.callback(links.stop)
        entries = [
            InventoryEntry(
                emulator_id=one,
                address=links.emulators[one].address if links else address,
                controller="none" if links else "virtual",
            )
            for one, address in fleet.addresses.items()
        ]
        Inventory(data).add(*entries)
        environment = {
            **os.environ,
            "DROIDHERD_DATA": str(data),
            "DROIDHERD_TEMPORAL__ADDRESS": links.worker.address if links else engine.address,
            "DROIDHERD_ADB__PORT": "0",
            "DROIDHERD_ADB__PROGRAM": str(links.adb_program) if links else "",
            "DROIDHERD_CONFIG": str(data / "none.toml"),
            "DROIDHERD_FLOWS__PATHS": json.dumps([str(flows)] if flows else []),
            **{f"DROIDHERD_QUEUE__{name.upper()}": str(value) for name, value in (queue or {}).items()},
            **{f"DROIDHERD_{name}": value for name, value in (settings or {}).items()},
            **{f"DROIDHERD_TIMING__{name.upper()}": str(value) for name, value in timing.items()},
        }
        worker = WorkerProcess(environment, data / "worker.log")
        worker.start()
        stack.callback(worker.stop)
        yield Farm(
            data=data,
            address=engine.address,
            emulators=[entry.emulator_id for entry in entries],
            engine=engine,
            fleet=fleet,
            worker=worker,
            links=links,
        )


def _link(data: Path, engine: EmbeddedTemporal, fleet: VirtualFleet) -> Links:
    ports = {one: int(address.rpartition(":")[2]) for one, address in fleet.addresses.items()}
    links = Links(
        worker=TcpProxy(engine.profile.port),
        api=TcpProxy(engine.profile.port),
        emulators={one: TcpProxy(port) for one, port in ports.items()},
        data=data,
    )
    for one in (links.worker, links.api, *links.emulators.values()):
        one.start()
    links.write_adb_program(bundled_adb())
    return links
