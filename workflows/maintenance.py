"""One cleanup: tasks that are due first, then the artifact store of each host."""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, TimeoutType, is_cancelled_exception
from temporalio.exceptions import TimeoutError as ActivityTimeout

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts import names
    from droidherd.contracts.maintenance import CleanupInput, CleanupReport, CleanupWork, Hosts, Tally
    from droidherd.domain.audit import Deed
    from droidherd.domain.outbox import Outbox
    from workflows import options
    from workflows.courier import Courier
    from workflows.handles import ignore


@workflow.defn(name=names.Workflow.MAINTENANCE)
class MaintenanceWorkflow:
    """Says what went, to who asks, in its memo and in the Web UI. The pool's audit says who wanted it, and when."""

    @workflow.init
    def __init__(self, start: CleanupInput) -> None:
        self._report = CleanupReport(
            actor=start.actor, reason=start.reason, dry_run=start.dry_run, started_at=workflow.now()
        )
        self._pool = start.pool
        self._outbox: Outbox[Deed] = Outbox()

    @workflow.run
    async def run(self, start: CleanupInput) -> CleanupReport:
        courier = Courier(self._outbox)
        telling = asyncio.create_task(courier.run())
        ignore(telling)
        self._tell("cleanup_began")
        await self._clean_up(CleanupWork(now_ms=int(workflow.time() * 1000), dry_run=start.dry_run))
        self._tell("cleanup_ended", self._report.tally.said())
        try:
            await workflow.wait_condition(courier.idle, timeout=options.CONTINUE_DRAIN_S)
        except TimeoutError:
            workflow.logger.warning("the audit of pool %s cannot be told that a cleanup ended", self._pool)
        telling.cancel()
        return self._report

    async def _clean_up(self, work: CleanupWork) -> None:
        self._show("removes tasks")
        self._add(await self._remove_tasks(work))
        for host in (await self._hosts()).hosts:
            self._show(f"sweeps the artifacts of host {host}")
            self._add(await self._sweep(host, work))
        self._report = self._report.model_copy(update={"ended_at": workflow.now()})
        self._show("done")
        short = self._report.model_copy(update={"tally": self._report.tally.model_copy(update={"removed": ()})})
        workflow.upsert_memo({names.MEMO_REPORT: short.model_dump(mode="json")})

    def _tell(self, what: str, went: str = "") -> None:
        """For the pool's audit."""
        report = self._report
        detail = "; ".join(part for part in ("dry run" if report.dry_run else "", went) if part)
        self._outbox.put(names.dispatcher_id(self._pool), Deed(what, report.actor, report.reason, detail=detail))

    @workflow.query
    def view(self) -> CleanupReport:
        return self._report

    async def _remove_tasks(self, work: CleanupWork) -> Tally:
        return await workflow.execute_activity(
            "remove_tasks",
            work,
            result_type=Tally,
            start_to_close_timeout=options.CLEANUP_TOTAL,
            heartbeat_timeout=options.CLEANUP_HEARTBEAT,
            retry_policy=options.CLEANUP_RETRY,
        )

    async def _hosts(self) -> Hosts:
        return await workflow.execute_activity(
            "list_hosts",
            result_type=Hosts,
            start_to_close_timeout=options.ENGINE_TIMEOUT,
            schedule_to_close_timeout=options.ENGINE_TOTAL,
            retry_policy=options.ENGINE_RETRY,
        )

    async def _sweep(self, host: str, work: CleanupWork) -> Tally:
        """A host that is away is swept the next time."""
        try:
            return await workflow.execute_activity(
                "sweep_artifacts",
                work,
                task_queue=names.host_id(host),
                result_type=Tally,
                schedule_to_start_timeout=options.SWEEP_START,
                start_to_close_timeout=options.CLEANUP_TOTAL,
                heartbeat_timeout=options.CLEANUP_HEARTBEAT,
                retry_policy=options.CLEANUP_RETRY,
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            cause = error.cause
            if isinstance(cause, ActivityTimeout) and cause.type == TimeoutType.SCHEDULE_TO_START:
                return Tally().with_trouble(f"host {host} is away: its artifacts were not swept")
            return Tally().with_trouble(f"the artifacts of host {host} were not swept: {cause}")

    def _add(self, tally: Tally) -> None:
        self._report = self._report.model_copy(update={"tally": self._report.tally.plus(tally)})

    def _show(self, stage: str) -> None:
        report, tally = self._report, self._report.tally
        who = f"asked by {report.actor}" + (f": {report.reason}" if report.reason else "")
        went = "would go" if report.dry_run else "went"
        troubles = "".join(f"\n- {trouble}" for trouble in tally.troubles)
        workflow.set_current_details(f"**{stage}**, {who}\n\n{went}: {tally.said()}{troubles}")
