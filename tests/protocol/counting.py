"""What the statistics of a pool must say: each attempt once, by the word of whoever held its lease."""

from collections import Counter
from typing import TYPE_CHECKING

from droidherd.domain import messages as m
from droidherd.domain.dispatch.stats import OUTCOMES, PoolStats

if TYPE_CHECKING:
    from tests.protocol.tasks import TaskActor
    from tests.protocol.witness import Witness


class Counting:
    """Hears every word itself, and what the dispatcher makes of it. Begins anew with a dispatcher without memory."""

    def __init__(self, witness: "Witness") -> None:
        self.witness = witness
        self.leases: dict[int, str] = {}
        """Token → task type, of the leases the present memory knows."""
        self.words: dict[int, tuple[m.Done, TaskActor]] = {}
        """Token → what its holder said, and who that was."""
        self.lost: set[int] = set()
        """Of words that reached a dispatcher which was terminated before it heard them."""
        self.unsure: set[int] = set()
        """Of words that were lost with the only one who could have said them again."""
        self.spoken_for: set[str] = set()
        """Tasks in whose name somebody else spoke: their own words may count as older."""
        self.counted: Counter[tuple[int, str]] = Counter()
        self.before: PoolStats = PoolStats()

    def forget(self) -> None:
        """A dispatcher begins that remembers nothing."""
        self.leases, self.counted, self.before = {}, Counter(), PoolStats()

    def note_done(self, task: "TaskActor", done: m.Done) -> None:
        if done.token:
            self.words[done.token] = (done, task)

    def note_unsure(self, token: int) -> None:
        """The word left, and the one who said it does not know."""
        self.unsure.add(token)

    def terminated(self, task: "TaskActor") -> None:
        """Closed without a word; and what it said before may not have arrived."""
        self.unsure.update(token for token, (_, who) in self.words.items() if who is task)

    def unheard(self, message: object) -> None:
        if isinstance(message, m.Done):
            self.lost.add(message.token)

    def looks_around(self) -> None:
        """A successor asks everybody who is still there."""
        self.unsure.update(token for token in self.lost & self.words.keys() if not self.words[token][1].alive)

    def closed(self, task_id: str, run: str) -> None:
        """And finds that this one has gone meanwhile."""
        mine = [token for token, (done, _) in self.words.items() if (done.key.task_id, done.key.run) == (task_id, run)]
        self.unsure.update(self.lost.intersection(mine))

    def judge(self, stats: PoolStats) -> None:
        for token in self.leases:
            outcome = self.words[token][0].outcome if token in self.words else ""
            times = sum(n for (lease, _), n in self.counted.items() if lease == token)
            doubtful = token in self.unsure or (token in self.words and self.words[token][1].name in self.spoken_for)
            fine = {0, 1} if doubtful else {1 if outcome else 0}
            if times not in fine:
                self.witness.broken(f"lease {token}, which ended {outcome!r}, was counted {times} times")
        strange = [one for one in self.counted if one[0] not in self.leases]
        if strange:
            self.witness.broken(f"counted, and not of ours: {strange}")
        self._judge_sums(stats)

    def _judge_sums(self, stats: PoolStats) -> None:
        """The statistics are the sums of what was counted, and their histograms hold as many."""
        kinds = {*stats.by_type, *(self.leases[token] for token, _ in self.counted)}
        for kind in sorted(kinds):
            of_kind, before = stats.of(kind), self.before.of(kind)
            real = Counter(OUTCOMES[outcome] for token, outcome in self.counted if self.leases[token] == kind)
            for name in OUTCOMES.values():
                if getattr(of_kind, name) != getattr(before, name) + real[name]:
                    self.witness.broken(f"{kind}: {name} is {of_kind}, counted were {real} after {before}")
            timed = of_kind.count - of_kind.cancelled
            if of_kind.run.count != timed or sum(of_kind.run.buckets.values()) != timed or of_kind.wait.count > timed:
                self.witness.broken(f"{kind}: {timed} attempts, but {of_kind.run} and {of_kind.wait}")
