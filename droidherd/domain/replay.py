"""Workflow runs that a worker cannot play: which of them are replaced, and when a release is to blame instead.

A run whose history cannot be replayed is stuck for good: Temporal hands out its workflow task again and again. A new
release that cannot replay a whole kind of workflow looks the same from each of its runs, and must end none of them.
"""

from collections import deque
from dataclasses import dataclass, field

LASTING = frozenset({"DispatcherWorkflow", "EmulatorWorkflow", "HostWorkflow", "AccountWorkflow"})
"""Kinds whose runs have a successor that takes their place. Whatever else is replaced, a task above all, is over."""
WINDOW_S = 600.0
PER_ID = 3
"""Runs of one workflow id that one worker replaces within `WINDOW_S` at most: its successors get stuck as well."""
LASTING_MAX, ENDING_MAX = 20, 5
"""Runs of all ids together, of lasting kinds and of the others."""
SHARE = 10
"""Of so many runs of a kind that ends, at most one may be unplayable, but one in any case. Of a lasting kind, half."""
LATE_MAX = 20
"""Attempts after which a run of a kind that ends is replaced, where its workflow tasks were only late: a machine with
too much to do is late with healthy ones, too."""
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
    late: int = 0
    """How many of these times Temporal no longer waited for its workflow task."""


@dataclass(frozen=True, slots=True)
class ReplayEvidence:
    """What a worker knows when it decides whether a stuck run is replaced."""

    kind: str
    went_on: bool = False
    """This worker completed workflow tasks of that run before it got stuck: its release could play it."""
    unplayable: int = 1
    """Runs of the kind that fail here, however often, and never went on here."""
    replayed: int = 0
    """Runs of the kind that were replayed here from their history, and went on."""
    replaced_of_id: int = 0
    replaced: int = 0
    """Within `WINDOW_S`: of this workflow id, and of all kinds that last as this one does or end as it does."""


def why_not_replaced(known: ReplayEvidence) -> str:
    """Why this run is not replaced, for people; empty: it is.

    A release that cannot replay what is open fails at the first workflow task of each run that its worker gets. A run
    that went on here got stuck by what happened to it since, however many others did at the same time.
    """
    lasts = known.kind in LASTING
    if not known.went_on and known.unplayable > max(1, known.replayed // (1 if lasts else SHARE)):
        return (
            f"{known.unplayable} runs of {known.kind} fail here and {known.replayed} could be replayed: this looks "
            "like a release that cannot replay them; go back to the one before, or terminate them by hand"
        )
    minutes = f"within {WINDOW_S / 60:g} minutes"
    if known.replaced_of_id >= PER_ID:
        return f"it was replaced {PER_ID} times here {minutes} and gets stuck again: no more for now"
    most = LASTING_MAX if lasts else ENDING_MAX
    if known.replaced >= most:
        return (
            f"{most} workflows were replaced here {minutes}: this looks like a fault of the release; no more for now, "
            "go back to the one before, or terminate them by hand"
        )
    return ""


@dataclass(slots=True)
class ReplayRecord:
    """What a worker saw of the runs it played."""

    limit: int
    """Failures in a row after which a run is replaced; 0: never."""
    failed: dict[str, FailedRun] = field(default_factory=dict[str, FailedRun])
    replayed: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    """Kind → runs that were replayed from their history, and then went on."""
    went_on: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    """Kind → runs of which a workflow task was completed here. What fails now stays among them."""
    replaced: deque[tuple[float, FailedRun]] = field(default_factory=deque[tuple[float, FailedRun]])
    """When, in seconds, and which."""

    def on_failed(self, run_id: str, workflow_id: str, kind: str, error: str) -> FailedRun:
        run = self.failed.setdefault(run_id, FailedRun(run_id, workflow_id, kind))
        run.times, run.error = run.times + 1, error
        self.replayed.get(kind, {}).pop(run_id, None)
        if len(self.failed) > KNOWN_MAX:
            del self.failed[next(iter(self.failed))]
        return run

    def on_late(self, run_id: str, workflow_id: str, kind: str, error: str) -> None:
        """Temporal no longer waited for its workflow task, which may go on so for ever. How often, Temporal counts."""
        self.on_failed(run_id, workflow_id, kind, error).late += 1

    def is_enough(self, run: FailedRun, failures: int) -> bool:
        """Whether Temporal counts enough failures in a row to replace it. If not, that it was late is forgotten.

        It may have gone on elsewhere since, and nobody here would hear of that. If it is late again, so says the guard.
        """
        only_late = run.times - run.late < self.limit
        ends = run.kind not in LASTING
        if failures >= (max(self.limit, LATE_MAX) if only_late and ends else self.limit):
            run.times = max(run.times, failures)
            return True
        run.times, run.late = run.times - run.late, 0
        if run.times == 0:
            self.forget(run.run_id)
        return False

    def on_advanced(self, run_id: str, kind: str, *, replayed: bool) -> None:
        """It completed a workflow task that was not played before. `replayed`: from its history, not in one life."""
        self.failed.pop(run_id, None)
        for seen in (self.went_on, self.replayed) if replayed else (self.went_on,):
            runs = seen.setdefault(kind, {})
            runs.pop(run_id, None)
            runs[run_id] = None
            if len(runs) > KNOWN_MAX:
                del runs[next(iter(runs))]

    def forget(self, run_id: str) -> None:
        """It is closed."""
        self.failed.pop(run_id, None)

    def on_replaced(self, run: FailedRun, now_s: float) -> None:
        self.forget(run.run_id)
        self.replaced.append((now_s, run))

    def stuck(self) -> list[FailedRun]:
        """Those that failed often enough, or were late: of these, Temporal is asked how often they failed."""
        if self.limit == 0:
            return []
        return [run for run in list(self.failed.values()) if run.late or run.times >= self.limit]

    def why_not(self, run: FailedRun, now_s: float) -> str:
        """Why this one is not replaced, for people; empty: it is."""
        while self.replaced and now_s - self.replaced[0][0] > WINDOW_S:
            self.replaced.popleft()
        went_on, lasts = self.went_on.get(run.kind, {}), run.kind in LASTING
        return why_not_replaced(
            ReplayEvidence(
                run.kind,
                run.run_id in went_on,
                sum(1 for one in list(self.failed.values()) if one.kind == run.kind and one.run_id not in went_on),
                len(self.replayed.get(run.kind, {})),
                sum(1 for _, one in self.replaced if one.workflow_id == run.workflow_id),
                sum(1 for _, one in self.replaced if (one.kind in LASTING) is lasts),
            )
        )
