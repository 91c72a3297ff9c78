"""What the routes of subscriptions do: check a body, edit a subscription, run it by hand, note it in the audit."""

import hashlib
import json
import secrets
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool

from api.bodies import ActionRequest, parse_body, refuse_odd_numbers, with_actor
from api.errors import Kind, ProblemError, invalid, problem_of
from api.state import AppState
from api.subscriptions.schemas import (
    LAST_TASKS,
    NOT_HERE,
    ManualRunOut,
    SubscriptionRequest,
    running_task,
    view_of,
)
from api.tasks.service import REASONS, check_key, chosen_id, time_sorted_id
from droidherd.contracts.subscriptions import (
    CHANGES_KEPT,
    REFUSED,
    RUN,
    SYSTEM,
    AuditLine,
    Recurrence,
    Subscription,
    SubscriptionRow,
    SubscriptionView,
    task_id_of,
)
from droidherd.contracts.tasks import OperatorRequest, Origin, TaskSpec, with_secrets_of
from droidherd.domain import ids
from droidherd.domain.dispatch.audit import AuditEntry
from droidherd.domain.errors import BadParametersError, FlowError
from droidherd.domain.schedule.catchup import CatchUp, Standing, by_now, latest, open_catch_up
from droidherd.domain.schedule.timetable import read_cron, read_zone
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.errors import (
    EngineError,
    IdTakenError,
    OverloadedError,
    RequestFailedError,
    UnreadableScheduleError,
)
from droidherd.engine.schedules import (
    ManualRunOutcome,
    StartedRun,
    SubscriptionEdit,
    SubscriptionFilters,
    SubscriptionReading,
)
from droidherd.engine.visibility import TaskFilters

WHEN = ("cron", "every_s", "offset_s")

# --- checking a body ----------------------------------------------------------------------------------------------


async def check_body(raw: bytes, app: AppState) -> SubscriptionRequest:
    """Check the body by everything that is known before its first run."""
    wanted = parse_body(SubscriptionRequest, raw)
    task = wanted.task
    refuse_odd_numbers(task.params, "task.params")
    _check_times(wanted)
    pool = app.pool
    if "pool" not in task.model_fields_set:
        task = task.model_copy(update={"pool": pool})
    try:
        await run_in_threadpool(app.catalogue.plan, task.type, task.params, task.policy, task.account)
    except BadParametersError as error:
        raise BadParametersError(error.what, to=f"task.{error.to}", remedy=error.remedy) from error
    except FlowError as error:
        raise invalid("task.type", f"the flow is not valid: {error}") from error
    if task.pool != pool and not await app.queue.exists(task.pool):
        raise invalid("task.pool", f"no pool `{task.pool}`")
    if task.emulator and not await app.emulators.exists(task.emulator):
        raise invalid("task.emulator", f"no emulator `{task.emulator}`")
    return wanted.model_copy(update={"task": task})


def merge_body(known: Subscription, raw: bytes) -> bytes:
    """The present subscription with the fields of a body. A cron replaces an interval, and vice versa."""
    given = _document(raw)
    if given is None:
        return raw  # the next check says what is wrong
    present: dict[str, Any] = {name: getattr(known, name) for name in Recurrence.model_fields}
    if {"cron", "every_s"} & given.keys():
        present = {name: value for name, value in present.items() if name not in WHEN}
    present["task"] = known.task.model_dump(mode="json", exclude=set(NOT_HERE))
    return json.dumps({**present, **given}).encode()


def unmask_body(known: Subscription, raw: bytes) -> bytes:
    """A body in which secrets stand as they are shown keeps those of the present subscription."""
    given = _document(raw)
    if given is None or not isinstance(given.get("task"), dict):
        return raw
    before = known.task.model_dump(mode="json", include={"params", "then"})
    return json.dumps({**given, "task": with_secrets_of(before, given["task"])}).encode()


def _document(raw: bytes) -> dict[str, Any] | None:
    try:
        given = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return given if isinstance(given, dict) else None


def _check_times(wanted: Recurrence) -> None:
    if bool(wanted.cron) == bool(wanted.every_s):
        raise invalid("cron", "give either `cron` or `every_s`, not both")
    read_zone(wanted.time_zone)
    if wanted.cron:
        read_cron(wanted.cron)
        if wanted.offset_s:
            raise invalid("offset_s", "only allowed with `every_s`")
    elif wanted.offset_s >= wanted.every_s:
        raise invalid("offset_s", "must be less than every_s")


