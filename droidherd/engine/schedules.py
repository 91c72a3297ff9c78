"""Subscriptions, kept as Temporal schedules: made, read, changed, triggered, deleted, listed."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeAlias, TypeVar

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.schedule.v1 import Schedule, ScheduleInfo, ScheduleListEntry, SchedulePatch
from temporalio.api.workflowservice.v1 import (
    CreateScheduleRequest,
    DeleteScheduleRequest,
    DescribeScheduleRequest,
    ListSchedulesRequest,
    PatchScheduleRequest,
    UpdateScheduleRequest,
)
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.converter import decode_typed_search_attributes, encode_search_attributes
from temporalio.service import RPCError, RPCStatusCode

from droidherd.contracts import names
from droidherd.contracts.inbound import checked
from droidherd.contracts.names import Attribute, Update, Workflow
from droidherd.contracts.subscriptions import (
    AuditLine,
    Subscription,
    SubscriptionRow,
    SubscriptionRunState,
    scheduled_at,
)
from droidherd.contracts.tasks import Admission, OperatorRequest
from droidherd.domain.errors import BadParametersError
from droidherd.engine import memos
from droidherd.engine.errors import (
    CursorError,
    EngineError,
    IdTakenError,
    NotFoundError,
    OverloadedError,
    RequestFailedError,
    UnreadableScheduleError,
    limit_call,
)
from droidherd.engine.schedule_spec import attributes_of, schedule_of
from droidherd.engine.task_options import KEYWORD
from droidherd.engine.visibility import as_cursor, from_cursor, quote, running
from droidherd.engine.workflow_calls import REPEAT_EVERY_S

Answer = TypeVar("Answer")

SCHEDULE_S = 5.0
TRIES = 10
LOOKS = 3
STUCK_SHOWN = 1_000


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that was started."""

    workflow_id: str
    run_id: str
    scheduled_at: datetime


@dataclass(frozen=True, slots=True)
class SubscriptionReading:
    """A subscription as its schedule stands."""

    subscription: Subscription
    paused: bool
    note: str
    token: bytes
    """Of this state: a change made on top of another one is refused."""
    next_times: tuple[datetime, ...] = ()
    started: int = 0
    waiting: int = 0
    skipped: int = 0
    """By the overlap policy, as Temporal counts."""
    dropped: int = 0
    begun: tuple[StartedRun, ...] = ()
    """The last ones, oldest first."""
    last: SubscriptionRunState | None = None
    """The last run that wrote down its state."""
    busy: bool = False
    ended_at: datetime | None = None
    """When the last run ended."""
    made: AuditLine | None = None
    """The change that was just made, among those that others make."""

    @property
    def recorded(self) -> int:
        """Grows whenever Temporal recorded a run, whatever became of it."""
        return self.started + self.waiting + self.skipped + self.dropped


@dataclass(frozen=True, slots=True)
class SubscriptionEdit:
    """A subscription as it is to be. Its last change says by its id whether it counted."""

    subscription: Subscription
    paused: bool
    note: str


EditFunction: TypeAlias = "Callable[[SubscriptionReading], SubscriptionEdit | Awaitable[SubscriptionEdit]]"


class ManualRunOutcome(StrEnum):
    """What became of a run by hand that did not start at once."""

    WAITING = "waiting"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class SubscriptionFilters:
    """Which subscriptions to list."""

    type: str = ""
    account: str = ""
    paused: bool | None = None


