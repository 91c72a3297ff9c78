"""What became of every time a subscription was due: started, skipped by its own policy, or missed. Pure.

The engine's own counters do not say: they count a missed run again each time they look, and say nothing of a run that
it dropped for other reasons. What was due is known from the timetable alone, and what was started from the runs.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from droidherd.domain.schedule.timetable import Due, Timetable

ROWS_KEPT = 10
TIMES_KEPT = 60
"""Missed runs that are kept one by one, over all rows: the last ones."""
CLOSING_S = 1.0
"""How long the engine may take to see that a run ended."""
STARTING_S = 2.0
"""How long it may take to start one that is due."""
SETTLING_S = 2.0
"""How long it may take until new rules hold: what is due meanwhile is nobody's fault."""

TOO_LATE = "Temporal was away for longer than the catch-up window"
NOT_STARTED = "due within the catch-up window, but Temporal never started it"
DROPPED = "its turn had not come when the subscription was paused"


class Overlap(StrEnum):
    """What happens when a run is due and the one before has not ended. No two ever run at once."""

    SKIP = "skip"
    BUFFER_ONE = "buffer_one"
    BUFFER_ALL = "buffer_all"
    CANCEL_OTHER = "cancel_other"


class OnStuck(StrEnum):
    """What happens to a task that is paused, or waits, for longer than its subscription allows."""

    REPORT = "report"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Missed:
    """Runs in a row that were due and never started."""

    first: datetime
    last: datetime
    count: int
    why: str
    times: tuple[datetime, ...] = ()
    """The last of them, one by one, as long as they are kept."""
    at_least: bool = False
    """There were more than anybody counts."""


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Everything that was due up to a moment, and did not run."""

    until: datetime
    missed: int = 0
    skipped: int = 0
    """Due while the one before still ran, and dropped by policy."""
    rows: tuple[Missed, ...] = ()
    """Of the missed ones, the last."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What decides over a run that is due."""

    timetable: Timetable
    overlap: Overlap
    catch_up_s: float
    jitter_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Start:
    """A run that begins."""

    scheduled_at: datetime
    started_at: datetime
    before_ended_at: datetime | None = None
    """When the one before it ended. None: there was none."""
    by_hand: bool = False
    """Nobody was due: somebody wanted it."""
    paused_at: datetime | None = None
    """Since then only what is started by hand begins."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How the schedule stands between two runs, as the engine tells it."""

    now: datetime
    busy: bool = False
    """A run runs."""
    waiting: int = 0
    """Runs that were due and wait for it to end."""
    begun: tuple[datetime, ...] = ()
    """The last times that were started."""
    ended_at: datetime | None = None
    """When the last run ended."""
    paused_at: datetime | None = None


def open_catch_up(now: datetime) -> CatchUp:
    """Of rules that begin to hold."""
    return CatchUp(now + timedelta(seconds=SETTLING_S))


def latest(*known: CatchUp) -> CatchUp:
    """The one that knows most."""
    return max(known, key=lambda one: one.until)


def at_start(rules: Rules, before: CatchUp, start: Start) -> CatchUp:
    """With everything that was due before the run that begins now. Nothing that comes later can come before it."""
    border, started = int(start.scheduled_at.timestamp()), start.started_at.timestamp()
    paused_at = start.paused_at if start.by_hand else None
    if start.by_hand:  # what was due shortly before may still be on its way, by jitter
        border -= int(rules.jitter_s)
    if paused_at is not None:
        started = paused_at.timestamp()
        border = min(border, int(started))
    due = rules.timetable.due(before.until.timestamp(), border - 1)
    found = _sorted_out(rules, due, _seconds(start.before_ended_at), started)
    return _add(before, found, max(before.until, _moment(border)), DROPPED if paused_at else NOT_STARTED)


def by_now(rules: Rules, before: CatchUp, standing: Standing, *, closing: bool = False) -> CatchUp:
    """With everything of which it is certain by now. `closing`: up to this moment, since the rules will change."""
    if standing.busy and not closing:
        return before
    paused = standing.paused_at is not None
    now = (standing.paused_at or standing.now).timestamp()
    border = now if closing or paused else now - rules.catch_up_s - rules.jitter_s - STARTING_S
    border = max(border, before.until.timestamp())
    due = _without(rules.timetable.due(before.until.timestamp(), border), standing)
    found = _sorted_out(rules, due, now if standing.busy else _seconds(standing.ended_at), now)
    until = standing.now + timedelta(seconds=SETTLING_S) if closing else _moment(border)
    return _add(before, found, max(before.until, until), DROPPED if paused else NOT_STARTED)


# --- sorting out -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    skipped: int
    too_late: Due
    not_started: Due


def _sorted_out(rules: Rules, due: Due, ended: float, started: float) -> _Found:
    """First what the one before stood in the way of, then what was too late, then what there is no reason for."""
    times = due.times
    begin, end = 0, len(times)
    if rules.overlap is not Overlap.BUFFER_ALL:
        begin = bisect_right(times, ended + CLOSING_S)
    late = max(begin, bisect_left(times, started - rules.catch_up_s - rules.jitter_s))
    if rules.overlap is Overlap.CANCEL_OTHER:  # of several within the window only the last one is started
        end = late
    skipped = begin + len(times) - end
    return _Found(skipped, Due(times[begin:late], due.more), Due(times[late:end], due.more))


def _without(due: Due, standing: Standing) -> Due:
    """Without those that were started, and those that will be."""
    begun = {int(one.timestamp()) for one in standing.begun}
    times: Sequence[int] = due.times
    if any(one in times for one in sorted(begun)):
        times = [one for one in times if one not in begun]
    return Due(times[: max(len(times) - standing.waiting, 0)], due.more)


def _add(before: CatchUp, found: _Found, until: datetime, otherwise: str) -> CatchUp:
    rows = [_row(found.too_late, TOO_LATE), _row(found.not_started, otherwise)]
    fresh = tuple(row for row in rows if row is not None)
    return replace(
        before,
        until=until,
        missed=before.missed + sum(row.count for row in fresh),
        skipped=before.skipped + found.skipped,
        rows=_keep_last((*before.rows, *fresh)),
    )


def _keep_last(rows: Sequence[Missed]) -> tuple[Missed, ...]:
    """The last rows; the older a row, the sooner it forgets its single times."""
    kept: list[Missed] = []
    left = TIMES_KEPT
    for row in reversed(rows[-ROWS_KEPT:]):
        times = row.times[-left:] if left else ()
        left -= len(times)
        kept.append(replace(row, times=times))
    return tuple(reversed(kept))


def _row(due: Due, why: str) -> Missed | None:
    times = due.times
    if not times:
        return None
    return Missed(
        first=_moment(times[0]),
        last=_moment(times[-1]),
        count=len(times),
        why=why,
        times=tuple(_moment(one) for one in times[-TIMES_KEPT:]),
        at_least=due.more,
    )


def _seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