def named(wanted: SubscriptionRequest, key: str) -> tuple[str, str]:
    """Its id, and the digest that tells whether a repeated request is the same one."""
    check_key(key)
    digest = hashlib.sha256(f"{key} {wanted.model_dump_json()}".encode()).hexdigest()[:32] if key else ""
    if wanted.id is None:
        made = hashlib.sha256(f"droidherd {key}".encode()).hexdigest()[:32]
        return (f"k-{made}" if key else f"s-{time_sorted_id()}"), digest
    return chosen_id(wanted.id, ids.SUBSCRIPTION_MAX), digest


# --- from one state to the next ----------------------------------------------------------------------------------


def create_subscription(
    wanted: SubscriptionRequest, subscription_id: str, request: str, region: str
) -> SubscriptionEdit:
    now = datetime.now(UTC)
    subscription = Subscription(
        **_recurrence(wanted),
        id=subscription_id,
        task=_task(wanted),
        region=region,
        created_at=now,
        paused_at=now if wanted.paused else None,
        paused_by=wanted.actor if wanted.paused else "",
        catch_up=open_catch_up(now),
        changes=(line_of("created", wanted, now),),
        request=request,
    )
    return SubscriptionEdit(subscription, paused=wanted.paused, note=wanted.reason)


def change_rules(found: SubscriptionReading, wanted: SubscriptionRequest) -> SubscriptionEdit:
    """Other rules from now on. Missed runs under the old rules are counted first."""
    now = datetime.now(UTC)
    known = found.subscription
    if wanted.id not in (None, known.id):
        raise invalid("id", f"a subscription keeps its id; this one is {known.id}")
    subscription = known.model_copy(
        update={
            **_recurrence(wanted),
            "task": _task(wanted),
            "catch_up": caught_up(found, now, closing=True),
            "changes": with_line(known.changes, line_of("changed", wanted, now)),
        }
    )
    return SubscriptionEdit(subscription, paused=found.paused, note=found.note)


async def amend(found: SubscriptionReading, raw: bytes, app: AppState, caller: str) -> SubscriptionEdit:
    """Change the present state: of two requests at once, neither undoes what the other did."""
    known = found.subscription
    return change_rules(found, with_actor(await check_body(merge_body(known, unmask_body(known, raw)), app), caller))


async def replace_rules(found: SubscriptionReading, raw: bytes, app: AppState, caller: str) -> SubscriptionEdit:
    return change_rules(found, with_actor(await check_body(unmask_body(found.subscription, raw), app), caller))


def pause(found: SubscriptionReading, wanted: ActionRequest) -> SubscriptionEdit:
    """A repeated pause changes nothing, as for lanes."""
    known = found.subscription
    same = found.paused and known.paused_at is not None and known.paused_by == wanted.actor
    if same and wanted.reason in {"", found.note}:
        return SubscriptionEdit(known, paused=True, note=found.note)
    return _stop(found, wanted, "paused")


def _stop(found: SubscriptionReading, wanted: ActionRequest, what: str) -> SubscriptionEdit:
    now = datetime.now(UTC)
    known = found.subscription
    update = {
        "paused_at": known.paused_at if found.paused and known.paused_at else now,
        "paused_by": wanted.actor,
        "changes": with_line(known.changes, line_of(what, wanted, now)),
    }
    return SubscriptionEdit(known.model_copy(update=update), paused=True, note=wanted.reason)


def resume(found: SubscriptionReading, wanted: ActionRequest) -> SubscriptionEdit:
    """Runs that were due while it was paused neither start nor count as missed."""
    known = found.subscription
    if not found.paused:
        raise ProblemError(
            Kind.ILLEGAL, "resume is not possible: the subscription is not paused", subscription=known.id
        )
    now = datetime.now(UTC)
    update = {
        "paused_at": None,
        "paused_by": "",
        "catch_up": caught_up(found, now, closing=True),
        "changes": with_line(known.changes, line_of("resumed", wanted, now)),
    }
    return SubscriptionEdit(known.model_copy(update=update), paused=False, note=wanted.reason)


def ending(found: SubscriptionReading, wanted: ActionRequest) -> SubscriptionEdit:
    """Nothing starts any more."""
    return _stop(found, wanted, "deleted")


