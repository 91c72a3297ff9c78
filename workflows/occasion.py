"""One run of a subscription: starts its task under a proper id, and lasts as long as the task does.

The schedule looks at occasions to see whether the run before has ended. An occasion never fails: however its task ends,
it says so and completes, and hands what was missed so far to the next one.
"""

import asyncio

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    ChildWorkflowError,
    FailureError,
    TerminatedError,
    WorkflowAlreadyStartedError,
)

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts import names
    from droidherd.contracts.subscriptions import (
        SYSTEM,
        Occasion,
        ReckonWork,
        Subscription,
        scheduled_at,
        task_id_of,
    )
    from droidherd.contracts.tasks import Ask, TaskSpec
    from droidherd.domain.keys import subscription_mutex
    from droidherd.domain.lifecycle import TaskState
    from droidherd.domain.reckoning import Overlap, Reckoning, latest
    from workflows import options
    from workflows.children import Task, start_task

OF = SearchAttributeKey.for_keyword(names.Attribute.SUBSCRIPTION_ID)
REGION = SearchAttributeKey.for_keyword(names.Attribute.REGION)
MARK = 6
"""Characters of the run id that tell two occasions of the same second apart."""


@workflow.defn(name=names.Workflow.OCCASION)
class OccasionWorkflow:
    """From the time it is due to the end of its task."""

    @workflow.init
    def __init__(self, subscription: Subscription) -> None:
        """Nothing is started yet."""
        self._subscription = subscription
        self._stop: Ask | None = None
        info = workflow.info()
        self._occasion = Occasion(
            scheduled_at=scheduled_at(info.workflow_id) or info.workflow_start_time,
            started_at=info.workflow_start_time,
            reckoning=subscription.reckoning,
        )

    @workflow.run
    async def run(self, subscription: Subscription) -> Occasion:
        life = asyncio.create_task(self._live())
        while not life.done():
            try:
                await workflow.wait_condition(life.done)
            except asyncio.CancelledError:
                next_one = subscription.overlap is Overlap.CANCEL_OTHER
                self.cancel(Ask(actor=SYSTEM, reason="the next run is due" if next_one else "cancelled on the engine"))
        return await life

    @workflow.signal
    def cancel(self, ask: Ask) -> None:
        """Cancel the task, or do not start it."""
        self._stop = self._stop or ask

    async def _live(self) -> Occasion:
        await self._reckon()
        self._show()
        if self._stop:
            return self._ended(TaskState.CANCELLED)
        task = await self._start()
        if task is None:
            return self._ended("id_taken")
        await workflow.wait_condition(lambda: task.done() or self._stop is not None)
        if self._stop and not task.done():
            await _pass_on(task, self._stop)
        return self._ended(await _end_of(task))

    async def _reckon(self) -> None:
        """What was due since the occasion before and did not run. The run at hand matters more than the books."""
        before = _before()
        known = [one.reckoning for one in (before, self._subscription) if one is not None]
        try:
            reckoning = await workflow.execute_local_activity(
                "reckon",
                ReckonWork(
                    subscription=self._subscription,
                    scheduled_at=self._occasion.scheduled_at,
                    started_at=self._occasion.started_at,
                    before=before,
                ),
                result_type=Reckoning,
                start_to_close_timeout=options.PLANNING_TIMEOUT,
                retry_policy=options.PLANNING_RETRY,
            )
        except FailureError as error:
            cause = error.cause if isinstance(error, ActivityError) else error
            workflow.logger.error("what was missed is not known, the next occasion tries again: %s", cause)
            reckoning = latest(*known)
        self._occasion = self._occasion.model_copy(update={"reckoning": reckoning})

    async def _start(self) -> Task | None:
        """Under the id of its time; with a mark, when somebody has that already."""
        subscription, when = self._subscription, self._occasion.scheduled_at
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
            self._occasion = self._occasion.model_copy(update={"task_id": task_id})
            self._show()
            return task
        return None

    def _ended(self, outcome: str) -> Occasion:
        ended = {"ended_at": workflow.now(), "outcome": str(outcome)}
        self._occasion = self._occasion.model_copy(update=ended)
        self._show()
        return self._occasion

    def _show(self) -> None:
        """For readers without a worker, and for the Web UI."""
        now, missed = self._occasion, self._occasion.reckoning.missed
        workflow.upsert_memo({names.MEMO_OCCASION: now.model_dump(mode="json")})
        lines = [f"**{now.outcome or 'running'}**: subscription {self._subscription.id}, due {now.scheduled_at}"]
        lines += [f"- task {now.task_id}"] if now.task_id else []
        lines += [f"- {missed} runs missed so far"] if missed else []
        workflow.set_current_details("\n".join(lines))


def _before() -> Occasion | None:
    """What the occasion before handed over. Anybody may start an occasion, with anything."""
    try:
        return Occasion.model_validate(workflow.get_last_completion_result())
    except ValidationError:
        return None


def _spec(subscription: Subscription) -> TaskSpec:
    """A mutex of its own: no two tasks of a subscription run at once, whatever the schedule thinks."""
    task = subscription.task
    mutex = (*task.mutex, subscription_mutex(subscription.id))
    return task.model_copy(update={"mutex": mutex, "actor": f"subscription:{subscription.id}"})


async def _pass_on(task: Task, ask: Ask) -> None:
    """It may just have ended."""
    try:
        await task.signal(names.Signal.CANCEL.value, ask)
    except FailureError as error:
        workflow.logger.info("its task is not there to be cancelled: %s", error)


async def _end_of(task: Task) -> str:
    """How it ended, in one word."""
    try:
        return (await task).state
    except ChildWorkflowError as error:
        cause = error.cause
    if isinstance(cause, CancelledError):
        return TaskState.CANCELLED
    if isinstance(cause, TerminatedError):
        return "terminated"
    if isinstance(cause, ApplicationError) and cause.details and isinstance(cause.details[0], dict):
        return str(cause.details[0].get("state", TaskState.FAILED))
    return TaskState.FAILED
