"""Who sees everything and says when a promise was broken."""

from collections import Counter, deque
from typing import TYPE_CHECKING

from droidherd.domain.dispatch.board import SWITCH_OFF, SWITCH_ON, Entry, EntryState, PoolEmulator
from droidherd.domain.fleet.recovery import RecoveryStep
from droidherd.domain.messages import Admitted, EmulatorStatus, Enqueue, Health, Lease, Recall
from droidherd.domain.task.claim import Want
from tests.protocol.counting import Counting

if TYPE_CHECKING:
    from droidherd.domain.dispatch.dispatcher import Dispatcher
    from tests.protocol.emulators import Activity, Handset
    from tests.protocol.fleet import EmulatorActor
    from tests.protocol.recovery import RecoveryJob
    from tests.protocol.simulator import World
    from tests.protocol.tasks import TaskActor

LAST_STEPS = 60
ANSWER_MS = 5_000


class BrokenPromiseError(AssertionError):
    """An invariant of the protocol did not hold."""


class Witness:
    """Checks the invariants all along."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.steps: deque[str] = deque(maxlen=LAST_STEPS)
        self.counts: Counter[str] = Counter()
        self.last_on: dict[str, int] = {}
        """emulator → lease of the last effect executed on it."""
        self.last_for: dict[str, tuple[int, str]] = {}
        """key (account, mutex) → lease of the last effect executed under it, and where."""
        self.executed: Counter[tuple[str, str]] = Counter()
        self.last_token = 0
        self.longest_ms = 0
        """How long somebody waited for an answer after the last fault."""
        self.counting = Counting(self)

    def broken(self, what: str) -> None:
        raise BrokenPromiseError(what)

    def note(self, text: str) -> None:
        self.steps.append(text)

    # --- on the emulators -------------------------------------------------------------------------------------

    def effect(self, handset: "Handset", activity: "Activity", name: str) -> None:
        """An effect was executed on an emulator."""
        lease, where = activity.token[0], handset.name
        self.counts["effects"] += 1
        if self.last_on.get(where, 0) > lease:
            self.broken(f"{where}: effect of lease {lease} after one of {self.last_on[where]}")
        self.last_on[where] = lease
        for key in activity.holds:
            before, place = self.last_for.get(key, (0, ""))
            if before > lease:
                self.broken(f"{key}: lease {lease} acts on {where} after lease {before} acted on {place}")
            self.last_for[key] = (lease, where)
        if handset.remains not in (0, lease):
            self.broken(f"{where}: lease {lease} begins among the remains of {handset.remains}")
        self.executed[where, name] += 1
        if self.executed[where, name] > 1:
            self.broken(f"{where}: effect {name} was executed twice")

    def returns(self, task: "TaskActor", lease: Lease) -> None:
        """What completed is not done again elsewhere while its emulator lives."""
        if not self.world.tasks_return or not task.completed or task.home == lease.emulator_id:
            return
        if not (task.left_home or task.avoid == task.home or task.script.requires):
            self.broken(f"{task.name} goes to {lease.emulator_id}, its stages completed on {task.home}")
        self.counts["went elsewhere"] += 1

    def note_reset(self, handset: "Handset", up_to: int) -> None:
        if handset.remains > up_to:
            self.broken(f"{handset.name}: reset up to {up_to} while lease {handset.remains} was at work")

    def answers(self) -> None:
        """Who asks is answered soon, once nothing goes wrong any more.

        Only when its question died with a dispatcher may this last until the task repeats it by the clock.
        """
        world = self.world
        for task in world.tasks.values():
            asks = task.alive and task.state == "waiting" and task.claim.want is Want.EMULATOR
            if not asks or task.claim.admitted is not None or not world.healed_ms or world.without - {"repeat"}:
                continue
            waits_ms = world.now - max(task.asked_ms, task.repeat_at_ms, world.healed_ms)
            self.longest_ms = max(self.longest_ms, waits_ms)
            if waits_ms > ANSWER_MS:
                self.broken(f"{task.name} asked {waits_ms} ms ago and has no answer")

    # --- recovery -------------------------------------------------------------------------------------------------

    def checks_recovery(self, actor: "EmulatorActor") -> None:
        """Who is being recovered does not say that it may be used."""
        machine, doing = actor.machine, actor.job
        handset = self.world.handsets[machine.state.emulator_id]
        seen = machine.state.health is Health.GOOD and handset.on and machine.state.boot == f"b{handset.boot}"
        if seen and machine.state.stopped and machine.state.unneeded and machine.state.due is None:
            self.broken(f"{machine.state.emulator_id} is seen, and is said to be switched off")
        if doing is None or doing.step.step is RecoveryStep.EVIDENCE or machine.state.status is not EmulatorStatus.UP:
            return
        if machine.state.reset_wanted <= machine.state.reset_done:
            self.broken(f"{machine.state.emulator_id} says it is up while this is done for it: {doing.step}")

    def switches(self, d: "Dispatcher", row: PoolEmulator) -> None:
        """Nobody is woken for nobody, and nobody is put to rest who is waited for."""
        if row.switch == SWITCH_ON:
            asked = [e.ask.requires for e in d.board.entries.values() if e.lease is None]
            asked += [task.requires for task in d.state.expected.values()]
            if not any(self._wanted(d, requires, asked) for requires in asked if row.offers(requires)):
                self.broken(f"{row.emulator_id} is switched on, and nobody needs one more: {asked}")
            return
        if row.active or row.deck or row.dirty:
            self.broken(f"{row} is not idle and is to be switched off")
        if any(row.offers(task.requires) for task in d.state.expected.values()):
            self.broken(f"{row.emulator_id} is to be switched off though somebody is expected")

    def _wanted(self, d: "Dispatcher", requires: tuple[str, ...], asked: list[tuple[str, ...]]) -> bool:
        """Whether no more are on the way for these than ask for them, or for the same ones."""
        coming = [one for one in d.board.emulators.values() if one.switch == SWITCH_ON and one.offers(requires)]
        return len(coming) <= sum(any(one.offers(other) for one in coming) for other in asked)

    def switches_off(self, handset: "Handset", job: "RecoveryJob") -> None:
        """Only what nobody holds is switched off."""
        fenced = job.actor.machine.state.reset_done
        for entry in self.world.dispatcher.machine.board.held():
            if entry.lease and entry.lease.emulator_id == handset.name and entry.lease.token > fenced:
                self.broken(f"{handset.name} is switched off while {entry.task_id} holds it")
        for task in self.world.tasks.values():
            lease, last = task.claim.lease, task.activity
            if last is not None and last.last and last.result == "completed":
                continue  # that it is done may have been said by a worker that died of it
            if task.alive and lease and lease.emulator_id == handset.name and lease.token > fenced:
                self.broken(f"{handset.name} is switched off while {task.name} believes that it holds it")

    # --- on the board -----------------------------------------------------------------------------------------

    def grants(self, d: "Dispatcher", entry: Entry) -> None:
        """A grant was made."""
        self.counts["grants"] += 1
        lease = entry.lease
        if lease is None:
            self.broken("a grant without a lease")
            return
        if lease.token <= self.last_token:
            self.broken(f"token {lease.token} after {self.last_token}")
        self.last_token = lease.token
        self.counting.leases[lease.token] = entry.ask.task_type
        self._stays(entry, lease.emulator_id)
        if lease.after:
            self.counts["decks"] += 1
        lane = d.board.lanes[entry.ask.lane]
        if lane.in_use > lane.capacity:
            self.broken(f"lane {lane.name}: {lane.in_use} of {lane.capacity}")
        for other in d.board.entries.values():
            if other.lease is None and other.line() == entry.line() and d.board.rank(other) < d.board.rank(entry):
                busy = d.keys.busy(other.needs(), other.task_id)
                if not busy:
                    self.broken(f"{entry.task_id} was granted before {other.task_id}, the head of its bucket")

    def in_front(self, entry: Entry) -> None:
        """By the priority a person gave it, unless that is on its way from the one who knows it to the other."""
        first, urgent = self.world.preferred.get((entry.task_id, entry.key.run), (0, 0))
        if not first or (entry.ticket <= first and entry.ask.priority <= urgent):
            return
        words = self.world.between(entry.task_id)
        answered = any(isinstance(one, Admitted | Enqueue) and one.ticket <= first for one in words)
        if answered or any(isinstance(one, Recall) for one in words):
            self.counts["priority on its way"] += 1
            return
        by = f"{entry.ticket} with priority {entry.ask.priority}"
        self.broken(f"{entry.task_id} was prioritized by {first}, {urgent}, and is granted by {by}")

    def _stays(self, entry: Entry, emulator_id: str) -> None:
        """What is granted is not off, nor being switched off."""
        doing = [one for one in self.world.hands.all if one.emulator == emulator_id and one.live()]
        stops = any(one.step.step is RecoveryStep.STOP for one in doing)
        known = self.world.emulators[emulator_id].machine.state
        if stops or (known.stopped and known.boot):  # without a boot: found off by a workflow that just began
            self.broken(f"{entry.task_id} was granted {emulator_id}, which is being switched off")

    def board(self, d: "Dispatcher") -> None:
        """What must hold after every message."""
        board, holders = d.board, [e for e in d.board.entries.values() if e.lease is not None]
        self._keys(d, holders)
        for lane in board.lanes.values():
            real = sum(1 for e in holders if e.ask.lane == lane.name)
            if lane.in_use != real:
                self.broken(f"lane {lane.name} says {lane.in_use} in use, it is {real}")
        for row in board.emulators.values():
            self._row(d, row)
        if list(board.leases) != [e for e in board.leases if board.entries[e].lease] or len(board.leases) != len(
            holders
        ):
            self.broken("the list of leases is out of date")
        if board.waiting != len(board.entries) - len(holders):
            self.broken(f"waiting says {board.waiting}")

    def _row(self, d: "Dispatcher", row: PoolEmulator) -> None:
        board = d.board
        for task_id in (row.active, row.deck):
            seated = board.entries.get(task_id)
            if task_id and (seated is None or seated.lease is None or seated.lease.emulator_id != row.emulator_id):
                self.broken(f"{row.emulator_id}: {task_id} sits there without a lease of it")
        if row.deck and not row.active:
            self.broken(f"{row.emulator_id}: somebody on deck behind nobody")
        idle = row.state is EmulatorStatus.UP and not row.active and not row.dirty and row.switch != SWITCH_OFF
        if (row.emulator_id in board.free) != idle:
            self.broken(f"{row.emulator_id}: free is out of date")
        if (row.emulator_id in board.off) != (row.state is EmulatorStatus.STOPPED and row.startable):
            self.broken(f"{row.emulator_id}: off is out of date")

    def _keys(self, d: "Dispatcher", holders: list[Entry]) -> None:
        held: dict[str, str] = {}
        for entry in holders:
            lease = entry.lease
            row = d.board.emulators[lease.emulator_id] if lease else None
            if row is None or entry.task_id not in (row.active, row.deck):
                if entry.state is not EntryState.FENCING:
                    self.broken(f"{entry.task_id} holds a lease and sits nowhere")
                continue
            for key in entry.needs():
                if key in held:
                    self.broken(f"{key} is held by {held[key]} and {entry.task_id}")
                held[key] = entry.task_id
        if held != d.keys.held:
            self.broken(f"keys held: {d.keys.held}, really {held}")

    def idle(self, d: "Dispatcher") -> None:
        """After `assign` nobody who could run now is left waiting, and nobody for whom an emulator could be started."""
        if d.held_back or d.state.rebuild.active or not (d.board.free or d.board.off):
            return
        for entry in d.board.entries.values():
            if entry.lease is not None or not d.board.lanes[entry.ask.lane].open():
                continue
            if d.keys.busy(entry.needs(), entry.task_id):
                continue
            if d.board.choose(entry) is not None:
                self.broken(f"{entry.task_id} waits though it could run")
            self._woken(d, entry)

    def _woken(self, d: "Dispatcher", entry: Entry) -> None:
        """Who is on the way for somebody else takes room in the lane."""
        able = [row for row in d.board.emulators.values() if row.offers(entry.ask.requires)]
        coming = [
            row
            for row in d.board.emulators.values()
            if row.switch == SWITCH_ON or row.state is EmulatorStatus.RECOVERING
        ]
        lane = d.board.lanes[entry.ask.lane]
        if lane.capacity - lane.in_use <= len(coming) or any(row in able for row in coming):
            return
        if any(row.emulator_id in d.board.off for row in able):
            self.broken(f"{entry.task_id} waits, nobody is on the way for it, and one that is off could be started")
