"""The door's adapter to the engine's schedules: the only place that speaks to Temporal about subscriptions."""

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

from api import engine as e
from api.asking import asking
from api.scheduling import attributes_of, schedule_of
from api.starting import KEYWORD
from api.visibility import as_cursor, from_cursor, quoted
from droidherd.contracts import names
from droidherd.contracts.names import Attribute, Update
from droidherd.contracts.subscriptions import AuditLine, Occasion, Subscription, SubscriptionRow, scheduled_at
from droidherd.contracts.tasks import Admission, Ask
from droidherd.domain.errors import BadParametersError

Answer = TypeVar("Answer")

ENGINE_S = 5.0
TRIES = 10
LOOKS = 3
REPEAT_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Begun:
    """An occasion that was started."""

    workflow_id: str
    run_id: str
    scheduled_at: datetime


@dataclass(frozen=True, slots=True)
class Found:
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
    """By overlap, as the engine counts."""
    dropped: int = 0
    begun: tuple[Begun, ...] = ()
    """The last ones, oldest first."""
    last: Occasion | None = None
    """The last occasion that said anything."""
    busy: bool = False
    ended_at: datetime | None = None
    """When the last occasion ended."""
    made: AuditLine | None = None
    """The change that was just made, among those that others make."""

    @property
    def heard(self) -> int:
        """Grows whenever the engine took notice of a run."""
        return self.started + self.waiting + self.skipped + self.dropped


@dataclass(frozen=True, slots=True)
class Edited:
    """A subscription as it is to be. Its last change says by its id whether it counted."""

    subscription: Subscription
    paused: bool
    note: str


Edit: TypeAlias = "Callable[[Found], Edited | Awaitable[Edited]]"


class Took(StrEnum):
    """What became of a run by hand that did not start at once."""

    WAITING = "waiting"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class RowFilters:
    """Which subscriptions to list."""

    type: str = ""
    account: str = ""
    paused: bool | None = None


class Schedules:
    """Subscriptions, kept as schedules of the engine."""

    def __init__(self, client: Client, workflow_task_s: float) -> None:
        """The client carries the data converter and the retry limits."""
        self._client = client
        self._workflow_task_s = workflow_task_s

    async def create(self, wanted: Edited) -> None:
        """TakenError: there is one of this id."""
        subscription = wanted.subscription
        request = CreateScheduleRequest(
            namespace=self._client.namespace,
            schedule_id=names.subscription_id(subscription.id),
            schedule=await self._schedule(wanted),
            identity=self._client.identity,
            request_id=subscription.changes[-1].id,
        )
        encode_search_attributes(attributes_of(subscription), request.search_attributes)
        async with asking(ENGINE_S):
            try:
                await self._client.workflow_service.create_schedule(request, retry=True)
            except RPCError as error:
                if error.status == RPCStatusCode.ALREADY_EXISTS:
                    raise e.TakenError(subscription.id) from error
                _refuse(error)
                raise

    async def read(self, subscription_id: str) -> Found:
        """With its last occasion."""
        found = await self._describe(subscription_id)
        busy, ended = False, None
        for begun in reversed(found.begun):
            try:
                async with asking(ENGINE_S):
                    known = await self._client.get_workflow_handle(begun.workflow_id, run_id=begun.run_id).describe()
            except e.MissingError:  # longer ago than the engine keeps anything
                continue
            if begun is found.begun[-1]:
                busy, ended = known.status == WorkflowExecutionStatus.RUNNING, known.close_time
            said = await known.memo_value(names.MEMO_OCCASION, None, type_hint=Occasion)
            if said is not None:
                return replace(found, last=said, busy=busy, ended_at=ended)
        return replace(found, busy=busy, ended_at=ended)

    async def change(self, subscription_id: str, edit: Edit) -> Found:
        """Read, edit, write; again when somebody else was faster. An edit that changes nothing writes nothing."""
        for number in range(TRIES):
            found = await self.read(subscription_id)
            edited = edit(found)
            wanted = edited if isinstance(edited, Edited) else await edited
            if wanted.subscription is found.subscription:
                return found
            await self._update(found, wanted)
            now = await self.read(subscription_id)
            # The engine drops a change that does not fit the state it was made for, and says nothing.
            made = wanted.subscription.changes[-1]
            if made.id in {one.id for one in now.subscription.changes}:
                return replace(now, made=made)
            await _step_aside(number)
        raise e.OverloadedError(f"subscription {subscription_id} is being changed by others; try again")

    async def trigger(self, subscription_id: str, at: datetime) -> Begun | Took:
        """Run now, under this moment. Two orders that arrive together overwrite each other, so it is looked after."""
        patch = SchedulePatch()
        patch.trigger_immediately.scheduled_time.FromDatetime(at)
        request = PatchScheduleRequest(
            namespace=self._client.namespace, schedule_id=names.subscription_id(subscription_id), patch=patch
        )
        before = await self._describe(subscription_id)
        for number in range(TRIES):
            await _patiently(lambda: self._client.workflow_service.patch_schedule(request, retry=True))
            for _ in range(LOOKS):
                took = _took(before, await self._describe(subscription_id), at)
                if took is not None:
                    return took
                await asyncio.sleep(REPEAT_EVERY_S)
            await _step_aside(number)
        raise e.BrokenError(f"the engine did not take the order to run {subscription_id}; try again")

    async def task_of(self, occasion: Begun, seconds: float) -> str:
        """The task this occasion started; empty: it has not said within this time."""
        handle = self._client.get_workflow_handle(occasion.workflow_id, run_id=occasion.run_id)
        with suppress(TimeoutError, e.EngineError):
            async with asyncio.timeout(seconds):
                while True:
                    async with asking(ENGINE_S):
                        known = await handle.describe()
                    said = await known.memo_value(names.MEMO_OCCASION, None, type_hint=Occasion)
                    if (said is not None and said.task_id) or known.status != WorkflowExecutionStatus.RUNNING:
                        return said.task_id if said else ""
                    await asyncio.sleep(REPEAT_EVERY_S)
        return ""

    async def verdict(self, task_id: str, seconds: float) -> Admission | None:
        """What became of the submission of its task. None: nobody has said so within this time."""
        handle = self._client.get_workflow_handle(task_id)
        try:
            async with asking(seconds, worker=True):
                return await handle.execute_update(
                    Update.ADMISSION.value, id=secrets.token_hex(16), result_type=Admission
                )
        except (e.EngineError, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError):
            return None

    async def delete(self, found: Found, stop: Ask | None) -> None:
        """The schedule goes; with `stop`, the task that runs is cancelled first."""
        if found.busy and stop is not None:
            begun = found.begun[-1]
            handle = self._client.get_workflow_handle(begun.workflow_id, run_id=begun.run_id)
            with suppress(e.MissingError):  # it has just ended
                async with asking(ENGINE_S):
                    await handle.signal(names.Signal.CANCEL.value, stop)
        request = DeleteScheduleRequest(
            namespace=self._client.namespace,
            schedule_id=names.subscription_id(found.subscription.id),
            identity=self._client.identity,
        )
        with suppress(e.MissingError):  # somebody else deleted it meanwhile
            async with asking(ENGINE_S):
                await self._client.workflow_service.delete_schedule(request, retry=True)

    async def page(self, filters: RowFilters, cursor: str, limit: int) -> tuple[list[SubscriptionRow], str]:
        """One page of the list, and the cursor of the next."""
        query = _query(filters)
        token = from_cursor(cursor, query)
        request = ListSchedulesRequest(
            namespace=self._client.namespace, maximum_page_size=limit, next_page_token=token or b"", query=query
        )
        try:
            async with asking(ENGINE_S):
                page = await self._client.workflow_service.list_schedules(request, retry=True)
        except (e.MissingError, e.BrokenError) as error:
            if token is None:
                raise
            raise e.CursorError("the cursor is too old, or is not one of ours") from error
        return [_row(one) for one in page.schedules], as_cursor(page.next_page_token or None, query)

    # --- how it is asked --------------------------------------------------------------------------------------

    async def _describe(self, subscription_id: str) -> Found:
        request = DescribeScheduleRequest(
            namespace=self._client.namespace, schedule_id=names.subscription_id(subscription_id)
        )
        try:
            answer = await _patiently(lambda: self._client.workflow_service.describe_schedule(request, retry=True))
        except e.MissingError as error:
            raise e.MissingError(f"there is no subscription {subscription_id}") from error
        payloads = answer.schedule.action.start_workflow.input.payloads
        try:
            (subscription,) = await self._client.data_converter.decode(payloads, [Subscription])
        except ValueError as error:
            raise e.MissingError(f"schedule {subscription_id} was made by somebody else") from error
        return _found(subscription, answer.schedule, answer.info, answer.conflict_token)

    async def _update(self, found: Found, wanted: Edited) -> None:
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
            await _patiently(lambda: self._client.workflow_service.update_schedule(request, retry=True))
        except e.MissingError as error:
            if isinstance(error.__cause__, RPCError):
                _refuse(error.__cause__)
            raise

    async def _schedule(self, wanted: Edited) -> Schedule:
        return await schedule_of(
            wanted.subscription,
            self._client.data_converter,
            paused=wanted.paused,
            note=wanted.note,
            workflow_task_s=self._workflow_task_s,
        )


