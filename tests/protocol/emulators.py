"""Emulators as things: their two properties, their journal, the engine's queue in front of them, what runs on them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from droidherd.domain.messages import Key
from tests.protocol import script

if TYPE_CHECKING:
    from tests.protocol.simulator import World
    from tests.protocol.tasks import TaskActor

Token = tuple[int, int, int]
FENCE = 999


@dataclass(slots=True, eq=False)
class Activity:
    """One try of a stage: as the engine knows it, and as its worker runs it."""

    task: "TaskActor"
    key: Key
    emulator: str
    token: Token
    after: int
    effects: int
    last: bool
    fails: bool
    holds: tuple[str, ...]
    queued_ms: int
    started: bool = False
    given_up: bool = False
    """The engine does not take its beats any more."""
    result: str = ""
    """What the task was told."""
    gone: bool = False
    """No thread runs it any more."""
    seized: bool = False
    step: int = 0
    last_beat_ms: int = 0
    deadline_ms: int = 0
    waits_until_ms: int = 0
    """A line was sent and not answered yet."""
    report: str = ""
    """What its worker wants to tell the engine."""
    wrote: bool = False
    """The engine was told that it writes to the journal."""
    begun: bool = False
    """It found an effect of its stage in the journal, or wrote one."""
    wrote_before: bool = False
    """By what its task knows, an earlier try of this stage wrote to the journal."""
    was_done: bool | None = None
    """What a person says of the stage, whose journal is gone. None: nobody was asked."""

    def name(self, step: int) -> str:
        return f"{self.stage_name()}{step}"

    def stage_name(self) -> str:
        """How the names of its effects begin."""
        return f"{self.key.text()}/{self.token[1]}/"


class Handset:
    """One physical emulator and the queue in front of it: one stage runs, one more may be taken ahead of its turn."""

    def __init__(self, world: "World", name: str, host: str) -> None:
        self.world, self.name, self.host = world, name, host
        self.boot = 1
        self.token: Token | None = None
        self.free = 0
        self.journal: dict[str, str] = {}
        self.truth: dict[str, bool] = {}
        self.remains = 0
        """The lease whose app still runs here; 0: clean."""
        self.stalled = False
        self.on = True
        self.unfit = ""
        """Why it does not pass its gate, though it answers."""
        self.fails = 0
        """So many boots will fail."""
        self.stubborn = False
        """It cannot be switched off."""
        self.rises_ms = 0
        """When a boot is over that nobody watches any more."""
        self.pending: list[Callable[[], None]] = []
        self.late: list[Callable[[], None]] = []
        self.cut = 0
        self.queue: list[Activity] = []
        self.running: Activity | None = None
        self.waiting: Activity | None = None
        """Its worker took it ahead of its turn: it confirms itself, and touches nothing."""

    # --- the worker's thread ----------------------------------------------------------------------------------

    def work(self) -> bool:
        """One step of whatever runs here. False: nothing moved."""
        owner = self.world.owner(self.name)
        if owner is None or not owner.alive:
            return False
        self._look_ahead(connected=owner.connected)
        activity = self.running
        if activity is None:
            self.running, self.waiting = self.waiting, None
            self.running = self.running or (self._poll() if owner.connected else None)
            return self.running is not None
        if not self._beat(activity, connected=owner.connected):
            return True
        if activity.waits_until_ms:
            if self.world.now >= activity.waits_until_ms:
                self._end(activity, "lost")
            return True
        if owner.name != self.host:
            self._end(activity, "lost")
            return True
        self._advance(activity, connected=owner.connected)
        return True

    def _look_ahead(self, *, connected: bool) -> None:
        waiting = self.waiting
        if waiting is None:
            if self.running is not None and connected and self.world.below(2):
                self.waiting = self._poll()
                if self.waiting is not None:
                    self.world.count("taken ahead of its turn")
        elif self._beat(waiting, connected=connected) and waiting.task.stopping(waiting):
            self._end(waiting, "not_begun")

    def _poll(self) -> Activity | None:
        while self.queue:
            activity = self.queue.pop(0)
            if not activity.given_up and activity.task.is_open(activity.key.run):
                activity.started = True
                activity.last_beat_ms = self.world.now
                activity.deadline_ms = self.world.now + script.BEAT_TTL_MS
                return activity
            activity.gone = True
        return None

    def _beat(self, activity: Activity, *, connected: bool) -> bool:
        """Confirm the try to the engine. False: it ended instead."""
        now = self.world.now
        if not connected:
            if now > activity.deadline_ms and "deadline" not in self.world.without:
                self._end(activity, "lost")
                return False
            return True
        if activity.given_up or not activity.task.is_open(activity.key.run):
            if activity.waits_until_ms:
                return True  # a thread cannot be stopped in the middle of a call
            self._end(activity, "abandoned")
            return False
        activity.last_beat_ms, activity.deadline_ms = now, now + script.BEAT_TTL_MS
        return True

    def _advance(self, activity: Activity, *, connected: bool) -> None:
        if not activity.seized:
            self._line(activity, lambda: self._seize(activity))
        elif not self._may_write(activity, connected=connected):
            return
        elif activity.task.stopping(activity) and activity.step <= activity.effects:
            self._line(activity, lambda: self._release(activity, "stopped"))
        elif activity.step < activity.effects:
            deadline, step, begun = activity.deadline_ms, activity.step, activity.begun
            self._line(activity, lambda: self._effect(activity, step, deadline, begun=begun))
        elif activity.fails:
            self._line(activity, lambda: self._release(activity, "failed"))
        elif activity.last:
            self._line(activity, lambda: self._release(activity, "completed"))
        else:
            self._end(activity, "completed")

    def _may_write(self, activity: Activity, *, connected: bool) -> bool:
        """Before the first intent the engine must know of it; without a connection it does not."""
        if activity.step < activity.effects and not activity.task.stopping(activity):
            activity.wrote = activity.wrote or connected or not self.world.tasks_return
            return activity.wrote
        return True

    def _line(self, activity: Activity, line: Callable[[], None]) -> None:
        """Send a shell line. A stalled emulator executes it when it wakes, whatever happened meanwhile."""
        if not self.on:
            self._end(activity, "lost")
        elif self.stalled:
            activity.waits_until_ms = self.world.now + script.LINE_TIMEOUT_MS
            boot = self.boot

            def late() -> None:
                if boot == self.boot:
                    activity.waits_until_ms = 0
                    line()

            self.pending.append(late)
        else:
            line()

    def _end(self, activity: Activity, report: str) -> None:
        """The thread ends; what it says reaches the engine when there is a connection."""
        if activity.gone:
            return
        activity.gone, activity.report = True, report
        if self.running is activity:
            self.running = None
        if self.waiting is activity:
            self.waiting = None
        self.world.report(activity)

    # --- shell lines ------------------------------------------------------------------------------------------

    def _seize(self, activity: Activity) -> None:
        now, mine = self.token, activity.token
        if now is None or now > mine:
            self._end(activity, "fenced")
            return
        if activity.after and now[0] != mine[0] and "marker" not in self.world.without:
            released = self.free >= activity.after
            before = now[0] == activity.after or "after" in self.world.without
            if not before or not (released or ("after" in self.world.without and self.free == now[0])):
                self._end(activity, "not_released")
                return
        self.token = mine
        if activity.wrote_before and "begun" not in self.world.without and not self._has_journal(activity):
            self.world.count("journal missing")
            if activity.was_done is None:
                self._release(activity, "unknown")
                return
            activity.step = activity.effects if activity.was_done else 0
        activity.seized, activity.begun = True, self._has_journal(activity)

    def _guard(self, activity: Activity, deadline_ms: int) -> str:
        if self.token != activity.token and "token" not in self.world.without:
            return "fenced"
        if self.world.now > deadline_ms and "deadline" not in self.world.without:
            return "lost"
        return ""

    def _effect(self, activity: Activity, step: int, deadline_ms: int, *, begun: bool) -> None:
        """`begun`: as its worker knew when it sent the line."""
        refused = self._guard(activity, deadline_ms)
        if not refused and begun and not self._has_journal(activity) and "amid" not in self.world.without:
            self.world.count("journal lost amid a stage")
            refused = "lost"
        if refused:
            self._end(activity, refused)
            return
        name = activity.name(step)
        before = self.journal.get(name, "") if "journal" not in self.world.without else ""
        if before == "begin":
            # The worker observes what became of it, and writes that down.
            before = self.journal[name] = "done" if self.truth.get(name) else ""
        if before == "done":
            self.world.count("skipped because done")
            activity.step, activity.begun = max(activity.step, step + 1), True
            return
        self.journal[name] = "begin"
        if self.cut == 1:
            self._cut(activity, name, acted=False)
            return
        self.world.witness.effect(self, activity, name)
        self.remains, self.truth[name] = activity.token[0], True
        if self.cut:
            self._cut(activity, name, acted=True)
            return
        self.journal[name] = "done"
        activity.step, activity.begun = max(activity.step, step + 1), True

    def _cut(self, activity: Activity, name: str, *, acted: bool) -> None:
        """The line was cut between two of its commands."""
        self.cut = 0
        self.truth[name] = acted
        self.world.count("line cut after the intent" if not acted else "line cut after the act")
        self._end(activity, "lost")

    def _release(self, activity: Activity, outcome: str) -> None:
        """Clean up, and say on the emulator that the lease ended."""
        same = self.token == activity.token
        if "release" in self.world.without and self.token is not None:
            same = self.token[0] == activity.token[0]
        if not same and "token" not in self.world.without:
            self._end(activity, "fenced")
            return
        self.remains, self.free = 0, activity.token[0]
        self._end(activity, outcome)

    def _has_journal(self, activity: Activity) -> bool:
        return any(name.startswith(activity.stage_name()) for name in self.journal)

    # --- what happens to it -----------------------------------------------------------------------------------

    def lose_journals(self) -> bool:
        """They are removed, or its disk is. Not under a try whose end nobody has heard of."""
        known = [one for one in self.world.tries if one.emulator == self.name and one.wrote]
        if not self.journal or self.running or self.waiting or self.queue or any(map(self._is_unheard, known)):
            return False
        self.journal.clear()
        return True

    def _is_unheard(self, activity: Activity) -> bool:
        return activity.task.alive and not activity.task.heard_of(activity)

    def wake(self) -> None:
        """It was stalled: what was sent meanwhile is executed now, or a little later, behind newer lines."""
        self.stalled = False
        pending, self.pending = self.pending, []
        for line in pending:
            if self.world.below(2):
                self.late.append(line)
            else:
                line()

    def straggle(self) -> bool:
        """A line that lay in some buffer is executed after all."""
        if not self.late or self.stalled:
            return False
        self.late.pop(0)()
        return True

    def reboot(self) -> None:
        """Properties and processes are gone, files are not."""
        if not self.on:
            return
        self.boot += 1
        self.token, self.free, self.stalled = None, 0, False
        self.pending.clear()
        self.late.clear()

    def fall(self) -> None:
        """It is switched off, or dies."""
        self.reboot()
        self.on, self.rises_ms = False, 0

    def rise(self) -> None:
        """It is switched on."""
        self.on, self.rises_ms, self.unfit = True, 0, ""

    def answers(self) -> bool:
        return self.on and not self.stalled

    def clear(self, lease: int) -> bool:
        """Stop what is in front, and shut out every lease up to this one. False: a newer one is at work."""
        if self.token is None:
            self.free = lease
        elif self.token[0] > lease:
            return False
        self.token = max(self.token or (0, 0, 0), (lease, FENCE - 1, FENCE - 1))
        if self.remains <= lease:
            self.remains = 0
        else:
            self.world.witness.note_reset(self, lease)
        return True

    def vanish(self) -> None:
        """The worker was killed: its threads are gone, the engine does not know yet."""
        for activity in (self.running, self.waiting):
            if activity is not None:
                activity.gone = True
        self.running = self.waiting = None

    def gate(self, boot: str, fence: int, floor: int = 0, *, full: bool) -> str:
        """The boot gate, and tidying up. Returns evidence of what went wrong, or nothing."""
        if not self.answers():
            return "no answer"
        if full and self.unfit:
            return self.unfit
        if boot != f"b{self.boot}":
            return "another boot"
        if self.token is None:
            if not full:
                return "unset"
            self.free = max(self.world.now, floor)
            self.token = (self.free, FENCE, FENCE)
        if not full and self.token[0] > fence:
            return ""  # a newer lease is at work already: its own end will be reset
        if "fence" not in self.world.without:
            self.token = max(self.token, (fence, FENCE, FENCE))
        if full or self.remains <= fence:
            self.remains = 0
        else:
            self.world.witness.note_reset(self, fence)
        return ""
