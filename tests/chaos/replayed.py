"""Whatever was pressed and struck: every history the farm wrote must replay, else a run is stuck sooner or later."""

from droidherd.testing import replay
from droidherd.worker.workflow_workers import WORKFLOWS
from tests.support.farm import Place


async def diverged(farm: Place) -> list[str]:
    """Workflow, run, and what its code asked for instead."""
    results = await replay.replay(await replay.fetch(await farm.client(), ""), WORKFLOWS)
    return [f"{one.history} cannot be replayed: {one.diverged}" for one in results if one.diverged]
