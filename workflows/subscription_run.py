"""One run of a subscription: starts its task under a proper id, and lasts as long as the task does.

The schedule looks at runs to see whether the run before has ended. A run never fails: however its task ends,
it says so and completes, and hands what was missed so far to the next one.
"""

import asyncio
from contextlib import suppress

from temporalio import workflow
from temporalio.common import RawValue, SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    FailureError,
    TerminatedError,
    WorkflowAlreadyStartedError,
)

from droidherd.contracts import inbound, names
from droidherd.contracts.engine import AwaitTask
from droidherd.contracts.subscriptions import (
    SYSTEM,
    CarriedRun,
    CatchUpWork,
    Subscription,
    SubscriptionRunState,
    TaskLook,
    WaitingTask,
    scheduled_at,
    task_id_of,
)
from droidherd.contracts.tasks import OperatorRequest, TaskSpec
from droidherd.domain.dispatch.keys import subscription_mutex
from droidherd.domain.schedule.catchup import CatchUp, OnStuck, Overlap, latest
from droidherd.domain.task.lifecycle import TaskStatus
from workflows import calls, options
from workflows.children import Task, start_task
from workflows.inbound import locked_value, missing_key_of, protected

OF = SearchAttributeKey.for_keyword(names.Attribute.SUBSCRIPTION_ID)
REGION = SearchAttributeKey.for_keyword(names.Attribute.REGION)
TAGS = SearchAttributeKey.for_keyword_list(names.Attribute.TAGS)
LOOK_AGAIN_S = 300.0
"""After it found its task stuck: somebody may have set it going again."""
LOOKS_PER_LIFE = 20
"""A run that lasts looks again after this part of its age, so that the looks of years fit into its history."""
OUTCOME_MAX = 64
MARK = 6
"""Characters of the run id that tell two runs of the same second apart."""


