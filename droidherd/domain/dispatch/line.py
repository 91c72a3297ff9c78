"""Who waits: tasks enter the board, stand in their bucket, are parked while a key is busy, and leave."""

from dataclasses import replace

from droidherd.domain.dispatch.board import Board, Entry, EntryState
from droidherd.domain.dispatch.keys import Keys
from droidherd.domain.dispatch.lane import Lane, Ordering
from droidherd.domain.dispatch.state import SnapshotWeight


class WaitingLine:
    """Keeps the board's lines, the parked tasks and the weight of the snapshot consistent with each other."""

    def __init__(self, board: Board, keys: Keys, weight: SnapshotWeight) -> None:
        self._board, self._keys, self._weight = board, keys, weight
        self.woken = False
        """A parked task came back to its bucket since this was last cleared."""

    def enter(self, entry: Entry) -> None:
        """Put a task on the board; with a lease it holds, without one it is not in line yet."""
        self._board.entries[entry.task_id] = entry
        self._weight.add(entry.ask)
        if entry.lease is not None:
            self._board.leases[entry.task_id] = None

    def wait(self, entry: Entry) -> None:
        """Put a task on the board and in line."""
        self.enter(entry)
        self._board.count_waiting(entry, 1)
        self._board.line_up(entry)
        self._keys.queue(entry.ask.account, entry.ask.task_type, entry.task_id)

    def drop(self, entry: Entry) -> None:
        """Take a task off the board; who held or waited for what is the caller's concern."""
        del self._board.entries[entry.task_id]
        self._weight.remove(entry.ask)

    def leave(self, entry: Entry) -> None:
        """A task that waits does so no longer."""
        self._take_out(entry)
        self._board.count_waiting(entry, -1)
        self._keys.leave(entry.ask.account, entry.ask.task_type, entry.task_id)

    def on_granted(self, entry: Entry) -> None:
        """A task at the head of its bucket is granted: it takes its keys along."""
        self._board.step_out(entry)
        self._board.count_waiting(entry, -1)
        self._keys.leave(entry.ask.account, entry.ask.task_type, entry.task_id)
        self._keys.take(entry.needs(), entry.task_id)

    def heads(self, lane: Lane) -> list[Entry]:
        """The head of each bucket, longest-waiting first; heads with busy keys are parked on the way."""
        heads: list[Entry] = []
        for bucket in list(self._board.lines_of(lane)):
            while bucket.line:  # of a bucket that is empty for a moment the successor is seen in the next round
                entry = self._board.entries[bucket.line[0][1]]
                busy = self._keys.busy(entry.needs(), entry.task_id)
                if not busy:
                    heads.append(entry)
                    break
                self._park(entry, busy)
        return sorted(heads, key=self._board.rank)

    def _park(self, entry: Entry, key: str) -> None:
        self._board.step_out(entry)
        needs = entry.needs()
        entry.state, entry.parked_on = EntryState.PARKED, needs.index(key) + 1
        self._keys.park(key, entry.line(), self._board.rank(entry), entry.task_id)
        for other in needs:
            if other != key:
                self.wake(other)

    def wake(self, key: str) -> None:
        """A key may be free: the first of each bucket who waits for it goes back there, with its ticket."""
        for task_id in self._keys.next_parked(key):
            self._board.line_up(self._board.entries[task_id])
            self.woken = True

    def move(self, entry: Entry, priority: int, ticket: int) -> None:
        """To another place in line; parked or not: if its key is busy it is parked again when its turn comes."""
        self._take_out(entry)
        entry.ask = replace(entry.ask, priority=priority, ticket=ticket)
        self._board.line_up(entry)

    def reorder(self, lane: Lane, ordering: Ordering) -> None:
        """Who waits in this lane stands in line anew; who was parked is parked again when its turn comes."""
        if ordering == lane.ordering:
            return
        waiting = [e for e in self._board.entries.values() if e.lease is None and e.ask.lane == lane.name]
        for entry in waiting:
            self._take_out(entry)
        lane.ordering = ordering
        for entry in waiting:
            self._board.line_up(entry)

    def _take_out(self, entry: Entry) -> None:
        if entry.state is EntryState.PARKED:
            self._keys.unpark(entry.waits_for_key, entry.line(), self._board.rank(entry), entry.task_id)
        else:
            self._board.step_out(entry)
