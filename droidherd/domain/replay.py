"""Workflow runs that a worker cannot play: which of them are replaced, and when a release is to blame instead.

A run whose history cannot be replayed is stuck for good: Temporal hands out its workflow task again and again. A new
release that cannot replay a whole kind of workflow looks the same from each of its runs, and must end none of them.
"""

from collections import deque
from dataclasses import dataclass, field

REPLACED_MAX = 3
"""Runs that one worker replaces within `WINDOW_S` at most."""
WINDOW_S = 600.0
SHARE = 10
"""Of so many runs of a kind that this worker played, at most one may be broken, but one in any case."""
KNOWN_MAX = 2_000
"""Runs that are remembered at most, of each kind and outcome."""


@dataclass(slots=True)
class FailedRun:
    """A run whose workflow tasks failed here, one after the other."""

    run_id: str
    workflow_id: str
    kind: str
    times: int = 0
    error: str = ""


@dataclass(slots=True)
class ReplayRecord:
    """What a worker saw of the runs it played."""

    limit: int
    """Failures in a row after which a run is replaced; 0: never."""
    failed: dict[str, FailedRun] = field(default_factory=dict[str, FailedRun])
    played: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    """Kind → runs that were replayed from their history, and then went on."""
    replaced: deque[float] = field(default_factory=deque[float])
    """When, in seconds."""

    def on_failed(self, run_id: str, workflow_id: str, kind: str, error: str) -> FailedRun:
        run = self.failed.setdefault(run_id, FailedRun(run_id, workflow_id, kind))
        run.times, run.error = run.times + 1, error
        self.played.get(kind, {}).pop(run_id, None)
        if len(self.failed) > KNOWN_MAX:
            del self.failed[next(iter(self.failed))]
        return run

    def on_advanced(self, run_id: str, kind: str, *, replayed: bool) -> None:
        """It completed a workflow task that was not played before. `replayed`: from its history, not in one life."""
        self.failed.pop(run_id, None)
        if replayed:
            played = self.played.setdefault(kind, {})
            played[run_id] = None
            if len(played) > KNOWN_MAX:
                del played[next(iter(played))]

    def forget(self, run_id: str) -> None:
        """It is closed."""
        self.failed.pop(run_id, None)

    def on_replaced(self, run_id: str, now_s: float) -> None:
        self.forget(run_id)
        self.replaced.append(now_s)

    def stuck(self) -> list[FailedRun]:
        """Those that failed often enough."""
        return [run for run in list(self.failed.values()) if 0 < self.limit <= run.times]

    def why_not(self, run: FailedRun, now_s: float) -> str:
        """Why this one is not replaced, for people; empty: it is.

        All runs count that fail now, however often: a release that cannot replay a kind fails all of them at once.
        """
        broken = sum(1 for one in list(self.failed.values()) if one.kind == run.kind)
        valid = len(self.played.get(run.kind, {}))
        if broken > max(1, valid // SHARE):
            return (
                f"{broken} runs of {run.kind} fail here and {valid} could be replayed: this looks like a release that "
                "cannot replay them; go back to the one before, or terminate them by hand"
            )
        while self.replaced and now_s - self.replaced[0] > WINDOW_S:
            self.replaced.popleft()
        if len(self.replaced) >= REPLACED_MAX:
            return f"{REPLACED_MAX} runs were replaced here within {WINDOW_S / 60:g} minutes: no more for now"
        return ""