async def _patiently(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """The engine answers one question about a schedule at a time, and may turn others away that arrive meanwhile."""
    for number in range(TRIES):
        with suppress(e.OverloadedError):
            async with asking(ENGINE_S):
                return await ask()
        await _step_aside(number)
    raise e.OverloadedError("the engine has too much to do")


async def _step_aside(number: int) -> None:
    """By chance, and longer each time: those who write together would overwrite each other again."""
    await asyncio.sleep(REPEAT_EVERY_S * (1 + secrets.randbelow(3 * (number + 1))))


def _took(before: Found, now: Found, at: datetime) -> Begun | Took | None:
    """What became of the run of this moment. None: the engine has taken no notice."""
    begun = next((one for one in now.begun if one.scheduled_at == at), None)
    if begun is not None or now.heard <= before.heard:
        return begun
    if now.skipped > before.skipped:
        return Took.SKIPPED
    return Took.WAITING if now.waiting else None


def _refuse(error: RPCError) -> None:
    """What we let through and the engine does not: its time zones may be others than ours."""
    if error.status == RPCStatusCode.INVALID_ARGUMENT:
        where = "time_zone" if "time zone" in error.message else "cron"
        raise BadParametersError(f"the engine refuses it: {error.message}", to=where) from error


def _found(subscription: Subscription, schedule: Schedule, info: ScheduleInfo, token: bytes) -> Found:
    begun: list[Begun] = []
    for one in info.recent_actions:
        run = one.start_workflow_result
        when = scheduled_at(run.workflow_id) or _moment(one.schedule_time)
        begun.append(Begun(run.workflow_id, run.run_id, when))
    return Found(
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


def _query(filters: RowFilters) -> str:
    parts = [f"{Attribute.SUBSCRIPTION_ID} IS NOT NULL"]
    if filters.type:
        parts.append(f"{Attribute.TASK_TYPE} = {quoted(filters.type)}")
    if filters.account:
        parts.append(f"{Attribute.ACCOUNT_ID} = {quoted(filters.account)}")
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