def caught_up(found: SubscriptionReading, now: datetime, *, closing: bool = False) -> CatchUp:
    """What was due by now and did not run."""
    known, last = found.subscription, found.last
    standing = Standing(
        now=now,
        busy=found.busy,
        waiting=found.waiting,
        begun=tuple(one.scheduled_at for one in found.begun),
        ended_at=(last.ended_at if last else None) or found.ended_at,
        paused_at=known.paused_at if found.paused else None,
    )
    before = latest(known.catch_up, *([last.catch_up] if last else []))
    return by_now(known.rules(), before, standing, closing=closing)


def _recurrence(wanted: Recurrence) -> dict[str, Any]:
    return {name: getattr(wanted, name) for name in Recurrence.model_fields}


def _task(wanted: SubscriptionRequest) -> TaskSpec:
    task = TaskSpec(**dict(wanted.task))
    origin = task.origin if "origin" in wanted.task.model_fields_set else Origin.SCHEDULE
    return task.model_copy(update={"origin": origin, "actor": wanted.actor})


def line_of(what: str, wanted: ActionRequest | SubscriptionRequest, at: datetime) -> AuditLine:
    return AuditLine(at=at, what=what, actor=wanted.actor, reason=wanted.reason, id=secrets.token_hex(6))


def with_line(known: tuple[AuditLine, ...], line: AuditLine) -> tuple[AuditLine, ...]:
    return (*known[-CHANGES_KEPT + 1 :], line)


def rewritten(found: SubscriptionReading, changes: tuple[AuditLine, ...]) -> SubscriptionEdit:
    """The same subscription with another list of changes."""
    subscription = found.subscription.model_copy(update={"changes": changes})
    return SubscriptionEdit(subscription, paused=found.paused, note=found.note)


async def note(app: AppState, found: SubscriptionReading, task_id: str = "") -> None:
    """Note the last change in the pool's audit, which outlives the subscription. A repeated request counts once."""
    known, made = found.subscription, found.made
    if made is not None:
        what = f"subscription_{made.what}"
        detail = f"{known.describe()}; {made.why}" if made.why else known.describe()
        entry = AuditEntry(what, made.actor, made.reason, task_id=task_id, detail=detail, once=made.id)
        await app.queue.note(known.task.pool, entry)


async def create(app: AppState, wanted: SubscriptionRequest, key: str) -> SubscriptionReading:
    """Make a subscription. A repeat of the same request with the same key is answered like the first one."""
    subscription_id, digest = named(wanted, key)
    try:
        await app.subscriptions.create(create_subscription(wanted, subscription_id, digest, app.settings.host.region))
    except IdTakenError as error:
        await _refuse_another(app, subscription_id, digest, error)
    found = await app.subscriptions.read(subscription_id)
    first = found.subscription.changes[0]
    await note(app, replace(found, made=first if first.what == "created" else None))
    return found


async def _refuse_another(app: AppState, subscription_id: str, digest: str, error: IdTakenError) -> None:
    present = (await app.subscriptions.read(subscription_id)).subscription.request
    if digest and present == digest:
        return
    if digest and present:
        raise ProblemError(Kind.KEY_REUSED, "send the same body again, or another key", subscription=subscription_id)
    raise ProblemError(
        Kind.ID_TAKEN, "choose another id, or change the subscription that has it", subscription=subscription_id
    ) from error


async def view(app: AppState, found: SubscriptionReading) -> SubscriptionView:
    page = await app.tasks.page(TaskFilters(subscription=found.subscription.id), "", LAST_TASKS)
    now = datetime.now(UTC)
    return view_of(found, await app.queue.with_positions(page.tasks), caught_up(found, now), now)


async def rows(
    app: AppState, filters: SubscriptionFilters, cursor: str, limit: int
) -> tuple[list[SubscriptionRow], str]:
    """A page of the list, and the cursor of the next."""
    found, following = await app.subscriptions.page(filters, cursor, limit)
    stuck = await app.subscriptions.stuck("")
    return [one.model_copy(update={"stuck": one.id in stuck}) for one in found], following


