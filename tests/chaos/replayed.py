"""Whatever was pressed and struck: every history the farm wrote must replay, else a run is stuck sooner or later."""

from pathlib import Path

from droidherd.testing.replay import Recorded, replay
from tests.support.farm import Farm
from worker_main import WORKFLOWS
from workflows.sandbox import PASSED_THROUGH


async def diverged(farm: Farm) -> list[str]:
    """Workflow, run, and what its code asked for instead."""
    client = await farm.client()
    recorded: list[Recorded] = []
    async for run in client.list_workflows(""):
        history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
        recorded.append(Recorded(Path(f"{run.id} {run.run_id}"), run.workflow_type, history))
    results = await replay(recorded, WORKFLOWS, PASSED_THROUGH)
    return [f"{one.history} cannot be replayed: {one.diverged}" for one in results if one.diverged]
