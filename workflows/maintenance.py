"""One cleanup: tasks that are due first, then the artifact store of each host."""

import asyncio
from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, TimeoutType, is_cancelled_exception
from temporalio.exceptions import TimeoutError as ActivityTimeout

from droidherd.contracts import names
from droidherd.contracts.maintenance import CleanupInput, CleanupReport, CleanupStats, CleanupWork, Hosts
from droidherd.domain.dispatch.audit import AuditEntry
from droidherd.domain.outbox import Outbox
from workflows import calls, options
from workflows.delivery import Delivery
from workflows.inbound import protected

R = TypeVar("R")


@protected()
@workflow.defn(name=names.Workflow.MAINTENANCE)
class MaintenanceWorkflow:
    """Reports what went: as its result, in its memo and in the Web UI. The pool's audit says who wanted it, and when.

    One activity at a time; while one runs, messages are delivered.
    """

    @workflow.init
    def __init__(self, start: CleanupInput) -> None:
        self._report = CleanupReport(
            actor=start.actor, reason=start.reason, dry_run=start.dry_run, started_at=workflow.now()
        )
        self._pool = start.pool
        self._outbox: Outbox[AuditEntry] = Outbox()
        self._delivery = Delivery(self._outbox)

    @workflow.run
    async def run(self, start: CleanupInput) -> CleanupReport:
        self._audit("cleanup_began")
        await self._clean_up(CleanupWork(now_ms=int(workflow.time() * 1000), dry_run=start.dry_run))
        self._audit("cleanup_ended", self._report.stats.describe())
        await self._delivery.drain()
        return self._report

    @workflow.query
    def view(self) -> CleanupReport:
        """How far it came."""
        return self._report

    async def _clean_up(self, work: CleanupWork) -> None:
        self._show("removes tasks")
        self._add(await self._remove_tasks(work))
        for host in (await self._hosts()).hosts:
            self._show(f"sweeps the artifacts of host {host}")
            self._add(await self._sweep(host, work))
        self._report = self._report.model_copy(update={"ended_at": workflow.now()})
        self._show("done")
        short = self._report.model_copy(update={"stats": self._report.stats.model_copy(update={"removed": ()})})
        workflow.upsert_memo({names.MEMO_REPORT: short.model_dump(mode="json")})

    # --- its steps --------------------------------------------------------------------------------------------

    async def _result_of(self, activity: calls.Call[R]) -> R:
        """Wait for it, and deliver messages meanwhile."""
        try:
            while not activity.done():
                await self._delivery.send()
                await workflow.wait_condition(lambda: activity.done() or self._delivery.is_due())
        except asyncio.CancelledError:
            activity.cancel()
            raise
        return activity.result()

    async def _remove_tasks(self, work: CleanupWork) -> CleanupStats:
        return await self._result_of(
            calls.start_activity(
                "remove_tasks",
                work,
                CleanupStats,
                summary="would remove old tasks" if work.dry_run else "removes old tasks",
                start_to_close_timeout=options.CLEANUP_TOTAL,
                heartbeat_timeout=options.CLEANUP_HEARTBEAT,
                retry_policy=options.CLEANUP_RETRY,
            )
        )

    async def _hosts(self) -> Hosts:
        return await self._result_of(
            calls.start_activity(
                "list_hosts",
                None,
                Hosts,
                summary="lists the hosts",
                start_to_close_timeout=options.ENGINE_TIMEOUT,
                schedule_to_close_timeout=options.ENGINE_TOTAL,
                retry_policy=options.ENGINE_RETRY,
            )
        )

    async def _sweep(self, host: str, work: CleanupWork) -> CleanupStats:
        """A host that is away is swept the next time."""
        try:
            return await self._result_of(
                calls.start_activity(
                    "sweep_artifacts",
                    work,
                    CleanupStats,
                    summary=f"sweeps the artifacts of host {host}",
                    task_queue=names.host_id(host),
                    schedule_to_start_timeout=options.SWEEP_START,
                    start_to_close_timeout=options.CLEANUP_TOTAL,
                    heartbeat_timeout=options.CLEANUP_HEARTBEAT,
                    retry_policy=options.CLEANUP_RETRY,
                )
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            cause = error.cause
            if isinstance(cause, ActivityTimeout) and cause.type == TimeoutType.SCHEDULE_TO_START:
                return CleanupStats().with_trouble(f"host {host} is away: its artifacts were not swept")
            return CleanupStats().with_trouble(f"the artifacts of host {host} were not swept: {cause}")

    # --- its report -------------------------------------------------------------------------------------------

    def _add(self, stats: CleanupStats) -> None:
        self._report = self._report.model_copy(update={"stats": self._report.stats.plus(stats)})

    def _audit(self, what: str, detail: str = "") -> None:
        """For the pool's audit."""
        report = self._report
        detail = "; ".join(part for part in ("dry run" if report.dry_run else "", detail) if part)
        self._outbox.put(names.dispatcher_id(self._pool), AuditEntry(what, report.actor, report.reason, detail=detail))

    def _show(self, stage: str) -> None:
        report, stats = self._report, self._report.stats
        who = f"asked by {report.actor}" + (f": {report.reason}" if report.reason else "")
        went = "would go" if report.dry_run else "went"
        troubles = "".join(f"\n- {trouble}" for trouble in stats.troubles)
        workflow.set_current_details(f"**{stage}**, {who}\n\n{went}: {stats.describe()}{troubles}")
