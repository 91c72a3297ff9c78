"""What one worker keeps in memory, with many emulators and after many tasks."""

from bench.figures import Figure, Watch
from bench.processes import resident_mb
from bench.stand import Stand

EMULATORS = 100
TASKS = 500
KIND = "tap_once"


async def measure(stand: Stand, rounds: int, watch: Watch) -> list[Figure]:
    """Once: `rounds` would only add tasks."""
    del rounds
    before = resident_mb(stand.worker.pid)
    await stand.start_tasks("memory", TASKS, KIND)
    await stand.all_ended("memory", TASKS, lambda done: watch(f"{done:.0%} of {TASKS} tasks ended", done))
    after = resident_mb(stand.worker.pid)
    return [
        Figure("worker_rss_mb", after, "MB", at_most=400.0, note=f"{EMULATORS} emulators, after {TASKS} tasks"),
        Figure("worker_rss_idle_mb", before, "MB", note=f"{EMULATORS} emulators, before the first task"),
        Figure("server_rss_mb", resident_mb(stand.engine.pid), "MB"),
    ]
