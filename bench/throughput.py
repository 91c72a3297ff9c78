"""Tasks per second against raw workflows with one activity per second, on the same server."""

import statistics
from datetime import UTC, datetime

from bench.figures import Figure, Watch
from bench.stand import Stand
from droidherd.contracts import names
from droidherd.contracts.queue import EventsPage

TASKS = 300
KIND = "press"


async def drain(stand: Stand, rounds: int, watch: Watch) -> list[Figure]:
    """A queue that stood still is opened: from the first grant to the last end."""
    ours: list[float] = []
    raw: list[float] = []
    for turn in range(rounds):
        raw.append(await _raw(stand, f"drain-raw-{turn}", watch, turn / rounds))
        ours.append(await _drained(stand, f"drain-{turn}", watch, (turn + 0.3) / rounds))
    return [*_ratio("drain", ours, raw, 0.6), Figure("drained_per_s", statistics.median(ours), "/s", parts=tuple(ours))]


async def path(stand: Stand, rounds: int, watch: Watch) -> list[Figure]:
    """From the first submission over HTTP to the last end."""
    ours: list[float] = []
    raw: list[float] = []
    used: list[dict[str, float]] = []
    for turn in range(rounds):
        before = stand.used_s()
        raw.append(await _raw(stand, f"path-raw-{turn}", watch, turn / rounds))
        between = stand.used_s()
        ours.append(await _walked(stand, f"path-{turn}", watch, (turn + 0.3) / rounds))
        after = stand.used_s()
        raw_ms = {f"raw_{name}": between[name] - before[name] for name in ("server", "raw")}
        our_ms = {name: after[name] - between[name] for name in ("server", "worker", "api")}
        used.append({name: 1000 * seconds / TASKS for name, seconds in (raw_ms | our_ms).items()})
    figures = _ratio("path", ours, raw, 0.35)
    figures.append(Figure("through_the_api_per_s", statistics.median(ours), "/s", parts=tuple(ours)))
    spent = {name: statistics.median(row[name] for row in used) for name in used[0]}
    figures.extend(Figure(f"cpu_per_task_{name}_ms", spent[name], "ms") for name in ("worker", "server", "api"))
    raw_ms = spent["raw_server"] + spent["raw_raw"]
    figures.append(Figure("cpu_per_raw_workflow_ms", raw_ms, "ms", note="server and raw worker"))
    return figures


def _ratio(name: str, ours: list[float], raw: list[float], at_least: float) -> list[Figure]:
    ratios = [a / b for a, b in zip(ours, raw, strict=True)]
    return [
        Figure(f"{name}_ratio", statistics.median(ratios), at_least=at_least, parts=tuple(ratios)),
        Figure(f"{name}_raw_per_s", statistics.median(raw), "/s", parts=tuple(raw)),
    ]


async def _raw(stand: Stand, prefix: str, watch: Watch, begun: float) -> float:
    from_ = datetime.now(UTC)
    await stand.start_raw(prefix, TASKS)
    last = await stand.all_ended(prefix, TASKS, lambda done: watch(f"{prefix}: {done:.0%}", begun))
    return TASKS / (last - from_).total_seconds()


async def _drained(stand: Stand, prefix: str, watch: Watch, begun: float) -> float:
    await stand.order(names.Update.PAUSE_LANE)
    await stand.start_tasks(prefix, TASKS, KIND)
    await stand.waiting(TASKS)
    cursor = (await _events(stand, 1 << 53)).cursor
    await stand.order(names.Update.RESUME_LANE)
    last = await stand.all_ended(prefix, TASKS, lambda done: watch(f"{prefix}: {done:.0%}", begun))
    granted = [int(e.at.timestamp() * 1000) for e in (await _events(stand, cursor)).events if e.kind == "granted"]
    return TASKS / (last.timestamp() - min(granted) / 1000)


async def _walked(stand: Stand, prefix: str, watch: Watch, begun: float) -> float:
    from_ = datetime.now(UTC)
    watch(f"{prefix}: submitting", begun)
    await stand.post_tasks(prefix, TASKS, KIND)
    last = await stand.all_ended(prefix, TASKS, lambda done: watch(f"{prefix}: {done:.0%}", begun))
    return TASKS / (last - from_).total_seconds()


async def _events(stand: Stand, after: int) -> EventsPage:
    return await stand.dispatcher().query(names.Query.EVENTS.value, after, result_type=EventsPage)
