"""A worker that dies in the middle of a cleanup: the next one goes on."""

import asyncio
import os
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from droidherd.artifacts.store import DirectoryStore
from droidherd.cli.local import ports
from droidherd.cli.local.embedded import EmbeddedTemporal, Profile
from droidherd.contracts import names
from droidherd.contracts.maintenance import CleanupInput, CleanupReport
from droidherd.contracts.tasks import TaskInput, TaskSpec
from tests.support.farm import WorkerProcess, until

TASKS = 300
KILL_BELOW = 250
AT_ONCE = {
    "history.transferProcessorUpdateAckInterval": "100ms",
    "history.visibilityProcessorUpdateAckInterval": "100ms",
}
"""The engine forgets also what ended just now."""


@pytest.mark.long
async def test_a_cleanup_whose_worker_was_killed_goes_on_at_the_next(tmp_path: Path) -> None:
    profile = Profile(port=ports.free(), database=tmp_path / "temporal" / "temporal.db", dynamic_config=AT_ONCE)
    with EmbeddedTemporal.start(tmp_path / "temporal", profile=profile) as engine:
        worker = WorkerProcess(_environment(tmp_path, engine.address), tmp_path / "worker.log")
        client = await Client.connect(engine.address, namespace="droidherd", data_converter=pydantic_data_converter)
        worker.start()
        try:
            await _fail_all(client, DirectoryStore(tmp_path / "artifacts"))
            cleanup = await client.start_workflow(
                names.Workflow.MAINTENANCE,
                CleanupInput(actor="anna"),
                id="cleanup",
                task_queue=names.FLEET_QUEUE,
                result_type=CleanupReport,
            )
            await until(lambda: _fewer(client, KILL_BELOW), "the cleanup to be under way")
            worker.kill()
            left = (await client.count_workflows(OF_TASKS)).count
            assert 0 < left < TASKS
            worker.start()
            report = await asyncio.wait_for(cleanup.result(), 120)
            # What went in the last moment before the blow may be missing in the count, and nowhere else.
            assert 0 < report.stats.tasks["failed"] <= TASKS
            await until(lambda: _fewer(client, 1), "every task to be forgotten")
            # A task goes before its artifacts: those of the one that the blow caught in between go later, as orphans.
            assert len(list((tmp_path / "artifacts").glob("t*"))) <= 1
        finally:
            worker.stop()


OF_TASKS = f"WorkflowType = '{names.Workflow.TASK}'"


async def _fewer(client: Client, count: int) -> bool | None:
    return True if (await client.count_workflows(OF_TASKS)).count < count else None


async def _fail_all(client: Client, store: DirectoryStore) -> None:
    """Tasks of a type nobody knows fail at once."""
    gate = asyncio.Semaphore(20)

    async def one(task_id: str) -> None:
        spec = TaskSpec(type="nothing_of_this_name")
        async with gate:
            await client.start_workflow(names.Workflow.TASK, TaskInput(spec=spec), id=task_id, task_queue=names.QUEUE)
        store.put(task_id, "a.png", b"12345")

    await asyncio.gather(*(one(f"t{number}") for number in range(TASKS)))

    async def all_failed() -> bool | None:
        closed = await client.count_workflows(f"{OF_TASKS} AND ExecutionStatus = 'Failed'")
        return True if closed.count == TASKS else None

    await until(all_failed, "every task to fail")


def _environment(data: Path, address: str) -> dict[str, str]:
    return {
        **os.environ,
        "DROIDHERD_DATA": str(data),
        "DROIDHERD_TEMPORAL__ADDRESS": address,
        "DROIDHERD_ADB__PORT": "0",
        "DROIDHERD_CONFIG": str(data / "none.toml"),
        "DROIDHERD_RETENTION__FAILED_DAYS": "0",
    }