@protected(start=Subscription, state=CarriedRun)
@workflow.defn(name=names.Workflow.SUBSCRIPTION_RUN)
class SubscriptionRunWorkflow:
    """From the time it is due to the end of its task.

    Its state is its memo and its result. Only `_live` issues commands.
    """

    @workflow.init
    def __init__(self, given: Subscription | CarriedRun) -> None:
        """Of a run that begins: nothing is started yet."""
        self._stop: OperatorRequest | None = None
        if isinstance(given, CarriedRun):
            self._subscription, self._state = given.subscription, given.run
            return
        self._subscription = subscription = given
        info = workflow.info()
        self._state = SubscriptionRunState(
            scheduled_at=scheduled_at(info.workflow_id) or info.workflow_start_time,
            started_at=info.workflow_start_time,
            catch_up=subscription.catch_up,
            stuck_tasks=before.stuck_tasks if (before := _before()) else 0,
        )

    @workflow.run
    async def run(self, given: Subscription | CarriedRun) -> SubscriptionRunState:  # noqa: ARG002 - taken by __init__
        life = asyncio.create_task(self._live())
        while not life.done():
            try:
                await workflow.wait_condition(life.done)
            except asyncio.CancelledError:
                next_one = self._subscription.overlap is Overlap.CANCEL_OTHER
                self.cancel(
                    OperatorRequest(actor=SYSTEM, reason="the next run is due" if next_one else "cancelled in Temporal")
                )
        if not await life:
            workflow.continue_as_new(CarriedRun(subscription=self._subscription, run=self._state))
        return self._state

    @workflow.signal
    def cancel(self, request: OperatorRequest) -> None:
        """Cancel the task, or do not start it."""
        self._stop = self._stop or request

    @workflow.query
    def state(self) -> SubscriptionRunState:
        """Which task it started, how that ended, and which runs were missed before it."""
        return self._state

    async def _live(self) -> bool:
        """Whether it came to its end; if not, it goes on in a new run, since others may send it messages for ever."""
        if self._state.task_id:
            return await self._follow(asyncio.ensure_future(self._await_task(self._begin_awaiting())))
        self._state.catch_up = await self._catch_up()
        self._show()
        if self._stop:
            return self._end(TaskStatus.CANCELLED)
        task = await self._start()
        if task is None:
            return self._end("id_taken")
        return await self._follow(asyncio.ensure_future(_end_of(task)))

    async def _follow(self, ending: "asyncio.Future[str]") -> bool:
        """Until its task ended; what ends it early is passed on once."""
        await self._watch(ending)
        if self._stop and not ending.done():
            await _pass_on(self._state.task_id, self._stop)
            await workflow.wait_condition(lambda: ending.done() or self._must_continue())
        return ending.done() and self._end(ending.result())

    def _must_continue(self) -> bool:
        return workflow.info().is_continue_as_new_suggested()

    async def _await_task(self, waiting: calls.Call[str]) -> str:
        """A wait that broke off says nothing about the task: it begins anew."""
        while True:
            try:
                return (await waiting)[:OUTCOME_MAX]
            except ActivityError as error:
                workflow.logger.warning("how %s ends is asked again: %s", self._state.task_id, error.cause)
            await workflow.sleep(options.PRESENCE_BACKOFF_S, summary="asks again how its task ends")
            waiting = self._begin_awaiting()

    def _begin_awaiting(self) -> calls.Call[str]:
        """The task is no child of this run, so that Temporal does not tell when it ends."""
        return calls.start_activity(
            "await_task",
            AwaitTask(task_id=self._state.task_id),
            str,
            start_to_close_timeout=options.PRESENCE_LIFE,
            heartbeat_timeout=options.AWAIT_HEARTBEAT,
            retry_policy=options.ENGINE_RETRY,
            cancellation_type=workflow.ActivityCancellationType.ABANDON,
            summary=f"waits for the end of {self._state.task_id}",
        )

    async def _catch_up(self) -> CatchUp:
        """What was due since the run before and did not start. A failure here does not stop this run."""
        before = _before()
        try:
            return await calls.execute_activity(
                "settle_missed_runs",
                CatchUpWork(
                    subscription=self._subscription,
                    scheduled_at=self._state.scheduled_at,
                    started_at=self._state.started_at,
                    before=before,
                ),
                CatchUp,
                summary="looks for runs that were missed",
                start_to_close_timeout=options.PLANNING_TIMEOUT,
                retry_policy=options.PLANNING_RETRY,
            )
        except ActivityError as error:
            workflow.logger.error("what was missed is not known, the next run tries again: %s", error.cause)
            return latest(*(one.catch_up for one in (before, self._subscription) if one is not None))

    async def _start(self) -> Task | None:
        """Under the id of its time; with a mark, when somebody has that already."""
        subscription, when = self._subscription, self._state.scheduled_at
        summary = f"{subscription.task.type} of subscription {subscription.id}"
        attributes = TypedSearchAttributes(
            [SearchAttributePair(OF, subscription.id), SearchAttributePair(REGION, subscription.region)]
        )
        for mark in ("", workflow.info().run_id[:MARK]):
            task_id = task_id_of(subscription.id, when, mark)
            try:
                task = await start_task(task_id, _spec(subscription), summary, attributes)
            except WorkflowAlreadyStartedError:
                continue
            self._state.task_id = task_id
            self._show()
            return task
        return None

    async def _watch(self, ending: "asyncio.Future[str]") -> None:
        """Until its task ended, is to be cancelled, or this run is to go on in a new one.

        A task that waits for too long is reported.
        """
        limit_s = self._subscription.stuck_after_s
        if limit_s == 0:
            await workflow.wait_condition(lambda: self._has_news(ending))
            return
        pause_s = float(limit_s)
        while not await self._over(ending, pause_s):
            found = await self._look()
            now = workflow.now()
            least_s = max(min(LOOK_AGAIN_S, limit_s), (now - self._state.started_at).total_seconds() / LOOKS_PER_LIFE)
            pause_s = least_s
            if found is not None:
                stuck = found.is_stuck(limit_s, now)
                self._report(found if stuck else None)
                pause_s = least_s if stuck else max(least_s, limit_s - found.waited_s(now))

    def _has_news(self, ending: "asyncio.Future[str]") -> bool:
        return ending.done() or self._stop is not None or self._must_continue()

    async def _over(self, ending: "asyncio.Future[str]", seconds: float) -> bool:
        """False: the time is over before."""
        with suppress(asyncio.TimeoutError):
            await workflow.wait_condition(
                lambda: self._has_news(ending),
                timeout=seconds,
                timeout_summary="looks whether its task is stuck",
            )
        return self._has_news(ending)

    async def _look(self) -> WaitingTask | None:
        """None: not known. Its task goes on, and the next look may tell."""
        try:
            return await calls.execute_activity(
                "look_at_task",
                TaskLook(task_id=self._state.task_id),
                WaitingTask,
                summary="looks since when its task waits",
                start_to_close_timeout=options.PLANNING_TIMEOUT,
                retry_policy=options.PLANNING_RETRY,
            )
        except ActivityError as error:
            workflow.logger.warning("task %s cannot be looked at: %s", self._state.task_id, error.cause)
            return None

    def _report(self, stuck: WaitingTask | None) -> None:
        """For lists, metrics and readers; and, where that is wanted, the end of its task."""
        if (self._state.stuck is None) is not (stuck is None):
            found = [TAGS.value_set([names.STUCK_TAG]), REGION.value_set(self._subscription.region)]
            workflow.upsert_search_attributes(found if stuck else [TAGS.value_unset()])
        if stuck is not None and not self._state.was_stuck:
            self._state.was_stuck, self._state.stuck_tasks = True, self._state.stuck_tasks + 1
        self._state.stuck = stuck
        self._show()
        if stuck is None:
            return
        what = f"{stuck.state} since {stuck.since:%Y-%m-%d %H:%M:%S %Z}"
        workflow.logger.warning(
            "task %s of subscription %s is stuck: %s: %s", stuck.task_id, self._subscription.id, what, stuck.why
        )
        if self._subscription.on_stuck is OnStuck.CANCEL:
            reason = f"{what}, for longer than {self._subscription.stuck_after_s} s"
            self._stop = OperatorRequest(actor=SYSTEM, reason=reason)

    def _end(self, outcome: str) -> bool:
        self._state.ended_at, self._state.outcome = workflow.now(), str(outcome)
        self._state.stuck = None
        self._show()
        return True

    def _show(self) -> None:
        """For readers without a worker, and for the Web UI."""
        now, missed = self._state, self._state.catch_up.missed
        workflow.upsert_memo({names.MEMO_SUBSCRIPTION_RUN: now.model_dump(mode="json")})
        lines = [f"**{now.outcome or 'running'}**: subscription {self._subscription.id}, due {now.scheduled_at}"]
        lines += [f"- task {now.task_id}"] if now.task_id else []
        if stuck := now.stuck:
            lines.append(f"- stuck: {stuck.state} since {stuck.since}: {stuck.why}")
        lines += [f"- {missed} runs missed so far"] if missed else []
        workflow.set_current_details("\n".join(lines))


