"""The workflows with one deliberate change each: what a careless edit would do to runs that are under way."""

from temporalio import workflow

from droidherd.contracts import names
from droidherd.contracts.fleet import EmulatorInput, HostInput, Join
from droidherd.contracts.maintenance import CleanupInput, CleanupReport, Hosts
from droidherd.contracts.queue import DispatcherInput
from droidherd.contracts.tasks import TaskView
from droidherd.domain.emulator import GateOrder
from workflows import options
from workflows.dispatcher import DispatcherWorkflow
from workflows.emulator import EmulatorWorkflow
from workflows.host import HostWorkflow
from workflows.maintenance import MaintenanceWorkflow
from workflows.task import Given, TaskWorkflow


async def another_activity() -> None:
    await workflow.execute_activity(
        "another", schedule_to_close_timeout=options.ENGINE_TIMEOUT, retry_policy=options.ONCE
    )


@workflow.defn(name=names.Workflow.TASK)
class AsksBeforePlanning(TaskWorkflow):
    @workflow.run
    async def run(self, given: Given = None) -> TaskView:
        return await super().run(given)

    async def _plan(self) -> None:
        await another_activity()
        await super()._plan()


@workflow.defn(name=names.Workflow.TASK)
class WritesNoMemo(TaskWorkflow):
    @workflow.run
    async def run(self, given: Given = None) -> TaskView:
        self._ledger.store = lambda: None
        return await super().run(given)


@workflow.defn(name=names.Workflow.DISPATCHER)
class ForgetsItsPredecessor(DispatcherWorkflow):
    @workflow.run
    async def run(self, start: DispatcherInput) -> None:
        await super().run(start)

    async def _rebuild(self) -> None:
        self._ready = True
        for handle in self._early:
            handle()


@workflow.defn(name=names.Workflow.EMULATOR)
class SkipsItsGates(EmulatorWorkflow):
    @workflow.run
    async def run(self, start: EmulatorInput) -> None:
        await super().run(start)

    async def _gate(self, order: GateOrder) -> str:
        return ""


@workflow.defn(name=names.Workflow.MAINTENANCE)
class SweepsNobody(MaintenanceWorkflow):
    @workflow.run
    async def run(self, start: CleanupInput) -> CleanupReport:
        return await super().run(start)

    async def _hosts(self) -> Hosts:
        return Hosts()


@workflow.defn(name=names.Workflow.HOST)
class AsksBeforePresence(HostWorkflow):
    @workflow.run
    async def run(self, start: HostInput) -> None:
        await super().run(start)

    async def _watch_worker(self, worker: Join) -> None:
        await another_activity()
        await super()._watch_worker(worker)
