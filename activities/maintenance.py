"""Removes what is old, and keeps the schedule by which that happens every day."""

from collections.abc import Callable
from datetime import timedelta

from temporalio import activity
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleCalendarSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.service import RPCError, RPCStatusCode

from activities.archive import EngineArchive
from droidherd.cleanup import Cleaner, Keep
from droidherd.contracts import names
from droidherd.contracts.maintenance import CleanupInput, CleanupWork, Hosts, Progress, Tally
from droidherd.domain.retention import Shelf

MISSED = timedelta(hours=20)
"""A cleanup that was due while the engine was away is made up for within this."""


class ScheduleError(Exception):
    """The engine does not understand when cleanups are to run."""


class MaintenanceActivities:
    """What one worker removes: tasks wherever they ran, artifacts from its own store."""

    def __init__(self, archive: EngineArchive, shelf: Shelf, keep: Keep) -> None:
        """`keep` is what the operator set."""
        self._archive = archive
        self._shelf = shelf
        self._keep = keep

    @activity.defn
    async def remove_tasks(self, work: CleanupWork) -> Tally:
        """Goes on where a try before this one stopped."""
        known = activity.info().heartbeat_details
        begin = Progress.model_validate(known[0]) if known else Progress()
        return await self._cleaner(work).remove_tasks(begin, activity.heartbeat)

    @activity.defn
    async def sweep_artifacts(self, work: CleanupWork) -> Tally:
        """On each host: the store may be its own."""
        return await self._cleaner(work).sweep(activity.heartbeat)

    @activity.defn
    async def list_hosts(self) -> Hosts:
        return Hosts(hosts=await self._archive.hosts())

    def _cleaner(self, work: CleanupWork) -> Cleaner:
        return Cleaner(self._archive, self._shelf, self._keep, work)

    def all(self) -> list[Callable[..., object]]:
        """For a worker of workflows."""
        return [self.remove_tasks, self.list_hosts]

    def of_host(self) -> list[Callable[..., object]]:
        """For the worker of a host's own queue."""
        return [self.sweep_artifacts]


async def keep_schedule(client: Client, at: str, time_zone: str, pool: str = "default") -> None:
    """Every day at this time. Every worker says so when it starts; whoever paused the schedule is not overruled.

    It stands in the audit of `pool`.
    """
    hour, minute = (int(part) for part in at.split(":"))
    spec = ScheduleSpec(
        calendars=[ScheduleCalendarSpec(hour=[ScheduleRange(hour)], minute=[ScheduleRange(minute)])],
        time_zone_name=time_zone,
    )
    action = ScheduleActionStartWorkflow(
        names.Workflow.MAINTENANCE.value,
        CleanupInput(actor="system:schedule", reason=f"every day at {at} {time_zone}", pool=pool),
        id=names.MAINTENANCE,
        task_queue=names.FLEET_QUEUE,
        static_summary="cleanup",
    )
    policy = SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=MISSED)
    wanted = Schedule(action=action, spec=spec, policy=policy)

    def renewed(present: ScheduleUpdateInput) -> ScheduleUpdate:
        wanted.state = present.description.schedule.state
        return ScheduleUpdate(wanted)

    try:
        await client.create_schedule(names.MAINTENANCE, wanted)
    except ScheduleAlreadyRunningError:
        await client.get_schedule_handle(names.MAINTENANCE).update(renewed)
    except RPCError as error:
        if error.status is not RPCStatusCode.INVALID_ARGUMENT:
            raise
        raise ScheduleError(f"the engine refuses a cleanup every day at {at} {time_zone}: {error.message}") from error
