"""The workers that run workflows, and the activities that answer them."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Worker

from activities.catchup import CatchUpActivities
from activities.delivery import DeliveryActivities
from activities.planning import PlanningActivities
from droidherd.contracts import names
from droidherd.contracts.plan import TaskTiming
from droidherd.domain.replay import ReplayRecord
from droidherd.flows.catalogue import catalogue_of
from droidherd.settings import Settings, Timing
from droidherd.worker.activities import SharedActivities
from workflows.account import AccountWorkflow
from workflows.dispatcher.workflow import DispatcherWorkflow
from workflows.emulator import EmulatorWorkflow
from workflows.guard import GuardedRunner, give_time
from workflows.host import HostWorkflow
from workflows.maintenance import MaintenanceWorkflow
from workflows.subscription_run import SubscriptionRunWorkflow
from workflows.task.workflow import TaskWorkflow

WORKFLOWS: Sequence[type] = (
    TaskWorkflow,
    DispatcherWorkflow,
    EmulatorWorkflow,
    HostWorkflow,
    SubscriptionRunWorkflow,
    MaintenanceWorkflow,
    AccountWorkflow,
)
CACHED = {names.QUEUE: 320, names.FLEET_QUEUE: 1000}
"""Workflows a worker keeps in memory. A task that waits is some 0.4 MB there, and a short history to read again."""


def workflow_workers(
    settings: Settings, client: Client, shared: SharedActivities, record: ReplayRecord
) -> list[Worker]:
    """One for tasks and one for the fleet. `record` hears which runs they cannot play.

    A task may wait for its dispatcher's answer, and no number of tasks that do may keep the dispatcher from giving it.
    """
    timing = settings.timing
    task_timing = TaskTiming(
        heartbeat_timeout_s=timing.heartbeat_timeout_s,
        lease_ttl_s=timing.lease_ttl_s,
        cleanup_s=timing.cleanup_s,
        lease_margin_s=timing.lease_margin_s,
        home_wait_s=timing.home_wait_s,
        start_grace_s=timing.presence_grace_s,
        startup_lead_s=settings.queue.lead_s,
    )
    activities = [
        *shared.engine.all(),
        *PlanningActivities(catalogue_of(settings), task_timing, shared.accounts).all(),
        *DeliveryActivities(client).all(),
        *CatchUpActivities().all(),
        *shared.maintenance.all(),
    ]
    threads = ThreadPoolExecutor(thread_name_prefix="plan", max_workers=8)
    return workers_of_queues(client, activities, threads, timing, GuardedRunner(witness=record))


def workers_of_queues(
    client: Client,
    activities: Sequence[Callable[..., object]],
    threads: Executor,
    timing: Timing,
    runner: GuardedRunner,
) -> list[Worker]:
    """Those that run workflows and these activities, one per queue."""
    return [
        give_time(
            Worker(
                client,
                task_queue=queue,
                workflows=WORKFLOWS,
                activities=activities,
                activity_executor=threads,
                workflow_runner=runner,
                max_cached_workflows=CACHED[queue],
                sticky_queue_schedule_to_start_timeout=timedelta(seconds=timing.sticky_s),
                graceful_shutdown_timeout=timedelta(seconds=5),
                # No payload is stored outside Temporal: more than one at a time would be for nothing.
                max_workflow_task_external_storage_concurrency=1,
                # Whoever goes on with a cleanup begins where its last heartbeat said.
                max_heartbeat_throttle_interval=timedelta(seconds=1),
            )
        )
        for queue in names.WORKFLOW_QUEUES
    ]
