"""Removes what is old: tasks with their artifacts, artifacts without a task, and what does not fit any more.

Written against two ports: the archive of Temporal, and an artifact store. Everything may be done again.
"""

import asyncio
import heapq
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, closing
from dataclasses import dataclass, field

from droidherd.contracts.maintenance import CleanupProgress, CleanupStats, CleanupWork, Removal, RemovalReason
from droidherd.domain.errors import BadParametersError
from droidherd.domain.retention import DAY_MS, Archive, Folder, Page, Retention, Run, Shelf, Stored, shed

SHED_AT_ONCE = 10_000
"""Tasks whose artifacts go because the store is too large, in one cleanup: those that ended first."""


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """How long, and how much."""

    retention: Retention = field(default_factory=Retention)
    orphan_days: float = 1.0
    """Artifacts no task owns are left alone for so long: their task may be on its way back."""
    artifacts_max_bytes: int = 0
    """0: as many as there are."""


class Cleaner:
    """One cleanup of one worker."""

    def __init__(self, archive: Archive, shelf: Shelf, keep: RetentionLimits, work: CleanupWork) -> None:
        """Nothing is looked at yet."""
        self._archive = archive
        self._shelf = shelf
        self._keep = keep
        self._work = work
        self._stats = CleanupStats()

    # --- tasks ------------------------------------------------------------------------------------------------

    async def remove_tasks(self, begin: CleanupProgress, beat: Callable[[CleanupProgress], None]) -> CleanupStats:
        """Every task that is due, page by page. `begin` is where an earlier try came to."""
        self._stats, cursor = begin.stats, begin.cursor
        for number, cohort in enumerate(self._keep.retention.cohorts(self._work.now_ms)):
            if number < begin.cohort:
                continue
            while True:
                page, before = await self._archive.closed(cohort, cursor), self._stats
                async with aclosing(self._remove_all(page)) as removed:
                    async for one in removed:
                        self._stats = self._stats.with_one(one)
                        # What was only looked at is looked at again by whoever goes on; what is gone is not.
                        beat(
                            CleanupProgress(
                                cohort=number, cursor=cursor, stats=before if self._work.dry_run else self._stats
                            )
                        )
                cursor = page.cursor
                beat(CleanupProgress(cohort=number if cursor else number + 1, cursor=cursor, stats=self._stats))
                if not cursor:
                    break
        return self._stats

    async def _remove_all(self, page: Page) -> AsyncGenerator[Removal]:
        due = [run for run in page.runs if self._keep.retention.due(run, self._work.now_ms)]
        earlier = await self._archive.earlier([run.task_id for run in due]) if due else {}
        for run in due:
            newest = await self._archive.newest(run.task_id)
            if newest is not None and newest.run_id != run.run_id:
                continue  # it was tried again or rolled back: its last run counts, and is judged when it comes up
            size = await self._artifacts(run) if self._work.dry_run else await self._remove(run, earlier)
            if newest is None:
                continue  # somebody else removed and counted it; lists lag behind
            age_s = (self._work.now_ms - run.closed_ms) / 1000
            yield Removal(task_id=run.task_id, why=RemovalReason.AGE, state=run.ending, age_s=age_s, bytes=size)

    async def _remove(self, run: Run, earlier: dict[str, tuple[str, ...]]) -> int:
        """Closed runs by their own ids, the last one last: broken off in the middle, the task comes up again."""
        for run_id in (*(one for one in earlier.get(run.task_id, ()) if one != run.run_id), run.run_id):
            await self._archive.delete(run.task_id, run_id)
        newest = await self._archive.newest(run.task_id)
        return 0 if newest is not None and newest.open else await self._drop(run.task_id) or 0

    async def _artifacts(self, run: Run) -> int:
        try:
            return await asyncio.to_thread(self._shelf.size, run.task_id)
        except BadParametersError:
            return 0

    async def _drop(self, task_id: str, remove: Callable[[str], int] | None = None) -> int | None:
        """Its artifacts. None: something stands in the way, which is said; it is tried again the next time."""
        try:
            return await asyncio.to_thread(remove or self._shelf.remove, task_id)
        except BadParametersError:
            return 0  # a foreign client may have given a task a name that no folder can have
        except OSError as error:
            self._stats = self._stats.with_trouble(f"the artifacts of task {task_id} cannot be removed: {error}")
            return None

    # --- artifacts --------------------------------------------------------------------------------------------

    async def sweep(self, beat: Callable[[], None]) -> CleanupStats:
        """What the store of this host holds beyond what it should."""
        refused = await asyncio.to_thread(self._shelf.ours)
        if refused:
            return self._stats.with_trouble(refused)
        if not self._work.dry_run:
            await asyncio.to_thread(self._shelf.purge)
        held = 0
        async with aclosing(self._folders(beat)) as folders:
            async for folder in folders:
                held += 0 if await self._is_orphan(folder) else folder.size
        if 0 < self._keep.artifacts_max_bytes < held:
            await self._free_space(held - self._keep.artifacts_max_bytes, beat)
        return self._stats

    async def _folders(self, beat: Callable[[], None]) -> AsyncGenerator[Folder]:
        with closing(self._shelf.folders()) as folders:
            while (folder := await asyncio.to_thread(next, folders, None)) is not None:
                beat()
                yield folder

    async def _is_orphan(self, folder: Folder) -> bool:
        """Removed, if nobody has known its task for long enough."""
        age_ms = self._work.now_ms - folder.changed_ms
        if age_ms < self._keep.orphan_days * DAY_MS or await self._archive.newest(folder.task_id) is not None:
            return False
        return await self._let_go(
            Removal(task_id=folder.task_id, why=RemovalReason.ORPHAN, age_s=age_ms / 1000), folder
        )

    async def _free_space(self, excess_bytes: int, beat: Callable[[], None]) -> None:
        """The artifacts of those that ended first; what is open keeps all, what may be taken back what that takes."""
        ended: list[tuple[int, str, Stored]] = []
        needed = 0
        async with aclosing(self._folders(beat)) as folders:
            async for folder in folders:
                run = await self._archive.newest(folder.task_id)
                if run is None or run.open:
                    continue
                if self._work.dry_run and self._keep.retention.due(run, self._work.now_ms):
                    excess_bytes -= folder.size  # it goes by its age
                    continue
                stored = Stored(run.closed_ms, folder, run.ending)
                needed += folder.size - stored.spare
                heapq.heappush(ended, (-run.closed_ms, folder.task_id, stored))
                if len(ended) > SHED_AT_ONCE:
                    heapq.heappop(ended)
        for one in shed([stored for _, _, stored in ended], excess_bytes):
            beat()
            age_s = (self._work.now_ms - one.closed_ms) / 1000
            removed = Removal(task_id=one.folder.task_id, why=RemovalReason.SIZE, state=one.ending, age_s=age_s)
            await self._let_go(removed, one.folder, one.spare)
            excess_bytes -= one.spare
        if excess_bytes > 0 and needed:
            what = f"{excess_bytes} bytes more than `retention.artifacts_max_bytes` stay"
            self._stats = self._stats.with_trouble(f"{what}: {needed} are what rollbacks need, and go with their tasks")

    async def _let_go(self, removed: Removal, folder: Folder, spare: int | None = None) -> bool:
        """All of it, or its `spare` bytes."""
        whole = spare is None or spare == folder.size
        remove = self._shelf.remove if whole else self._shelf.thin
        size = (
            (folder.size if spare is None else spare)
            if self._work.dry_run
            else await self._drop(folder.task_id, remove)
        )
        if size is None:
            return False
        self._stats = self._stats.with_one(removed.model_copy(update={"bytes": size}))
        return True