class SubscriptionsClient:
    """Every method is bounded in time, and raises an EngineError."""

    def __init__(self, client: Client, workflow_task_s: float) -> None:
        """The client carries the data converter and the retry limits."""
        self._client = client
        self._workflow_task_s = workflow_task_s

    async def create(self, wanted: SubscriptionEdit) -> None:
        """IdTakenError: there is one of this id."""
        subscription = wanted.subscription
        request = CreateScheduleRequest(
            namespace=self._client.namespace,
            schedule_id=names.subscription_id(subscription.id),
            schedule=await self._schedule(wanted),
            identity=self._client.identity,
            request_id=subscription.changes[-1].id,
        )
        encode_search_attributes(attributes_of(subscription), request.search_attributes)
        async with limit_call(SCHEDULE_S):
            try:
                await self._client.workflow_service.create_schedule(request, retry=True)
            except RPCError as error:
                if error.status == RPCStatusCode.ALREADY_EXISTS:
                    raise IdTakenError(subscription.id) from error
                _refuse(error)
                raise

    async def read(self, subscription_id: str) -> SubscriptionReading:
        """With its last run."""
        found = await self._describe(subscription_id)
        busy, ended = False, None
        for begun in reversed(found.begun):
            try:
                async with limit_call(SCHEDULE_S):
                    known = await self._client.get_workflow_handle(begun.workflow_id, run_id=begun.run_id).describe()
            except NotFoundError:  # longer ago than Temporal keeps anything
                continue
            if begun is found.begun[-1]:
                busy, ended = known.status == WorkflowExecutionStatus.RUNNING, known.close_time
            state = await memos.read(known, names.MEMO_SUBSCRIPTION_RUN, SubscriptionRunState)
            if state is not None:
                return replace(found, last=state, busy=busy, ended_at=ended)
        return replace(found, busy=busy, ended_at=ended)

    async def change(self, subscription_id: str, edit: EditFunction) -> SubscriptionReading:
        """Read, edit, write; again when another request was faster. An edit that changes nothing writes nothing."""
        for number in range(TRIES):
            found = await self.read(subscription_id)
            edited = edit(found)
            wanted = edited if isinstance(edited, SubscriptionEdit) else await edited
            if wanted.subscription is found.subscription:
                return found
            await self._update(found, wanted)
            now = await self.read(subscription_id)
            # Temporal drops a change that was made for another state of the schedule, and returns no error.
            made = wanted.subscription.changes[-1]
            if made.id in {one.id for one in now.subscription.changes}:
                return replace(now, made=made)
            await _back_off(number)
        raise OverloadedError(f"subscription {subscription_id} is being changed by others; try again")

    async def trigger(self, subscription_id: str, at: datetime) -> StartedRun | ManualRunOutcome:
        """Run now, under this moment. Two orders that arrive together overwrite each other, so it is looked after."""
        patch = SchedulePatch()
        patch.trigger_immediately.scheduled_time.FromDatetime(at)
        request = PatchScheduleRequest(
            namespace=self._client.namespace, schedule_id=names.subscription_id(subscription_id), patch=patch
        )
        before = await self._describe(subscription_id)
        for number in range(TRIES):
            await _repeat(lambda: self._client.workflow_service.patch_schedule(request, retry=True))
            for _ in range(LOOKS):
                outcome = _outcome(before, await self._describe(subscription_id), at)
                if outcome is not None:
                    return outcome
                await asyncio.sleep(REPEAT_EVERY_S)
            await _back_off(number)
        raise RequestFailedError(f"Temporal did not take the request to run {subscription_id}; try again")

    async def task_of(self, run: StartedRun, seconds: float) -> str:
        """The task this run started; empty: it has not said within this time."""
        handle = self._client.get_workflow_handle(run.workflow_id, run_id=run.run_id)
        with suppress(TimeoutError, EngineError):
            async with asyncio.timeout(seconds):
                while True:
                    async with limit_call(SCHEDULE_S):
                        known = await handle.describe()
                    state = await memos.read(known, names.MEMO_SUBSCRIPTION_RUN, SubscriptionRunState)
                    if (state is not None and state.task_id) or known.status != WorkflowExecutionStatus.RUNNING:
                        return state.task_id if state else ""
                    await asyncio.sleep(REPEAT_EVERY_S)
        return ""

    async def admission(self, task_id: str, seconds: float) -> Admission | None:
        """What became of the submission of its task. None: no answer within this time."""
        handle = self._client.get_workflow_handle(task_id)
        try:
            async with limit_call(seconds, worker=True):
                return await handle.execute_update(
                    Update.ADMISSION.value, id=secrets.token_hex(16), result_type=Admission
                )
        except (EngineError, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError):
            return None

    async def delete(self, found: SubscriptionReading, stop: OperatorRequest | None) -> None:
        """The schedule goes; with `stop`, the task that runs is cancelled first."""
        if found.busy and stop is not None:
            begun = found.begun[-1]
            handle = self._client.get_workflow_handle(begun.workflow_id, run_id=begun.run_id)
            with suppress(NotFoundError):  # it has just ended
                async with limit_call(SCHEDULE_S):
                    await handle.signal(names.Signal.CANCEL.value, stop)
        await self.delete_unread(found.subscription.id)

    async def delete_unread(self, subscription_id: str) -> None:
        """The schedule alone, whatever it says."""
        request = DeleteScheduleRequest(
            namespace=self._client.namespace,
            schedule_id=names.subscription_id(subscription_id),
            identity=self._client.identity,
        )
        with suppress(NotFoundError):  # another request deleted it meanwhile
            async with limit_call(SCHEDULE_S):
                await self._client.workflow_service.delete_schedule(request, retry=True)

    async def page(self, filters: SubscriptionFilters, cursor: str, limit: int) -> tuple[list[SubscriptionRow], str]:
        """One page of the list, and the cursor of the next."""
        query = _query(filters)
        token = from_cursor(cursor, query)
        request = ListSchedulesRequest(
            namespace=self._client.namespace, maximum_page_size=limit, next_page_token=token or b"", query=query
        )
        try:
            async with limit_call(SCHEDULE_S):
                page = await self._client.workflow_service.list_schedules(request, retry=True)
        except (NotFoundError, RequestFailedError) as error:
            if token is None:
                raise
            raise CursorError("the cursor has expired: start again at the first page") from error
        return [_row(one) for one in page.schedules], as_cursor(page.next_page_token or None, query)

    async def stuck(self, region: str) -> set[str]:
        """The subscriptions whose run found its task stuck when it looked last."""
        query = f"{running(Workflow.SUBSCRIPTION_RUN)} AND {Attribute.TAGS} = {quote(names.STUCK_TAG)}"
        if region:
            query += f" AND {Attribute.REGION} = {quote(region)}"
        async with limit_call(SCHEDULE_S):
            rows = [row async for row in self._client.list_workflows(query, limit=STUCK_SHOWN)]
        return {row.typed_search_attributes.get(KEYWORD[Attribute.SUBSCRIPTION_ID], "") for row in rows} - {""}

    # --- how it is asked --------------------------------------------------------------------------------------

    async def _describe(self, subscription_id: str) -> SubscriptionReading:
        request = DescribeScheduleRequest(
            namespace=self._client.namespace, schedule_id=names.subscription_id(subscription_id)
        )
        try:
            answer = await _repeat(lambda: self._client.workflow_service.describe_schedule(request, retry=True))
        except NotFoundError as error:
            raise NotFoundError(f"no subscription `{subscription_id}`") from error
        action = answer.schedule.action.start_workflow
        if action.workflow_type.name != Workflow.SUBSCRIPTION_RUN:
            raise NotFoundError(f"schedule `{subscription_id}` was not made by droidherd")
        payloads = action.input.payloads
        try:
            (subscription,) = await self._client.data_converter.decode(payloads, [Subscription])
            checked(subscription)
        except memos.UNREADABLE as error:
            text = f"the schedule of `{subscription_id}` was not made by droidherd: DELETE removes it"
            raise UnreadableScheduleError(text) from error
        if subscription.id != subscription_id:
            raise UnreadableScheduleError(f"the schedule of `{subscription_id}` is that of another: DELETE removes it")
        return _reading_of(subscription, answer.schedule, answer.info, answer.conflict_token)

    async def _update(self, found: SubscriptionReading, wanted: SubscriptionEdit) -> None:
        request = UpdateScheduleRequest(
            namespace=self._client.namespace,
            schedule_id=names.subscription_id(wanted.subscription.id),
            schedule=await self._schedule(wanted),
            conflict_token=found.token,
            identity=self._client.identity,
            request_id=wanted.subscription.changes[-1].id,
        )
        encode_search_attributes(attributes_of(wanted.subscription), request.search_attributes)
        try:
            await _repeat(lambda: self._client.workflow_service.update_schedule(request, retry=True))
        except NotFoundError as error:
            if isinstance(error.__cause__, RPCError):
                _refuse(error.__cause__)
            raise

    async def _schedule(self, wanted: SubscriptionEdit) -> Schedule:
        return await schedule_of(
            wanted.subscription,
            self._client.data_converter,
            paused=wanted.paused,
            note=wanted.note,
            workflow_task_s=self._workflow_task_s,
        )


