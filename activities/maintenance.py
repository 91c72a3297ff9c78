"""Removes what is old."""

from collections.abc import Callable, Sequence

from temporalio import activity

from droidherd.artifacts.cleanup import Cleaner, RetentionLimits
from droidherd.contracts.inbound import UnreadableError, check
from droidherd.contracts.maintenance import CleanupProgress, CleanupStats, CleanupWork, Hosts
from droidherd.domain.retention import Shelf
from droidherd.engine.archive import TaskArchive


class MaintenanceActivities:
    """What one worker removes: tasks wherever they ran, artifacts from its own store."""

    def __init__(self, archive: TaskArchive, shelf: Shelf, keep: RetentionLimits) -> None:
        """`keep` is what the operator set."""
        self._archive = archive
        self._shelf = shelf
        self._keep = keep

    @activity.defn
    async def remove_tasks(self, work: CleanupWork) -> CleanupStats:
        """Continues where the attempt before this one stopped."""
        return await self._cleaner(work).remove_tasks(_progress(activity.info().heartbeat_details), activity.heartbeat)

    @activity.defn
    async def sweep_artifacts(self, work: CleanupWork) -> CleanupStats:
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


def _progress(beats: Sequence[object]) -> CleanupProgress:
    """What the attempt before said last. Anybody can say it: what cannot be read begins anew."""
    try:
        return check(CleanupProgress, beats[0]) if beats else CleanupProgress()
    except UnreadableError as error:
        activity.logger.warning("how far this cleanup came cannot be read, it begins anew: %s", error)
        return CleanupProgress()
