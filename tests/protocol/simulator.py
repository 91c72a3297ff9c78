"""One history: the real machines in a hostile world, until the faults stop and everything must have converged."""

from collections.abc import Callable
from typing import Any

from droidherd.domain import messages as m
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.lane import LANES, LaneRules
from droidherd.domain.dispatch.state import PoolConfig
from droidherd.domain.dispatch.stats import AttemptStats
from droidherd.domain.messages import OnBusy
from tests.protocol import script
from tests.protocol.actors import Actor, Flight
from tests.protocol.choices import Choices
from tests.protocol.dispatchers import Change, DispatcherActor, no_change
from tests.protocol.emulators import Activity, Handset
from tests.protocol.faults import Faults
from tests.protocol.fleet import EmulatorActor, HostActor
from tests.protocol.recovery import Hands
from tests.protocol.script import Script
from tests.protocol.tasks import TaskActor
from tests.protocol.witness import BrokenPromiseError, Witness

PAUSES_MS = (50, 10, 100, 300, 1_000, 2_500, 6_000)
START_MS = 1_700_000_000_000
SETTLE_ROUNDS = 900
SETTLE_STEP_MS = 400
QUIET_ROUNDS = 12


def _config_of(script: Script) -> PoolConfig:
    return PoolConfig(
        limit=script.limit,
        mutex_hold_s=script.mutex_hold_s,
        idle_stop_s=script.idle_stop_s,
        idle_keep=script.idle_keep,
        rules=LaneRules(
            dict(zip(LANES, script.capacities, strict=True)),
            ("*",) if script.by_priority else (),
            script.ageing,
        ),
    )