async def _repeat(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Repeat a call that Temporal turns away: it answers one call about a schedule at a time."""
    for number in range(TRIES):
        with suppress(OverloadedError):
            async with limit_call(SCHEDULE_S):
                return await ask()
        await _back_off(number)
    raise OverloadedError("Temporal has too much to do")


async def _back_off(number: int) -> None:
    """Wait a random time, longer each time: processes that write together would overwrite each other again."""
    await asyncio.sleep(REPEAT_EVERY_S * (1 + secrets.randbelow(3 * (number + 1))))


def _outcome(
    before: SubscriptionReading, now: SubscriptionReading, at: datetime
) -> StartedRun | ManualRunOutcome | None:
    """What became of the run of this moment. None: Temporal has not recorded it."""
    begun = next((one for one in now.begun if one.scheduled_at == at), None)
    if begun is not None or now.recorded <= before.recorded:
        return begun
    if now.skipped > before.skipped:
        return ManualRunOutcome.SKIPPED
    return ManualRunOutcome.WAITING if now.waiting else None


def _refuse(error: RPCError) -> None:
    """Raise what our own checks let through and Temporal refuses: it may know other time zones."""
    if error.status == RPCStatusCode.INVALID_ARGUMENT:
        where = "time_zone" if "time zone" in error.message else "cron"
        raise BadParametersError(f"Temporal refuses it: {error.message}", to=where) from error


def _reading_of(
    subscription: Subscription, schedule: Schedule, info: ScheduleInfo, token: bytes
) -> SubscriptionReading:
    begun: list[StartedRun] = []
    for one in info.recent_actions:
        run = one.start_workflow_result
        when = scheduled_at(run.workflow_id) or _moment(one.schedule_time)
        begun.append(StartedRun(run.workflow_id, run.run_id, when))
    return SubscriptionReading(
        subscription=subscription,
        paused=schedule.state.paused,
        note=schedule.state.notes,
        token=token,
        next_times=() if schedule.state.paused else _moments(info.future_action_times),
        started=info.action_count,
        waiting=info.buffer_size,
        skipped=info.overlap_skipped,
        dropped=info.buffer_dropped,
        begun=tuple(begun),
    )


def _query(filters: SubscriptionFilters) -> str:
    parts = [f"{Attribute.SUBSCRIPTION_ID} IS NOT NULL"]
    if filters.type:
        parts.append(f"{Attribute.TASK_TYPE} = {quote(filters.type)}")
    if filters.account:
        parts.append(f"{Attribute.ACCOUNT_ID} = {quote(filters.account)}")
    if filters.paused is not None:
        parts.append(f"TemporalSchedulePaused = {str(filters.paused).lower()}")
    return " AND ".join(parts)


def _row(entry: ScheduleListEntry) -> SubscriptionRow:
    """What the list knows; one subscription is known whole when it is read."""
    known, info = decode_typed_search_attributes(entry.search_attributes), entry.info
    calendars, intervals = info.spec.structured_calendar, info.spec.interval
    return SubscriptionRow(
        id=entry.schedule_id.removeprefix(names.subscription_id("")),
        type=known.get(KEYWORD[Attribute.TASK_TYPE]) or "",
        account=known.get(KEYWORD[Attribute.ACCOUNT_ID]) or "",
        pool=known.get(KEYWORD[Attribute.POOL_ID]) or "",
        cron=calendars[0].comment if calendars else "",
        every_s=intervals[0].interval.ToSeconds() if intervals else 0,
        time_zone=info.spec.timezone_name or "UTC",
        paused=info.paused,
        note=info.notes,
        next_times=() if info.paused else _moments(info.future_action_times),
        last_times=_moments([one.schedule_time for one in info.recent_actions]),
    )


def _moments(given: Iterable[Timestamp]) -> tuple[datetime, ...]:
    return tuple(map(_moment, given))


def _moment(given: Timestamp) -> datetime:
    return given.ToDatetime(tzinfo=UTC)
