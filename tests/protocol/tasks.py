"""What `TaskWorkflow` does, as far as the protocol is concerned."""

import copy
from typing import TYPE_CHECKING, Any

from droidherd.domain import messages as m
from droidherd.domain.outbox import Outbox
from droidherd.domain.task.claim import Claim, Want
from tests.protocol import script
from tests.protocol.actors import Actor, Flight
from tests.protocol.emulators import Activity
from tests.protocol.script import TaskScript
from workflows.task.queueing import JITTER

if TYPE_CHECKING:
    from tests.protocol.simulator import World

DISPATCHER = "dispatcher/p"
NOT_RELEASED_LIMIT = 60
LEAVING_MS = script.BEAT_TTL_MS + 1_000


class TaskActor(Actor):
    """One run of a task."""

    def __init__(self, world: "World", task_script: TaskScript, number: int, seq: int) -> None:
        super().__init__(world, task_script.task_id)
        self.script = task_script
        self.number = number
        self.first_run = "r" if "key" in world.without else f"r{number}"
        self.claim = Claim(DISPATCHER, seq, run=self.first_run)
        self.state = "fresh"
        self.attempt = 1
        self.completed = 0
        self.tries = 0
        self.refusals = 0
        self.home = ""
        """Where the completed stages were completed."""
        self.avoid = ""
        self.home_until_ms = 0
        self.left_home = ""
        """Why it waits no longer for the emulator of its stages."""
        self.returns = False
        """The emulator that it lost lives."""
        self.wrote: dict[tuple[str, int], int] = {}
        """Emulator and stage → the last lease under which that is known to have written to its journal."""
        self.left_behind: list[Activity] = []
        """Given up before they said how they ended."""
        self.answers: dict[tuple[str, int, int], bool] = {}
        """What a person said of a stage whose journal is gone: whether its work was done."""
        self.intent = ""
        self.asked: list[str] = []
        """Everything a person asked for, for judging how it ended."""
        self.kept_ticket = 0
        self.asked_ms = 0
        """When it asked for an emulator."""
        self.repeat_at_ms = 0
        """When it says its request again, since the question died with a dispatcher. Nothing else is repeated here."""
        self.asked_before = False
        self.touched = False
        """Whether the present lease may have left something on its emulator."""
        self.activity: Activity | None = None
        self.wait_until_ms = world.now + task_script.not_before_ms
        self.expected_ms = 0
        """The pool was told when it will ask."""
        self.then = ""
        self.outcome = ""

    @property
    def outbox(self) -> Outbox[Any]:
        return self.claim.outbox

    def is_open(self, run: str) -> bool:
        return self.alive and run == self.first_run

    def stopping(self, activity: Activity) -> bool:
        """Asked for at the next step boundary."""
        return activity is self.activity and self.intent in ("cancel", "pause")

    # --- what is known of journals ----------------------------------------------------------------------------

    def heard_of(self, activity: Activity) -> bool:
        """Whether it knows that this try wrote, as far as that still matters."""
        known = self.wrote.get((activity.emulator, activity.token[1]), 0)
        return activity.key != self.key() or known >= activity.token[0]

    def _hear_of(self, activity: Activity) -> None:
        if activity.wrote and activity.key == self.key():
            place = activity.emulator, activity.token[1]
            self.wrote[place] = max(self.wrote.get(place, 0), activity.token[0])

    def _hear_of_left_behind(self) -> None:
        """The engine tells what the last beat of a try said once it has fallen silent."""
        for activity in [one for one in self.left_behind if one.gone]:
            if self.world.now - activity.last_beat_ms > script.HEARTBEAT_TIMEOUT_MS:
                self.left_behind.remove(activity)
                self._hear_of(activity)

    def key(self) -> m.Key:
        return m.Key(self.name, self.first_run, self.attempt)

    # --- messages ---------------------------------------------------------------------------------------------

    def handle(self, message: Any) -> None:
        match message:
            case m.Admitted():
                self.claim.on_admitted(message)
            case m.Rejected():
                self.claim.on_rejected(message)
            case m.Grant():
                self.claim.on_grant(message)
            case m.Revoked():
                self.claim.on_revoked(message)
            case m.Recall():
                self.claim.on_recall(message)
            case _:
                pass

    def nobody_there(self, flight: Flight) -> None:
        self.world.start_dispatcher()
        self.claim.outbox.mark_failed(flight.target)

    def continue_as_new(self) -> None:
        self.process()
        self.claim.outbox = self.next_run()
        self.claim = copy.copy(self.claim)
        self.process()

    # --- the main coroutine -----------------------------------------------------------------------------------

    def think(self) -> None:
        self._hear_of_left_behind()
        while self.alive and getattr(self, f"_{self.state}")():
            pass

    def _fresh(self) -> bool:
        if self.intent == "cancel":
            self._disclaim()
            return self._finish("cancelled")
        if self.intent == "pause":
            self._disclaim()
            return self._pause()
        if self.world.now < self.wait_until_ms:
            self._announce_itself()
            return False
        if self._loses_step():
            double = copy.deepcopy(self.claim)
            double.request(self._question(min(double.ticket, 0)))
            self.world.dispatcher.question(double.ask)
            if self.world.entities_end and double.seq % 2:
                double.repeat()  # a recall was heard in that step, and is heard before the question next time
                self.world.count("lost repeat")
                self.world.dispatcher.question(double.ask)
            return False
        self._line_up_anew()
        return True

    def _announce_itself(self) -> None:
        """Its time is near: where emulators may be switched off the pool hears of it before."""
        near = self.wait_until_ms - self.world.now <= script.SOON_MS
        if self.world.script.idle_stop_s and near and self.wait_until_ms != self.expected_ms:
            self.expected_ms = self.wait_until_ms
            key = m.Key(self.name, self.first_run, self.attempt)
            self.claim.soon(key, self.expected_ms, self.script.requires, self.script.lane)
            self.world.count("soon")

    def _disclaim(self) -> None:
        self.claim.disclaim(m.Key(self.name, self.first_run, self.attempt))

    def _loses_step(self) -> bool:
        """The worker dies after a message was carried directly, and before the engine wrote down that it was said.

        The step is done over once there is a worker again, together with everything that arrived meanwhile.
        """
        if not self.world.hostile or not self.world.dispatcher.alive or self.world.below(16) < 15:
            return False
        self.world.count("lost step")
        self.frozen_until_ms = self.world.now + 100 + 300 * self.world.below(12)
        return True

    def _line_up_anew(self) -> None:
        """Through its own doing: with a new ticket, unless a person prioritized it."""
        if "priority" in self.world.without:
            self.claim.forget()
        self.claim.renounce()
        self._request(self.claim.ticket)

    def _request(self, ticket: int) -> None:
        self.claim.request(self._question(ticket))
        self.asked_ms, self.repeat_at_ms = self.world.now, 0
        self.home_until_ms = self.asked_ms + script.HOME_WAIT_MS
        self.kept_ticket, self.asked_before = ticket, True
        self.state = "waiting"

    @property
    def unanswered(self) -> bool:
        """Whether it asked for an emulator and has heard nothing since."""
        waits = self.alive and self.state == "waiting" and self.claim.want is Want.EMULATOR
        return waits and self.claim.admitted is None

    def rely_on_repeating(self) -> None:
        """Its question died with a dispatcher; so did what `TaskWorkflow` repeated until now."""
        self.repeat_at_ms = self.asked_ms
        while self.repeat_at_ms <= self.world.now:
            self.repeat_at_ms += int(self.claim.repeat_after_s * (1 + JITTER) * 1000)
            self.claim.unanswered += 1

    def _repeat_by_the_clock(self) -> None:
        due = self.unanswered and 0 < self.repeat_at_ms <= self.world.now
        if due and "repeat" not in self.world.without:
            self.asked_ms, self.repeat_at_ms = self.world.now, 0
            self.claim.repeat()
            self.world.count("repeated by the clock")

    def waits_for(self) -> str:
        """The emulator on which its stages completed, as long as it is worth waiting for."""
        waits = self.world.tasks_return and self.completed and not self.script.requires and not self.left_home
        return self.home if waits and self.home != self.avoid and "home" not in self.world.without else ""

    def _leave_home(self, why: str) -> None:
        self.left_home = why
        self.world.count(f"left home: {why}")
        self._request(self.claim.ticket)

    def _question(self, ticket: int) -> m.Enqueue:
        task_script, home = self.script, self.waits_for()
        return m.Enqueue(
            m.Key(self.name, self.first_run, self.attempt),
            0,
            task_script.lane,
            task_script.task_type,
            (f"emulator_id={home}",) if home else task_script.requires,
            task_script.account,
            task_script.mutex,
            self.claim.priority or task_script.priority,
            task_script.on_busy if not self.asked_before else m.OnBusy.QUEUE,
            ticket,
            script.HOLD_S,
            single=len(task_script.stages) - self.completed == 1,
            sticky=home or task_script.sticky,
            avoid=self.avoid,
        )

    def _waiting(self) -> bool:
        claim = self.claim
        if claim.rejected is not None and self.waits_for() and claim.rejected.reason != "queue_full":
            self._leave_home(claim.rejected.reason)
            return True
        if claim.rejected is not None:
            self.world.check_rejected(self, claim.rejected)
            return self._finish("rejected")
        if claim.want is Want.HOLDING and claim.lease is not None:
            if self.kept_ticket and self.kept_ticket < claim.ticket:
                self.world.witness.broken(f"{self.name}: ticket {self.kept_ticket} became {claim.ticket}")
            self.world.witness.returns(self, claim.lease)
            if self.home != claim.lease.emulator_id:
                self.completed = 0  # its effects live on the emulator it lost
            self.home, self.tries, self.refusals, self.touched = claim.lease.emulator_id, 0, 0, False
            self.left_home = ""
            self.state = "running"
            self._schedule()
            return True
        if claim.admitted is not None and self.kept_ticket and self.kept_ticket < claim.ticket:
            self.world.witness.broken(f"{self.name}: ticket {self.kept_ticket} became {claim.ticket}")
        if self.intent == "cancel":
            claim.done()
            return self._finish("cancelled")
        if self.intent == "pause":
            claim.done()
            return self._pause()
        self._repeat_by_the_clock()
        return self._waited_long_enough()

    def _waited_long_enough(self) -> bool:
        if not self.waits_for() or self.world.now < self.home_until_ms:
            return False
        self.claim.done()
        self._leave_home("waited long enough")
        return True

    def _schedule(self) -> None:
        lease = self.claim.lease
        if lease is None:
            return
        task_script = self.script
        last = self.completed >= len(task_script.stages) - 1
        wrote = self.wrote.get((lease.emulator_id, self.completed), 0)
        if last and len(task_script.stages) > 1:
            self.claim.ending()
        self.activity = Activity(
            task=self,
            key=m.Key(self.name, self.first_run, self.attempt),
            emulator=lease.emulator_id,
            token=(lease.token, self.completed, self.tries),
            after=lease.after,
            effects=task_script.stages[self.completed] if self.completed < len(task_script.stages) else 0,
            last=last,
            fails=last and self.attempt <= len(task_script.fails) and task_script.fails[self.attempt - 1],
            holds=tuple([f"a:{task_script.account}"] if task_script.account else [])
            + tuple(f"m:{x}" for x in task_script.mutex),
            queued_ms=self.world.now,
            wrote_before=wrote > 0,
            was_done=self.answers.get((lease.emulator_id, self.completed, wrote)),
        )
        self.world.schedule(self.activity)

    def _running(self) -> bool:
        revoked, activity = self.claim.revoked, self.activity
        if activity is not None and activity.result:
            self._hear_of(activity)
        if activity is not None and activity.result == "completed":
            # Whatever else arrives: what is completed is completed.
            if activity.last and self._loses_step():
                double = copy.deepcopy(self.claim)
                double.done("completed", seconds=2.0, final=True)
                self.world.witness.counting.note_unsure(double.given_up)
                self.world.dispatcher.question(double.last_done)
                return False
            self.world.count("stage completed")
            self._stage_completed()
            return True
        if revoked is not None:
            self.claim.revoked = None
            self.world.count(f"revoked {revoked.reason}")
            self._abandon()
            if revoked.reason is m.RevokeReason.RESTARTED:
                self.touched = True  # what was given up may have begun
                self.tries += 1
                self._schedule()
            else:
                self.returns = self.world.tasks_return and revoked.reason is not m.RevokeReason.DOWN
                self._leave("again", at_once=revoked.fenced)
            return True
        if self.intent == "force":
            self._let_go("cancelled", clean=False, abandoned=True)
            return self._finish("cancelled")
        if activity is None or not activity.result:
            return False
        result = activity.result
        self.world.count(f"stage {result}")
        self.touched = self.touched or result not in ("not_released", "not_begun")
        getattr(self, f"_stage_{result}")()
        return True

    def _stage_completed(self) -> None:
        self.completed += 1
        self.touched = True
        if self.activity is not None and self.activity.last:
            self._let_go("completed", final=True)
            self._finish("completed")
            return
        self.tries = 0
        self._schedule()

    def _stage_stopped(self) -> None:
        cancelled = self.intent == "cancel"
        self._let_go("cancelled" if cancelled else "")
        if cancelled:
            self._finish("cancelled")
        elif self.intent == "pause":
            self._pause()
        else:
            self._line_up_anew()  # resumed while it was stopping

    def _stage_not_begun(self) -> None:
        """Asked to stop before its turn came. Whoever ran a stage before it has something to clean up."""
        if self.touched:
            self._leave("again", at_once=True)
        else:
            self._stage_stopped()

    def _stage_unknown(self) -> None:
        """Its journal is gone. A person looks at what there is, and says so; with half of it, it begins anew."""
        activity = self.activity
        if activity is None:
            return
        truth = self.world.handsets[activity.emulator].truth
        done = [truth.get(activity.name(step), False) for step in range(activity.effects)]
        self.world.count("person asked about a stage")
        if any(done) and not all(done):
            self._stage_failed()
            return
        place = activity.emulator, activity.token[1]
        self.answers[*place, self.wrote[place]] = all(done)
        self._stage_stopped()

    def _stage_failed(self) -> None:
        self._let_go("retry")
        self.attempt += 1
        self.wrote, self.answers = {}, {}
        self.completed, self.avoid = 0, ""
        self.state, self.wait_until_ms = "fresh", self.world.now + 2_000

    def _stage_fenced(self) -> None:
        self._leave("again", at_once=True)

    def _stage_lost(self) -> None:
        """An outcome nobody knows: the line may still be under way, until the deadline of its guard."""
        self._leave("again")

    def _stage_timeout(self) -> None:
        self._leave("again", at_once=True)

    def _stage_not_released(self) -> None:
        self.refusals += 1
        self.tries += 1
        if self.refusals > NOT_RELEASED_LIMIT or self.tries > 900:
            self._leave("again", at_once=True)
            return
        self.claim.repeat()  # is it the active one by now?
        self.state, self.wait_until_ms = "knocking", self.world.now + 400

    def _knocking(self) -> bool:
        """On deck and the emulator is not released yet: again in a moment."""
        if self.claim.revoked is None and self.world.now < self.wait_until_ms and self.intent != "force":
            return False
        self.state, self.activity = "running", None
        if self.claim.revoked is None and self.intent != "force":
            self._schedule()
        return True

    def _abandon(self) -> None:
        if self.activity is not None and not self.activity.result:
            self.activity.given_up = self.touched = True
            self.left_behind.append(self.activity)

    def _leave(self, then: str, *, at_once: bool = False) -> None:
        self.then, self.state = then, "leaving"
        at_once = at_once or "wait" in self.world.without
        self.wait_until_ms = self.world.now + (0 if at_once else LEAVING_MS)

    def _leaving(self) -> bool:
        if self.world.now < self.wait_until_ms and not self.claim.is_fenced:
            return False
        if self.claim.is_fenced:
            self.world.count("left when it was fenced")
        lost = self.claim.lease
        self.claim.unserved = (
            self.activity is not None and self.activity.result == "timeout" and not self.activity.started
        )
        self._let_go("cancelled" if self.then == "cancel" else "", clean=False)
        self.activity = None
        if self.then == "cancel" or self.intent in ("cancel", "force"):
            return self._finish("cancelled")
        if self.intent == "pause":
            return self._pause()
        self.avoid = lost.emulator_id if lost and not self.returns else ""
        self.returns = False
        self.world.count("lease lost")
        self._request(ticket=self.claim.ticket)
        return True

    def _let_go(self, outcome: str, *, clean: bool = True, **more: bool) -> None:
        self.claim.done(outcome, clean=clean, seconds=2.0, **more)
        if self.claim.last_done is not None:
            self.world.witness.counting.note_done(self, self.claim.last_done)

    def _pause(self) -> bool:
        self.state = "paused"
        return True

    def _paused(self) -> bool:
        if self.intent in ("cancel", "force"):
            return self._finish("cancelled")
        if self.intent == "":
            self._line_up_anew()
            return True
        return False

    def _finish(self, outcome: str) -> bool:
        self.outcome, self.state = outcome, "closing"
        return True

    def _closing(self) -> bool:
        """A task returns only after its last message was delivered."""
        if len(self.claim.outbox) and "outbox" not in self.world.without:
            return False
        self.close()
        return False

    def close(self) -> None:
        self.alive = False
        self.run += 1
        self.inbox.clear()
        self.world.lose_flights(self)

    def terminate(self) -> None:
        """A crash: closed without a word."""
        self.outcome = "terminated"
        self.world.witness.counting.terminated(self)
        self.close()