async def delete(
    app: AppState, subscription_id: str, wanted: ActionRequest, *, cancel: bool
) -> SubscriptionReading | None:
    """Delete it; with `cancel`, the task that runs is cancelled. None: nobody could read what was deleted."""
    try:
        found = await app.subscriptions.change(subscription_id, partial(ending, wanted=wanted))
    except UnreadableScheduleError as error:
        await app.subscriptions.delete_unread(subscription_id)
        entry = AuditEntry("subscription_deleted", wanted.actor, wanted.reason, detail=f"{subscription_id}: {error}")
        await app.queue.note(app.pool, entry)
        return None
    reason = f": {wanted.reason}" if wanted.reason else ""
    why = f"subscription {subscription_id} was deleted by {wanted.actor}{reason}"
    await note(app, found)
    await app.subscriptions.delete(found, OperatorRequest(actor=SYSTEM, reason=why) if cancel else None)
    return found


# --- runs by hand -------------------------------------------------------------------------------------------------


class ManualRun:
    """A run by hand. It is written down under a moment that no other run has, in whole seconds."""

    def __init__(self, wanted: ActionRequest) -> None:
        """`at` is known once it was written down."""
        self._wanted = wanted
        self.at = datetime.now(UTC)

    def write(self, found: SubscriptionReading) -> SubscriptionEdit:
        known, now = found.subscription, datetime.now(UTC)
        at = now.replace(microsecond=0)
        taken = {one.scheduled_at for one in found.begun} | {one.moment for one in known.changes if one.what == RUN}
        while at in taken:
            at -= timedelta(seconds=1)
        self.at = at
        line = line_of(RUN, self._wanted, now).model_copy(update={"due": at})
        return rewritten(found, with_line(known.changes, line))

    def refuse(self, found: SubscriptionReading, why: str) -> SubscriptionEdit:
        """The run did not start: its moment is free again, and its line says why."""
        others = tuple(one for one in found.subscription.changes if (one.what, one.moment) != (RUN, self.at))
        line = line_of(REFUSED, self._wanted, datetime.now(UTC)).model_copy(update={"due": self.at, "why": why})
        return rewritten(found, with_line(others, line))


async def run_by_hand(app: AppState, subscription_id: str, wanted: ActionRequest) -> ManualRunOut:
    """Start a run now. A run that is refused is listed as refused among the changes."""
    run = ManualRun(wanted)
    found = await app.subscriptions.change(subscription_id, run.write)
    task_id = task_id_of(subscription_id, run.at)
    await note(app, found, task_id)
    try:
        return await _begin_run(app, found, run.at)
    except (ProblemError, RequestFailedError, OverloadedError) as error:
        with suppress(EngineError):
            refused = await app.subscriptions.change(subscription_id, partial(run.refuse, why=problem_of(error).detail))
            await note(app, refused, task_id)
        raise


async def _begin_run(app: AppState, found: SubscriptionReading, at: datetime) -> ManualRunOut:
    known = found.subscription
    outcome = await app.subscriptions.trigger(known.id, at)
    if outcome is ManualRunOutcome.SKIPPED:
        holder = running_task(found)
        named = f" ({holder})" if holder else ""
        detail = f"a run is under way{named}, and `overlap: {known.overlap}` lets no other run wait"
        raise ProblemError(Kind.CONFLICT, detail, subscription=known.id, holder=holder)
    task_id = task_id_of(known.id, at)
    if not isinstance(outcome, StartedRun):
        return ManualRunOut(subscription=known.id, task_id=task_id, scheduled_at=at, outcome="waiting")
    task_id = await app.subscriptions.task_of(outcome, app.settings.api.answer_s) or task_id
    await _check_admission(app, task_id)
    return ManualRunOut(subscription=known.id, task_id=task_id, scheduled_at=at, outcome="started")


async def _check_admission(app: AppState, task_id: str) -> None:
    """Raise the rejection of the task like that of a submission. No answer is no rejection: the run is durable."""
    admission = await app.subscriptions.admission(task_id, app.settings.api.admission_s)
    if admission is not None and admission.state not in {TaskStatus.REJECTED, TaskStatus.FAILED}:
        return
    try:
        view = (await app.tasks.view(task_id)).view
    except EngineError:
        return
    refused = view.state is TaskStatus.REJECTED or (view.state is TaskStatus.FAILED and not view.attempts)
    if refused and view.error:
        more: dict[str, str] = {"holder": admission.holder} if admission and admission.holder else {}
        kind = REASONS.get(view.error.kind, Kind.CONFLICT) if view.state is TaskStatus.REJECTED else Kind.REFUSED
        raise ProblemError(kind, view.error.message, task=task_id, errors=(), reason=view.error.kind, **more)
