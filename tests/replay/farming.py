"""Histories of real processes: a worker with its adb server, virtual emulators, a worker that is killed."""

import asyncio
import os
import socket
from pathlib import Path

from droidherd.domain.task.lifecycle import TaskStatus
from tests.replay import library
from tests.support.farm import Farm, farm

NAME = "farm"
WHY = "real processes from end to end; the worker is killed while a task runs, and started again"


def record(folder: Path) -> dict[str, str]:
    """Empty, or what went wrong."""
    folder.mkdir(parents=True)
    with farm(folder, 2, in_memory=True) as real:
        try:
            asyncio.run(_play(real, folder))
        except (TimeoutError, OSError, RuntimeError) as error:
            return {NAME: f"{type(error).__name__}: {error}"}
    return {}


async def _play(real: Farm, folder: Path) -> None:
    client = await real.client()
    await real.wake(client)
    await real.all_up(client)
    await real.submit(client, "reward", "daily_reward", account="42")
    await real.ended(client, "reward")
    await real.submit(client, "walk", "long_walk", account="43")
    await real.reached(client, "walk", TaskStatus.RUNNING)
    await asyncio.sleep(1.0)
    real.worker.kill()
    real.worker.start()
    await real.ended(client, "walk")
    keep = ["reward", "walk", "dispatcher/default", "host/local", *(f"emulator/{one}" for one in real.emulators[:1])]
    library.forget(NAME)
    name = socket.gethostname()
    hide = {
        str(folder): "/data",
        os.fspath(library.HISTORIES.parents[2]): "/tree",
        f"@{name}:": "@host:",
        f'"{name}:': '"host:',
    }
    for workflow_id in keep:
        history = await client.get_workflow_handle(workflow_id).fetch_history()
        library.save(f"{NAME}.{workflow_id.replace('/', '-')}", history.to_json_dict(), hide)
