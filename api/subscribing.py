"""From the body of a request to a subscription, and from one state of it to the next."""

import hashlib
import json
import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ClassVar

from pydantic import ConfigDict, Field, JsonValue, field_validator

from api.bodies import parsed, refuse_odd_numbers
from api.errors import Kind, ProblemError, invalid
from api.house import House
from api.schedules import Edited, Found
from api.schemas import Line, Mutex, PolicyWish, Wish
from api.submission import KEY_MAX, own_id
from droidherd.contracts.base import Id
from droidherd.contracts.subscriptions import CHANGES_KEPT, ID_MAX, AuditLine, Subscription, Timing
from droidherd.contracts.tasks import Origin, TaskSpec
from droidherd.domain.audit import Deed
from droidherd.domain.errors import BadParametersError, FlowError
from droidherd.domain.reckoning import Reckoning, Standing, by_now, latest, opened
from droidherd.domain.timetable import read_cron, read_zone

PRIORITY = 5
"""Of a task that recurs, unless it says otherwise."""
EXAMPLE: JsonValue = {
    "id": "daily-gift",
    "task": {"type": "daily_reward", "account": "player-42", "params": {"tab": "gift"}},
    "cron": "30 5 * * *",
    "time_zone": "Asia/Shanghai",
    "overlap": "buffer_one",
    "catch_up_s": 7200,
}
NOT_HERE = ("not_before", "expires_at", "actor", "chain")
"""What a submission may say and a subscription's task may not."""
WHEN = ("cron", "every_s", "offset_s")


class Recurring(TaskSpec):
    """The task, as it would be submitted."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    priority: int = Field(default=PRIORITY, ge=1, le=10)
    mutex: tuple[Mutex, ...] = Field(default=(), max_length=3, description="beside the subscription's own")
    policy: PolicyWish | None = None  # pyright: ignore[reportIncompatibleVariableOverride] - frozen, so it is sound

    @field_validator(*NOT_HERE)
    @classmethod
    def _not_here(cls, _: Any) -> Any:
        raise ValueError("not in a subscription: its timetable says when, and it acts by itself")


class Wanted(Timing):
    """The body that makes or replaces a subscription. Either `cron` or `every_s`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, json_schema_extra={"examples": [EXAMPLE]}
    )

    id: Id | None = Field(default=None, description=f"your own, {ID_MAX} characters at most; empty: one is made")
    task: Recurring
    paused: bool = Field(default=False, description="made, but not running yet")
    actor: Line = "somebody"
    reason: Line = ""


# --- what is wanted ----------------------------------------------------------------------------------------------


async def wanted_of(raw: bytes, house: House) -> Wanted:
    """Judged by everything that can be known before it is due for the first time."""
    wanted = parsed(Wanted, raw)
    task = wanted.task
    refuse_odd_numbers(task.params, "task.params")
    _check_times(wanted)
    pool = house.settings.host.pool
    if "pool" not in task.model_fields_set:
        task = task.model_copy(update={"pool": pool})
    try:
        house.catalogue.plan(task.type, task.params, task.policy, task.account)
    except BadParametersError as error:
        raise BadParametersError(error.what, to=f"task.{error.to}", remedy=error.remedy) from error
    except FlowError as error:
        raise invalid("task.type", f"the flow is not sound: {error}") from error
    if task.pool != pool and not await house.engine.knows_pool(task.pool):
        raise invalid("task.pool", f"there is no pool {task.pool}")
    if task.emulator and not await house.engine.knows_emulator(task.emulator):
        raise invalid("task.emulator", f"there is no emulator {task.emulator}")
    return wanted.model_copy(update={"task": task})


def merged(known: Subscription, raw: bytes) -> bytes:
    """What there is, with what a body says otherwise. A cron takes the place of an interval, and vice versa."""
    try:
        given = json.loads(raw)
    except (ValueError, RecursionError):
        return raw  # whoever reads it next says what is wrong
    if not isinstance(given, dict):
        return raw
    there: dict[str, Any] = {name: getattr(known, name) for name in Timing.model_fields}
    if {"cron", "every_s"} & given.keys():
        there = {name: value for name, value in there.items() if name not in WHEN}
    there["task"] = known.task.model_dump(mode="json", exclude=set(NOT_HERE))
    return json.dumps({**there, **given}).encode()


def _check_times(wanted: Timing) -> None:
    if bool(wanted.cron) == bool(wanted.every_s):
        raise invalid("cron", "say either `cron` or `every_s`, not both and not neither")
    read_zone(wanted.time_zone)
    if wanted.cron:
        read_cron(wanted.cron)
        if wanted.offset_s:
            raise invalid("offset_s", "only an interval can be shifted")
    elif wanted.offset_s >= wanted.every_s:
        raise invalid("offset_s", "must be less than every_s")