class World:
    """Everything there is in one history."""

    def __init__(
        self,
        choices: Choices,
        *,
        without: str = "",
        change: Change = no_change,
        entities_end: bool = False,
        tasks_return: bool = False,
        forged: bool = False,
    ) -> None:
        """`entities_end`: workflows of emulators and hosts are terminated, too.

        `tasks_return`: tasks go back to the emulator on which their stages completed; journals there may be lost.
        `forged`: somebody else speaks, and counters lie hours ahead of the clock.
        """
        self.choices, self.below = choices, choices.below
        self.entities_end, self.tasks_return, self.forged = entities_end, tasks_return, forged
        self.without = frozenset(without.split(",")) if without else frozenset[str]()
        self.change = change
        self.judged = not self.without
        self.now = START_MS
        self.hostile = True
        self.healed_ms = 0
        self.witness = Witness(self)
        self.script: Script = script.write(choices)
        self.flights: list[Flight] = []
        self.later: list[tuple[Actor, Any]] = []
        """Results of activities of the engine, not delivered yet."""
        self.reports: list[Activity] = []
        self.activities: list[Activity] = []
        self.tries: list[Activity] = []
        """All that were ever scheduled."""
        self.handsets = {name: Handset(self, name, host) for name, host in self.script.emulators.items()}
        self.emulators = {name: EmulatorActor(self, name) for name in self.handsets}
        self.hands = Hands(self)
        for name in self.script.off:
            self.handsets[name].fall()
        self.hosts = {name: HostActor(self, name, self.now) for name in self.script.hosts}
        self.tasks: dict[str, TaskActor] = {}
        self.remembered = ""
        self.heard = ""
        """What people set by the history of the dispatcher before, which cannot be asked."""
        self.config = _config_of(self.script)
        self.by_hand: dict[str, int] = {}
        """Lane → the capacity somebody set."""
        self.disabled: dict[str, None] = {}
        """Accounts, by the word of whoever disabled them."""
        self.preferred: dict[tuple[str, str], tuple[int, int]] = {}
        """Task and run → the priority somebody gave it: ticket and priority."""
        self.dispatcher = DispatcherActor(self, self.config)
        self.begin_anew(self.dispatcher.machine)
        if self.script.deck:
            for kind_of_task in ("check", "scan"):
                for stats in (self.dispatcher.machine.stats, self.witness.counting.before):
                    stats.by_type[kind_of_task] = AttemptStats.from_sums(1, 1, 2.0)
        self._tame: tuple[Callable[[], object], ...] = (
            *[self._bustle] * 9,
            *[self.deliver_some] * 5,
            *[self._work] * 4,
            *[self._pass_time] * 5,
            *[self._probe] * 3,
            *[self._gate] * 2,
            *[self._results] * 2,
            self._straggle,
            self._audit,
        )
        self._faults = Faults(self)

    def begin_anew(self, d: Dispatcher, *, kept: bool = False) -> None:
        """A dispatcher that remembers nothing, or nothing but what people set."""
        if not kept:
            self.by_hand.clear()
            self.disabled.clear()
        claims = {(task.name, task.first_run): task.claim for task in self.tasks.values()}
        heard = {one: (claim.ticket, claim.priority) for one, claim in claims.items() if claim.ticket < 0}
        self.preferred = {one: heard[one] for one in self.preferred if one in heard}
        self.witness.counting.forget()
        if self.forged:  # its clock may have been put right: it learns from emulators how far others went
            self.witness.last_token = 0
        for name in LANES:
            d.board.lane(name)

    def befalls(self, *events: str) -> None:
        """From now on nothing else does."""
        self._faults.only(events)

    def count(self, what: str) -> None:
        self.witness.counts[what] += 1

    # --- the history ------------------------------------------------------------------------------------------

    def run(self) -> None:
        for _ in range(self.script.warm_up):
            self.now += SETTLE_STEP_MS
            self._round()
        for step in range(self.script.steps):
            if self.choices.spent():
                break
            for task_script in self.script.tasks:
                if task_script.starts_at_step == step:
                    self._start(task_script)
            self.now += 1
            hostile = self.below(8) == 7
            table = self._faults.events if hostile else self._tame
            event = table[self.below(len(table))]
            if event() is not False and hostile:
                name = event.__name__.strip("_").replace("_", " ")
                self.witness.note(f"{self.now - START_MS:>7} {name}")
                self.count(name)
        self.settle()

    def _start(self, task_script: script.TaskScript) -> None:
        if task_script.task_id not in self.tasks:
            self.tasks[task_script.task_id] = task = TaskActor(self, task_script, 1, 0)
            task.process()

    def settle(self) -> None:
        """No more faults: everything must end as its script says."""
        self.hostile = False
        self._heal()
        self.healed_ms = self.now
        quiet = 0
        for _ in range(SETTLE_ROUNDS):
            self.now += SETTLE_STEP_MS
            self._round()
            quiet = quiet + 1 if self._finished() else 0
            if quiet >= QUIET_ROUNDS:
                break
        self._judge()
        if quiet < QUIET_ROUNDS and not self.without:
            self.witness.broken("it never comes to rest")

    def _heal(self) -> None:
        for task_script in self.script.tasks:
            self._start(task_script)
        for host in self.hosts.values():
            host.heal()
        for handset in self.handsets.values():
            handset.cut = handset.fails = 0
            handset.unfit, handset.stubborn = "", False
            if not handset.on and self.script.controllers.get(handset.name, "c") == "none":
                handset.rise()
            handset.wake()
            while handset.straggle():
                pass
        for actor in self.actors():
            actor.frozen_until_ms = 0
        for task in self.tasks.values():
            if task.intent == "pause":
                task.intent = ""
        self.dispatcher.machine.held_back = False
        self.operator(lambda d: d.tick(self.now))

    def _open_lanes(self) -> None:
        board = self.dispatcher.machine.board
        if board.pattern.paused_by or any(lane.paused_by for lane in board.lanes.values()):
            self.operator(lambda d: d.resume("", "op", self.now))
        for account in list(self.disabled):
            self.enable(account)

    def enable(self, account: str) -> bool:
        def order(d: Dispatcher) -> None:
            self.disabled.pop(account, None)
            d.enable(account, "op", self.now)

        return self.operator(order)

    def _round(self) -> None:
        if not self.dispatcher.alive:
            self.start_dispatcher()
        self._open_lanes()
        self._look_after_emulators()
        for _ in range(4):
            for flight in list(self.flights):
                self._move_flight(flight)
        while self._results():
            pass
        self._timeouts()
        for handset in self.handsets.values():
            for _ in range(3):
                handset.work()
        self.hands.work()
        self._keep_entities()
        for name in self.handsets:
            for host in self.hosts.values():
                host.probe(name)
            self.emulators[name].gate()
        self.dispatcher.audit()
        for actor in self.actors():
            actor.process()
        self.witness.answers()

    def _look_after_emulators(self) -> None:
        if not self.hostile:
            for emulator in self.emulators.values():
                emulator.is_looked_at()

    def actors(self) -> list[Actor]:
        return [
            self.dispatcher,
            *self.hosts.values(),
            *self.emulators.values(),
            *[task for task in self.tasks.values() if task.alive],
        ]

    def _keep_entities(self) -> None:
        """What workers do every few seconds."""
        if "presence" not in self.without:
            for host in self.hosts.values():
                host.keep_entities()

    def _finished(self) -> bool:
        board = self.dispatcher.machine.board
        return not (
            board.entries
            or self.flights
            or self.later
            or self.dispatcher.machine.state.rebuild.active
            or self.dispatcher.machine.state.expected
            or any(task.alive for task in self.tasks.values())
            or not all(self._at_rest(name) for name in self.handsets)
        )

    def _at_rest(self, name: str) -> bool:
        """Free, or off by the word of a pool that does not need it."""
        d, emulator = self.dispatcher.machine, self.emulators[name].machine.state
        row = d.board.emulators.get(name)
        if row is None or row.switch or emulator.due is not None or name in d.board.free:
            return row is not None and not row.switch and emulator.due is None
        return name in d.board.off and emulator.stopped and not self.handsets[name].on and bool(self.script.idle_stop_s)

    def _judge(self) -> None:
        broken, d = self.witness.broken, self.dispatcher.machine
        for task in self.tasks.values():
            if task.alive:
                broken(f"{task.name} is {task.state} (wants {task.claim.want}) and never ends")
            self._judge_outcome(task)
        self._judge_board(d)
        for actor in self.actors():
            if len(actor.outbox):
                broken(f"{actor.name} still wants to say {actor.outbox.lines}")
        for name, handset in self.handsets.items():
            row = d.board.emulators.get(name)
            if not self._at_rest(name):
                broken(f"{name} is not free: {row}, {self.emulators[name].machine}")
            at_work = [handset.running, handset.waiting, *(a for a in handset.queue if not a.given_up)]
            if (handset.remains and handset.on) or any(at_work):
                broken(f"{name}: remains of {handset.remains}, at work {at_work}")

    def _judge_board(self, d: Dispatcher) -> None:
        broken = self.witness.broken
        if d.board.entries:
            broken(f"still on the board: {d.board.entries}")
        if d.keys.held or d.keys.parked or d.keys.queued or d.board.buckets or d.state.weight.size_bytes:
            broken(f"keys are left: {d.keys} {d.board.buckets} {d.state.weight}")
        if not self.judged:
            return
        self.witness.counting.judge(d.stats)
        for lane in d.board.lanes.values():
            if lane.capacity != self.by_hand.get(lane.name, self.config.rules.capacity(lane.name)):
                broken(f"{lane}, by hand {self.by_hand}, by the settings {self.config.rules}")

    def _judge_outcome(self, task: TaskActor) -> None:
        if task.outcome == "cancelled" and not {"cancel", "force"} & set(task.asked):
            self.witness.broken(f"{task.name} was cancelled by nobody")
        if task.outcome == "completed":
            key = m.Key(task.name, task.first_run, task.attempt).text()
            for stage, effects in enumerate(task.script.stages):
                for step in range(effects):
                    handset, name = self.handsets[task.home], f"{key}/{stage}/{step}"
                    done = handset.journal.get(name, "done" if handset.truth.get(name) else "") == "done"
                    if not done and not self.without:
                        self.witness.broken(f"{task.name} is completed without effect {stage}/{step} on {task.home}")

    def check_rejected(self, task: TaskActor, news: m.Rejected) -> None:
        self.count(f"rejected {news.reason}")
        fine = {
            "queue_full": self.config.limit <= len(self.script.tasks),
            "cannot_be_satisfied": bool(task.script.requires),
            "emulator_lost": self.tasks_return,
            "duplicate": task.script.on_busy is OnBusy.REJECT,
            "account_running": task.script.on_busy is OnBusy.REJECT,
        }
        if not fine.get(news.reason):
            self.witness.broken(f"{task.name} was rejected: {news}")

    # --- the network ------------------------------------------------------------------------------------------

    def deliver_some(self) -> None:
        if self.flights:
            self._move_flight(self.flights[self.below(len(self.flights))])

    def _move_flight(self, flight: Flight) -> None:
        """Deliver a message, or its acknowledgement."""
        if flight not in self.flights:
            return
        if flight.arrived:
            if flight.sender.frozen():
                return
            self.flights.remove(flight)
            if flight.run == flight.sender.run and flight.sender.alive:
                flight.sender.acknowledged(flight)
            return
        flight.arrived = True
        target = self._find(flight.target)
        if target is None:
            flight.nobody = True
        else:
            flight.answer = target.question(flight.message)
        if flight.run != flight.sender.run and flight in self.flights:
            self.flights.remove(flight)

    def _find(self, name: str) -> Actor | None:
        if name.startswith("dispatcher/"):
            return self.dispatcher if self.dispatcher.alive else None
        if name.startswith("emulator/"):
            emulator = self.emulators[name.removeprefix("emulator/")]
            return emulator if emulator.alive else None
        if name.startswith("host/"):
            host = self.hosts[name.removeprefix("host/")]
            return host if host.alive else None
        task = self.tasks.get(name)
        return task if task is not None and task.alive else None

    def between(self, task_id: str) -> list[Any]:
        """What this task and its dispatcher have said to each other and not heard yet."""
        task, d = self.tasks[task_id], self.dispatcher
        box = task.outbox
        messages = [one for target, line in box.lines.items() for one in line[int(target in box.flying) :]]
        messages += d.outbox.lines.get(task_id, [])
        messages += [
            one.message for one in self.flights if not one.arrived and task_id in (one.sender.name, one.target)
        ]
        return [*messages, *task.inbox, *(one for one in d.inbox if about(one) == task_id)]

    def is_underway(self, task: TaskActor) -> bool:
        """Whether a question of this task, or something for it, will be heard by somebody."""
        flies = any(
            (one.sender is task and one.run == task.run) or (one.target == task.name and not one.arrived)
            for one in self.flights
        )
        to_task, to_dispatcher = self.dispatcher.outbox.lines.get(task.name), map(about, self.dispatcher.inbox)
        return flies or bool(len(task.outbox) or task.inbox or to_task) or task.name in to_dispatcher

    def lose_flights(self, sender: Actor) -> None:
        """Its run ended: what flies is lost, or arrives late."""
        kept: list[Flight] = []
        for flight in self.flights:
            if flight.sender is not sender:
                kept.append(flight)
            elif not flight.arrived and self.below(4):
                self.count("late copy")
                kept.append(flight)
        self.flights[:] = kept

    def start_dispatcher(self) -> None:
        """Whoever finds it gone starts it; one wins."""
        if self.dispatcher.alive:
            return
        self.dispatcher = DispatcherActor(self, self.config)
        self.dispatcher.restored = False
        chance = self.below(8)
        self.dispatcher.memory = self.remembered if chance < 6 else ""
        self.dispatcher.kept = self.heard if chance == 6 else ""
        kind = "with memory" if self.dispatcher.memory else "with what people set" if self.dispatcher.kept else ""
        self.count(f"successor {kind or 'without memory'}")
        self.dispatcher.frozen_until_ms = self.now + self.below(3) * 500

    # --- the engine's activities ------------------------------------------------------------------------------

    def owner_name(self, emulator_id: str) -> str:
        return self.emulators[emulator_id].machine.state.owner

    def owner(self, emulator_id: str) -> "Owner | None":
        host = self.hosts.get(self.owner_name(emulator_id))
        return Owner(host) if host is not None else None

    def schedule(self, activity: Activity) -> None:
        self.handsets[activity.emulator].queue.append(activity)
        self.activities.append(activity)
        self.tries.append(activity)

    def report(self, activity: Activity) -> None:
        self.reports.append(activity)

    def _results(self) -> bool:
        """Results reach those who wait for them."""
        if self.later:
            actor, message = self.later.pop(0)
            actor.receive(message)
            return True
        for activity in self.reports:
            owner = self.hosts.get(self.owner_name(activity.emulator))
            if owner is not None and owner.worker and owner.connected:
                self.reports.remove(activity)
                self._resolve(activity, activity.report)
                return True
        return False

    def _resolve(self, activity: Activity, result: str) -> None:
        if activity in self.activities:
            self.activities.remove(activity)
        if activity.given_up or not activity.task.is_open(activity.key.run):
            return
        activity.result, activity.given_up = result, True
        activity.task.process()

    def _timeouts(self) -> None:
        self.hands.timeouts()
        for activity in list(self.activities):
            if activity.given_up or not activity.task.is_open(activity.key.run):
                self.activities.remove(activity)
            elif activity.started and self.now - activity.last_beat_ms > script.HEARTBEAT_TIMEOUT_MS:
                self.count("heartbeat timeout")
                self._resolve(activity, "timeout")
            elif not activity.started and activity.task.stopping(activity):
                self._resolve(activity, "not_begun")
            elif not activity.started and self.now - activity.queued_ms > script.QUEUE_TIMEOUT_MS:
                self.count("schedule to start timeout")
                self._resolve(activity, "timeout")

    # --- tame events ------------------------------------------------------------------------------------------

    def _work(self) -> None:
        self.handsets[f"e{self.below(len(self.handsets))}"].work()

    def _bustle(self) -> None:
        """A little of everything, so that faults meet work in full swing."""
        for _ in range(min(len(self.flights), 5)):
            self.deliver_some()
        while self._results():
            pass
        for handset in self.handsets.values():
            handset.work()
        self.hands.work()

    def _straggle(self) -> None:
        if self.handsets[f"e{self.below(len(self.handsets))}"].straggle():
            self.count("straggler")

    def _pass_time(self) -> None:
        self.now += PAUSES_MS[self.below(len(PAUSES_MS))]
        self._timeouts()
        for actor in self.actors():
            actor.process()

    def _probe(self) -> None:
        self._keep_entities()
        for host in self.hosts.values():
            for name in self.handsets:
                host.probe(name)

    def _gate(self) -> None:
        for emulator in self.emulators.values():
            emulator.gate()

    def _audit(self) -> None:
        self.dispatcher.audit()

    def operator(self, order: Callable[[Dispatcher], object]) -> bool:
        """Whether somebody was there to take it."""
        actor = self.dispatcher
        if not actor.alive or actor.frozen() or not actor.restored:
            return False
        order(actor.machine)
        self.witness.board(actor.machine)
        actor.pump()
        return True


class Owner:
    """The worker of the host that owns an emulator, as its stages see it."""

    __slots__ = ("alive", "connected", "name")

    def __init__(self, host: HostActor) -> None:
        self.name, self.alive, self.connected = host.name, host.worker, host.connected


def about(message: Any) -> str:
    """Of which task it is."""
    key = getattr(message, "key", None)
    return key.task_id if isinstance(key, m.Key) else ""


def history(choices: Choices, without: str = "", change: Change = no_change, /, **faults: bool) -> World:
    """Run one history, with these kinds of faults, too. Raises BrokenPromiseError with its last steps."""
    world = World(choices, without=without, change=change, **faults)
    try:
        world.run()
    except BrokenPromiseError as broken:
        broken.add_note("\n".join(world.witness.steps))
        broken.add_note(repr(world.script))
        raise
    return world