def _before() -> SubscriptionRunState | None:
    """The result of the run before. Anybody may start a run, with anything."""
    before = workflow.get_last_completion_result()
    if isinstance(before, RawValue) and (key := missing_key_of(before.payload)):
        raise locked_value("the result of the run before", key)
    try:
        return inbound.check(SubscriptionRunState, before)
    except inbound.UnreadableError:
        return None


def _spec(subscription: Subscription) -> TaskSpec:
    """A mutex of its own: no two tasks of a subscription run at once, whatever the schedule thinks."""
    task = subscription.task
    mutex = (*task.mutex, subscription_mutex(subscription.id))
    return task.model_copy(update={"mutex": mutex, "actor": f"subscription:{subscription.id}"})


async def _pass_on(task_id: str, request: OperatorRequest) -> None:
    """It may just have ended."""
    try:
        await workflow.get_external_workflow_handle(task_id).signal(names.Signal.CANCEL.value, request)
    except FailureError as error:
        workflow.logger.info("its task is not there to be cancelled: %s", error)


async def _end_of(task: Task) -> str:
    """How it ended, in one word."""
    try:
        return (await task).state
    except ChildWorkflowError as error:
        cause = error.cause
    if isinstance(cause, CancelledError):
        return TaskStatus.CANCELLED
    if isinstance(cause, TerminatedError):
        return "terminated"
    if isinstance(cause, ApplicationError) and cause.details and isinstance(cause.details[0], dict):
        return str(cause.details[0].get("state", TaskStatus.FAILED))[:OUTCOME_MAX]
    return TaskStatus.FAILED