def named(wanted: Wanted, key: str) -> tuple[str, str]:
    """Its id, and the digest that tells whether a repeated request is the same one."""
    if key and not (len(key) <= KEY_MAX and key.isascii() and key.isprintable()):
        raise invalid("Idempotency-Key", f"must be 1 to {KEY_MAX} visible ASCII characters")
    digest = hashlib.sha256(f"{key} {wanted.model_dump_json()}".encode()).hexdigest()[:32] if key else ""
    if wanted.id is None:
        made = hashlib.sha256(f"droidherd {key}".encode()).hexdigest()[:32]
        return (f"k-{made}" if key else f"s-{time.time_ns() // 1_000_000:011x}-{secrets.token_hex(4)}"), digest
    return own_id(wanted.id, ID_MAX), digest


# --- from one state to the next ----------------------------------------------------------------------------------


def created(wanted: Wanted, subscription_id: str, request: str, region: str) -> Edited:
    now = datetime.now(UTC)
    subscription = Subscription(
        **_timing(wanted),
        id=subscription_id,
        task=_task(wanted),
        region=region,
        created_at=now,
        paused_at=now if wanted.paused else None,
        paused_by=wanted.actor if wanted.paused else "",
        reckoning=opened(now),
        changes=(line_of("created", wanted, now),),
        request=request,
    )
    return Edited(subscription, paused=wanted.paused, note=wanted.reason)


def changed(found: Found, wanted: Wanted) -> Edited:
    """Other rules from now on. What was due under the old ones is reckoned up first."""
    now = datetime.now(UTC)
    known = found.subscription
    if wanted.id not in (None, known.id):
        raise invalid("id", f"a subscription keeps its id; this one is {known.id}")
    subscription = known.model_copy(
        update={
            **_timing(wanted),
            "task": _task(wanted),
            "reckoning": reckoned(found, now, closing=True),
            "changes": with_line(known.changes, line_of("changed", wanted, now)),
        }
    )
    return Edited(subscription, paused=found.paused, note=found.note)


async def amended(found: Found, raw: bytes, house: House, sign: Callable[[Wanted], Wanted]) -> Edited:
    """On top of what there is now: of two that amend it at once, neither undoes what the other did."""
    return changed(found, sign(await wanted_of(merged(found.subscription, raw), house)))


def paused(found: Found, wish: Wish) -> Edited:
    """Saying it twice is saying it once, as for lanes."""
    known = found.subscription
    said = found.paused and known.paused_at is not None and known.paused_by == wish.actor
    if said and wish.reason in {"", found.note}:
        return Edited(known, paused=True, note=found.note)
    return _stopped(found, wish, "paused")


def _stopped(found: Found, wish: Wish, what: str) -> Edited:
    now = datetime.now(UTC)
    known = found.subscription
    update = {
        "paused_at": known.paused_at if found.paused and known.paused_at else now,
        "paused_by": wish.actor,
        "changes": with_line(known.changes, line_of(what, wish, now)),
    }
    return Edited(known.model_copy(update=update), paused=True, note=wish.reason)


def resumed(found: Found, wish: Wish) -> Edited:
    """What was due while it was paused is not made up for, and not missed."""
    known = found.subscription
    if not found.paused:
        raise ProblemError(Kind.ILLEGAL, "resume is not possible: it is not paused", subscription=known.id)
    now = datetime.now(UTC)
    update = {
        "paused_at": None,
        "paused_by": "",
        "reckoning": reckoned(found, now, closing=True),
        "changes": with_line(known.changes, line_of("resumed", wish, now)),
    }
    return Edited(known.model_copy(update=update), paused=False, note=wish.reason)


def ending(found: Found, wish: Wish) -> Edited:
    """Nothing starts any more."""
    return _stopped(found, wish, "deleted")


def reckoned(found: Found, now: datetime, *, closing: bool = False) -> Reckoning:
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
    before = latest(known.reckoning, *([last.reckoning] if last else []))
    return by_now(known.rules(), before, standing, closing=closing)


def _timing(wanted: Timing) -> dict[str, Any]:
    return {name: getattr(wanted, name) for name in Timing.model_fields}


def _task(wanted: Wanted) -> TaskSpec:
    task = TaskSpec(**dict(wanted.task))
    origin = task.origin if "origin" in wanted.task.model_fields_set else Origin.SCHEDULE
    return task.model_copy(update={"origin": origin, "actor": wanted.actor})


def line_of(what: str, wish: Wish | Wanted, at: datetime) -> AuditLine:
    return AuditLine(at=at, what=what, actor=wish.actor, reason=wish.reason, id=secrets.token_hex(6))


def with_line(known: tuple[AuditLine, ...], line: AuditLine) -> tuple[AuditLine, ...]:
    return (*known[-CHANGES_KEPT + 1 :], line)


def rewritten(found: Found, changes: tuple[AuditLine, ...]) -> Edited:
    """As it stands, with another list of changes."""
    subscription = found.subscription.model_copy(update={"changes": changes})
    return Edited(subscription, paused=found.paused, note=found.note)


async def note(house: House, found: Found, task_id: str = "") -> None:
    """Into the pool's audit, which stays when the subscription is gone. A request that is repeated counts once."""
    known, made = found.subscription, found.made
    if made is not None:
        what = f"subscription_{made.what}"
        detail = f"{known.said()}; {made.why}" if made.why else known.said()
        deed = Deed(what, made.actor, made.reason, task_id=task_id, detail=detail, once=made.id)
        await house.book.note(known.task.pool, deed)
