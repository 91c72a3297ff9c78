"""A subscription as a Temporal schedule."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from temporalio.api.common.v1 import Payloads, WorkflowType
from temporalio.api.enums.v1 import ScheduleOverlapPolicy
from temporalio.api.schedule.v1 import (
    IntervalSpec,
    Range,
    Schedule,
    ScheduleAction,
    SchedulePolicies,
    ScheduleSpec,
    ScheduleState,
    StructuredCalendarSpec,
)
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflow.v1 import NewWorkflowExecutionInfo
from temporalio.common import TypedSearchAttributes
from temporalio.converter import DataConverter, encode_search_attributes

from droidherd.contracts import names
from droidherd.contracts.names import Attribute
from droidherd.contracts.subscriptions import Subscription
from droidherd.domain.schedule.catchup import Overlap
from droidherd.domain.schedule.timetable import Cron, read_cron
from droidherd.engine.task_options import keywords

POLICIES = {
    Overlap.SKIP: ScheduleOverlapPolicy.SCHEDULE_OVERLAP_POLICY_SKIP,
    Overlap.BUFFER_ONE: ScheduleOverlapPolicy.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE,
    Overlap.BUFFER_ALL: ScheduleOverlapPolicy.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL,
    Overlap.CANCEL_OTHER: ScheduleOverlapPolicy.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER,
}
EVERY_DAY = tuple(range(1, 32))
EVERY_WEEKDAY = tuple(range(7))


async def schedule_of(
    subscription: Subscription, converter: DataConverter, *, paused: bool, note: str, workflow_task_s: float
) -> Schedule:
    """The whole schedule. The subscription travels as the argument of its runs: so Temporal keeps it."""
    action = NewWorkflowExecutionInfo(
        workflow_id=names.subscription_run_id(subscription.id),
        workflow_type=WorkflowType(name=names.Workflow.SUBSCRIPTION_RUN),
        task_queue=TaskQueue(name=names.QUEUE),
        input=Payloads(payloads=await converter.encode([subscription])),
    )
    action.workflow_task_timeout.FromMilliseconds(int(workflow_task_s * 1000))
    encode_search_attributes(keywords({Attribute.SUBSCRIPTION_ID: subscription.id}), action.search_attributes)
    (summary,) = await converter.encode([f"{subscription.task.type} of subscription {subscription.id}"])
    action.user_metadata.summary.CopyFrom(summary)
    policies = SchedulePolicies(overlap_policy=POLICIES[subscription.overlap])
    policies.catchup_window.FromSeconds(subscription.catch_up_s)
    return Schedule(
        spec=_spec(subscription),
        action=ScheduleAction(start_workflow=action),
        policies=policies,
        state=ScheduleState(paused=paused, notes=note),
    )


def attributes_of(subscription: Subscription) -> TypedSearchAttributes:
    """Of the schedule itself, so that lists of subscriptions can be filtered."""
    task = subscription.task
    return keywords(
        {
            Attribute.SUBSCRIPTION_ID: subscription.id,
            Attribute.TASK_TYPE: task.type,
            Attribute.ACCOUNT_ID: task.account,
            Attribute.POOL_ID: task.pool,
        }
    )


def _spec(subscription: Subscription) -> ScheduleSpec:
    spec = ScheduleSpec(timezone_name="" if subscription.every_s else subscription.time_zone)
    if subscription.jitter_s:
        spec.jitter.FromSeconds(subscription.jitter_s)
    if subscription.every_s:
        interval = IntervalSpec()
        interval.interval.FromSeconds(subscription.every_s)
        interval.phase.FromSeconds(subscription.offset_s)
        spec.interval.append(interval)
    else:
        spec.structured_calendar.extend(_calendars(read_cron(subscription.cron), subscription.cron))
    return spec


def _calendars(cron: Cron, text: str) -> Iterable[StructuredCalendarSpec]:
    """All fields of a Temporal calendar must match, so `either kind of day` takes two calendars."""
    kinds = [(cron.days, cron.weekdays)]
    if cron.either:
        kinds = [(cron.days, EVERY_WEEKDAY), (EVERY_DAY, cron.weekdays)]
    for days, weekdays in kinds:
        yield StructuredCalendarSpec(
            second=[Range()],
            minute=_ranges(cron.minutes),
            hour=_ranges(cron.hours),
            day_of_month=_ranges(days),
            month=_ranges(cron.months),
            day_of_week=_ranges(weekdays),
            comment=text,
        )


def _ranges(values: Sequence[int]) -> list[Range]:
    """Neighbours together."""
    breaks = [0, *(n + 1 for n, (one, other) in enumerate(pairwise(values)) if other != one + 1), len(values)]
    return [Range(start=values[begin], end=values[end - 1], step=1) for begin, end in pairwise(breaks)]
