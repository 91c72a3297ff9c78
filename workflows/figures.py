"""What a dispatcher counted and who did what to its pool, as others want to read it. Pure."""

from heapq import merge

from droidherd.contracts.queue import AuditPage, AuditQuery, StatsPage, Times, TypeStats
from droidherd.domain.audit import Event
from droidherd.domain.dispatcher import Dispatcher
from droidherd.domain.tally import BOUNDS_S, Histogram, Tally

SHOWN = range(0, len(BOUNDS_S), 4)
"""Buckets that are shown: each bound twice the one before. Percentiles come from all of them."""
FOR = " for "
"""Between who did it and for whom: `ann for ben`."""


def stats(d: Dispatcher) -> StatsPage:
    most_used = sorted(d.tallies.by_type.items(), key=lambda item: (-item[1].count, item[0]))
    return StatsPage(
        pool=d.pool,
        since_ms=d.tallies.since_ms,
        total=_type("", d.tallies.total()),
        types=tuple(_type(name, tally) for name, tally in most_used),
        bounds_s=tuple(BOUNDS_S[at] for at in SHOWN),
    )


def _type(name: str, tally: Tally) -> TypeStats:
    return TypeStats(
        type=name,
        count=tally.count,
        completed=tally.completed,
        failed=tally.failed,
        retries=tally.retries,
        cancelled=tally.cancelled,
        success_rate=tally.success_rate(),
        run=_times(tally.run),
        wait=_times(tally.wait),
    )


def _times(histogram: Histogram) -> Times:
    return Times(
        count=histogram.count,
        mean_s=histogram.mean_s(),
        p50_s=histogram.quantile_s(0.5),
        p95_s=histogram.quantile_s(0.95),
        seconds=histogram.seconds,
        buckets=tuple(histogram.up_to(SHOWN)),
    )


def audit(d: Dispatcher, query: AuditQuery) -> AuditPage:
    """Newest first; what fits the query."""
    newest_first = merge(reversed(d.by_people), reversed(d.by_system), key=lambda event: -event.cursor)
    fitting = [event for event in newest_first if _fits(event, query)]
    page = fitting[: query.limit]
    return AuditPage(pool=d.pool, events=tuple(page), next_before=page[-1].cursor if len(fitting) > len(page) else None)


def _fits(event: Event, query: AuditQuery) -> bool:
    return (
        (not query.before or event.cursor < query.before)
        and query.actor in ("", event.actor, event.actor.partition(FOR)[0])
        and query.action in ("", event.kind)
        and query.task_id in ("", event.task_id)
    )
