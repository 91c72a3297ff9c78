"""Accounts: their records, disabled and enabled, bound to an emulator."""

import asyncio

from droidherd.contracts import names
from droidherd.contracts.tasks import OperatorRequest
from droidherd.domain.task.lifecycle import TaskStatus
from tests.replay.scenario import DISPATCHER, TASK, Setting, scenario
from tests.workflows.test_account import change, handle
from tests.workflows.world import World, until

ACCOUNT = "account/ann"


@scenario("a record is made, replaced, continued as new, removed and made again", keep=(ACCOUNT, DISPATCHER))
async def account_record(world: World) -> None:
    for number in range(2):
        await change(world, "ann", after=2, emulator="e1", note=f"change {number}")

    async def continued() -> bool | None:
        info = (await handle(world, "ann").describe()).raw_description.workflow_execution_info
        return info.first_run_id != info.execution.run_id or None

    await until(continued, "the next run of the account")
    await change(world, "ann", after=2, emulator="e1", note="change 2")
    await handle(world, "ann").execute_update(names.Update.REMOVE, OperatorRequest(actor="anna"))
    await handle(world, "ann").result(follow_runs=True)
    await change(world, "ann", credentials={"password": "env:ANN_PASSWORD"})


@scenario("an account is disabled and enabled while its tasks wait", keep=(DISPATCHER, TASK))
async def account_disabled(world: World) -> None:
    await world.order("disable_account", account="ann", actor="anna", reason="banned")
    await world.submit("task", account="ann")
    await world.submit("other", account="ben")
    await world.reached("task", TaskStatus.QUEUED)
    await world.ended("other")
    await world.order("enable_account", account="ann", actor="anna")
    await asyncio.gather(world.ended("task"))


@scenario("a task runs on the emulator its account is bound to", setting=Setting(emulators=("e1", "e2")))
async def account_bound(world: World) -> None:
    await world.submit("task", account="ann", params={"bound": "e2"})
    await world.ended("task")
