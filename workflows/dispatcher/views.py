"""Answers to queries: the board, the statistics and the audit as others want to read them. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from heapq import merge

from droidherd.contracts.fleet import EmulatorView
from droidherd.contracts.queue import (
    AccountView,
    AuditPage,
    AuditQuery,
    Disabled,
    DisabledPage,
    DisabledQuery,
    DurationStats,
    EmulatorsPage,
    LaneView,
    PoolEvent,
    QueuePage,
    QueuePosition,
    QueuePositions,
    QueueQuery,
    QueueRow,
    RunningRow,
    StatsPage,
    TypeStats,
    TypeSummary,
)
from droidherd.domain.dispatch.audit import Event
from droidherd.domain.dispatch.board import Board, Entry
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.keys import account_key
from droidherd.domain.dispatch.lane import Lane
from droidherd.domain.dispatch.stats import BOUNDS_S, AttemptStats, Histogram

ACCOUNT_TASKS = 100
SHOWN = range(0, len(BOUNDS_S), 4)
"""Buckets that are shown: each bound twice the one before. Percentiles come from all of them."""
FOR = " for "
"""Between who did it and for whom: `ann for ben`."""


def queue(d: Dispatcher, query: QueueQuery, now_ms: int) -> QueuePage:
    """One page of who waits, and everybody who runs."""
    waiting = sorted(
        (e for e in d.board.entries.values() if e.lease is None and query.lane in ("", e.ask.lane)),
        key=d.board.rank,
    )
    page = waiting[query.after : query.after + query.limit]
    end = query.after + len(page)
    return QueuePage(
        pool=d.state.pool,
        waiting=d.board.waiting,
        limit=d.state.config.limit,
        running=sum(1 for _ in d.board.held()),
        free=len(d.board.free),
        rebuilding=d.state.rebuild.active,
        paused_by=d.board.pattern.paused_by,
        paused_why=d.board.pattern.paused_why,
        lanes=tuple(_lanes(d.board)),
        emulators=len(d.board.emulators),
        queue=tuple(_waits(d, e, now_ms, query.after + i + 1) for i, e in enumerate(page)),
        runs=tuple(_runs(e, now_ms) for e in d.board.held()),
        statistics=tuple(_summary(one) for one in stats(d).types),
        next_after=end if end < len(waiting) else None,
    )


def _summary(one: TypeStats) -> TypeSummary:
    return TypeSummary(
        type=one.type,
        count=one.count,
        completed=one.completed,
        mean_s=one.run.mean_s or 0.0,
        waited_mean_s=one.wait.mean_s or 0.0,
    )


def _lanes(board: Board) -> list[LaneView]:
    waiting: dict[str, int] = {}
    for entry in board.entries.values():
        if entry.lease is None:
            waiting[entry.ask.lane] = waiting.get(entry.ask.lane, 0) + 1
    return [
        LaneView(
            name=lane.name,
            waiting=waiting.get(lane.name, 0),
            running=lane.in_use,
            capacity=lane.capacity,
            paused_by=lane.paused_by,
            paused_why=lane.paused_why,
            order="priority" if lane.ordering.by_priority else "arrival",
            ageing=lane.ordering.ageing,
            capacity_by=lane.capacity_by,
            order_by=lane.ordering_by,
        )
        for lane in board.lanes.values()
    ]


def _waits(d: Dispatcher, entry: Entry, now_ms: int, position: int) -> QueueRow:
    return QueueRow(
        task_id=entry.task_id,
        position=position,
        lane=entry.ask.lane,
        account=entry.ask.account,
        type=entry.ask.task_type,
        priority=entry.ask.priority,
        enqueued_at=_moment(entry.since_ms),
        waited_s=max(now_ms - entry.since_ms, 0) / 1000,
        blocked_by=d.admission.why(entry),
    )


def _runs(entry: Entry, now_ms: int) -> RunningRow:
    lease = entry.lease
    return RunningRow(
        task_id=entry.task_id,
        account=entry.ask.account,
        type=entry.ask.task_type,
        lane=entry.ask.lane,
        emulator=lease.emulator_id if lease else "",
        host=lease.host_id if lease else "",
        token=lease.token if lease else 0,
        since=_moment(entry.granted_ms),
        running_s=max(now_ms - entry.granted_ms, 0) / 1000,
        place=entry.state,
    )


def emulators(d: Dispatcher) -> EmulatorsPage:
    """Every emulator of the pool; busy follows from the lease."""
    return EmulatorsPage(
        emulators=tuple(
            EmulatorView(
                emulator_id=row.emulator_id,
                host=row.host_id,
                pool=d.state.pool,
                state=row.state,
                task=row.active,
                on_deck=row.deck,
                labels=dict(label.split("=", 1) for label in row.labels if "=" in label),
                boot=row.boot,
                idle_since=None if row.active else _moment(row.idle_since_ms),
                evidence="waits to be reset" if row.dirty else row.why,
            )
            for row in d.board.emulators.values()
        )
    )


def account(d: Dispatcher, name: str) -> AccountView:
    """Whether an account waits or runs, and where."""
    return accounts(d, (name,))[0]


def accounts(d: Dispatcher, names: Iterable[str]) -> tuple[AccountView, ...]:
    """The same of many, in one walk over the board."""
    mine: dict[str, list[Entry]] = {name: [] for name in names}
    for entry in d.board.entries.values():
        if entry.ask.account in mine:
            mine[entry.ask.account].append(entry)
    return tuple(_account(d, name, entries) for name, entries in mine.items())


def _account(d: Dispatcher, name: str, mine: Sequence[Entry]) -> AccountView:
    running = next((e for e in mine if e.lease is not None), None)
    bar = d.keys.disabled.get(account_key(name))
    return AccountView(
        account=name,
        is_queued=any(e.lease is None for e in mine),
        is_running=running is not None,
        emulator=running.lease.emulator_id if running is not None and running.lease else "",
        running_task=running.task_id if running is not None else "",
        queued_tasks=tuple(e.task_id for e in mine if e.lease is None)[:ACCOUNT_TASKS],
        queued_types=tuple(sorted({e.ask.task_type for e in mine if e.lease is None}))[:ACCOUNT_TASKS],
        disabled=Disabled(by=bar.actor, reason=bar.why, since=_moment(bar.since_ms) if bar.since_ms else None)
        if bar
        else None,
    )


def disabled_accounts(d: Dispatcher, query: DisabledQuery) -> DisabledPage:
    """A page of the accounts that are disabled, by name."""
    names = sorted(key.removeprefix(account_key("")) for key in d.keys.disabled)
    behind = names[bisect_right(names, query.after) :]
    page = behind[: query.limit]
    rest = page[-1] if len(behind) > len(page) else ""
    return DisabledPage(pool=d.state.pool, accounts=accounts(d, page), next_after=rest)


def details(d: Dispatcher) -> str:
    """For the Web UI."""
    running = sum(1 for _ in d.board.held())
    free = f"{len(d.board.free)} of {len(d.board.emulators)} emulators free"
    parts = [f"**pool {d.state.pool}**: {d.board.waiting} waiting, {running} running, {free}"]
    if d.state.rebuild.active:
        parts.append("restores what its predecessor knew, and asks tasks and emulators: nothing here is complete yet")
    first = next((entry for entry in d.board.entries.values() if entry.lease is None), None)
    if first is not None:
        since = f"{_moment(first.since_ms):%Y-%m-%d %H:%M:%S} UTC"
        parts.append(f"oldest waiter: task {first.task_id} in lane {first.ask.lane}, since {since}")
    parts.append("\n".join(_lane_line(lane) for lane in d.board.lanes.values()))
    if d.keys.disabled:
        parts.append(f"{len(d.keys.disabled)} accounts are disabled")
    return "\n\n".join(part for part in parts if part)


def _lane_line(lane: Lane) -> str:
    capacity_by = f" (set by {lane.capacity_by})" if lane.capacity_by else ""
    by_priority = ", by priority" if lane.ordering.by_priority else ""
    order = f"{by_priority or ', by arrival'} (set by {lane.ordering_by})" if lane.ordering_by else by_priority
    paused = f", paused by {lane.paused_by}: {lane.paused_why or 'no reason given'}" if lane.paused_by else ""
    in_use = f"{lane.in_use} of {lane.capacity}{capacity_by} in use"
    return f"- lane {lane.name}: {in_use}, {lane.waiting} waiting{order}{paused}"


def place(d: Dispatcher, task_id: str) -> QueuePosition:
    """Where a task stands in line now, and why it waits."""
    entry = d.board.entries.get(task_id)
    if entry is None and d.state.rebuild.active:
        return QueuePosition(why=d.state.rebuild.why(d.state.pool))
    if entry is None or entry.lease is not None:
        return QueuePosition()
    return QueuePosition(
        position=d.board.position(entry),
        why=d.admission.why(entry),
        priority=entry.ask.priority,
        prioritized=max(-entry.ticket, 0),
    )


def places(d: Dispatcher, tasks: Iterable[str]) -> QueuePositions:
    """The same of many. Who does not wait has none."""
    found = {task_id: place(d, task_id) for task_id in tasks}
    return QueuePositions(places={task_id: one for task_id, one in found.items() if one.position or one.why})


def stats(d: Dispatcher) -> StatsPage:
    most_used = sorted(d.stats.by_type.items(), key=lambda item: (-item[1].count, item[0]))
    return StatsPage(
        pool=d.state.pool,
        since=_moment(d.stats.since_ms) if d.stats.since_ms else None,
        total=_type("", d.stats.total()),
        types=tuple(_type(name, counts) for name, counts in most_used),
        bounds_s=tuple(BOUNDS_S[at] for at in SHOWN),
    )


def _type(name: str, counts: AttemptStats) -> TypeStats:
    return TypeStats(
        type=name,
        count=counts.count,
        completed=counts.completed,
        failed=counts.failed,
        retries=counts.retries,
        cancelled=counts.cancelled,
        success_rate=counts.success_rate(),
        run=_times(counts.run),
        wait=_times(counts.wait),
    )


def _times(histogram: Histogram) -> DurationStats:
    return DurationStats(
        count=histogram.count,
        mean_s=histogram.mean_s(),
        p50_s=histogram.quantile_s(0.5),
        p95_s=histogram.quantile_s(0.95),
        sum_s=histogram.seconds,
        buckets=tuple(histogram.up_to(SHOWN)),
    )


def audit(d: Dispatcher, query: AuditQuery) -> AuditPage:
    """Newest first; what fits the query."""
    log = d.state.audit
    newest_first = merge(reversed(log.by_people), reversed(log.by_system), key=lambda event: -event.cursor)
    fitting = [event for event in newest_first if _fits(event, query)]
    page = fitting[: query.limit]
    return AuditPage(
        pool=d.state.pool, events=events(page), next_before=page[-1].cursor if len(fitting) > len(page) else None
    )


def events(found: Iterable[Event]) -> tuple[PoolEvent, ...]:
    """As clients read them."""
    return tuple(
        PoolEvent(
            cursor=one.cursor,
            at=_moment(one.at_ms),
            kind=one.kind,
            task_id=one.task_id,
            emulator_id=one.emulator_id,
            detail=one.detail,
            actor=one.actor,
            reason=one.reason,
            lane=one.lane,
        )
        for one in found
    )


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _fits(event: Event, query: AuditQuery) -> bool:
    return (
        (not query.before or event.cursor < query.before)
        and query.actor in ("", event.actor, event.actor.partition(FOR)[0])
        and query.action in ("", event.kind)
        and query.task_id in ("", event.task_id)
    )
