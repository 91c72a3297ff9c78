"""Cleanups: what goes, what is only named, what stands in the way."""

from temporalio.client import WorkflowExecutionStatus

from tests.replay.scenario import Setting, scenario
from tests.workflows.world import World, until

CLEANUP = "maintenance/cleanup/by-hand"
KEEP = (CLEANUP,)


async def old_tasks(world: World) -> None:
    for task_id in ("first", "second"):
        await world.submit(task_id, params={"wrong": True})
        await world.ended(task_id)
        world.store.put(task_id, "a.png", b"12345")
    await world.listed("first", "second")


async def host_listed(world: World) -> None:
    async def there() -> bool | None:
        query = "WorkflowType = 'HostWorkflow' AND ExecutionStatus = 'Running'"
        return True if (await world.client.count_workflows(query)).count else None

    await until(there, "the host to be listed")


@scenario("what has ended goes, and the host's artifacts are swept", keep=KEEP)
async def cleaned_up(world: World) -> None:
    await old_tasks(world)
    await host_listed(world)
    await world.clean_up(actor="anna", reason="spring")


@scenario("a dry run: only said what would go", keep=KEEP)
async def cleaned_up_dry(world: World) -> None:
    await old_tasks(world)
    await host_listed(world)
    await world.clean_up(actor="anna", dry_run=True)


@scenario("a host is away while the others are swept", keep=KEEP, setting=Setting(joined=False))
async def cleaned_up_without_a_host(world: World) -> None:
    await world.join()
    await host_listed(world)
    await world.clean_up(actor="anna")


@scenario("a cleanup that is cancelled on the engine", keep=KEEP, setting=Setting(joined=False))
async def cleanup_cancelled(world: World) -> None:
    await world.join()
    await host_listed(world)
    handle = await world.start_cleanup(actor="anna")

    async def sweeping() -> bool | None:
        found = (await handle.describe()).raw_description.pending_activities
        return True if [one for one in found if one.activity_type.name == "sweep_artifacts"] else None

    await until(sweeping, "the sweep to be under way")
    await handle.cancel()

    async def closed() -> bool | None:
        return True if (await handle.describe()).status is WorkflowExecutionStatus.CANCELED else None

    await until(closed, "the cleanup to be cancelled")
