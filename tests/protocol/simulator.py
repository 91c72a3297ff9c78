"""One history: the real machines in a hostile world, until the faults stop and everything must have converged."""

from collections.abc import Callable
from typing import Any

from droidherd.domain import messages as m
from droidherd.domain.board import Lane
from droidherd.domain.messages import OnBusy
from droidherd.domain.moves import Config, Tally
from tests.protocol import script
from tests.protocol.actors import Actor, Flight
from tests.protocol.choices import Choices
from tests.protocol.dispatchers import DispatcherActor, Watched
from tests.protocol.emulators import Activity, Handset
from tests.protocol.fleet import EmulatorActor, HostActor
from tests.protocol.script import Script
from tests.protocol.tasks import TaskActor
from tests.protocol.witness import BrokenPromiseError, Witness

PAUSES_MS = (50, 10, 100, 300, 1_000, 2_500, 6_000)
START_MS = 1_700_000_000_000
SETTLE_ROUNDS = 900
SETTLE_STEP_MS = 400
QUIET_ROUNDS = 12


class World:
    """Everything there is in one history."""

    def __init__(self, choices: Choices, *, without: str = "", kind: type[Watched] = Watched) -> None:
        self.choices, self.below = choices, choices.below
        self.without = frozenset(without.split(",")) if without else frozenset[str]()
        self.kind = kind
        self.now = START_MS
        self.witness = Witness()
        self.script: Script = script.write(choices)
        self.flights: list[Flight] = []
        self.later: list[tuple[Actor, Any]] = []
        """Results of activities of the engine, not delivered yet."""
        self.reports: list[Activity] = []
        self.activities: list[Activity] = []
        self.handsets = {name: Handset(self, name, host) for name, host in self.script.emulators.items()}
        self.emulators = {name: EmulatorActor(self, name) for name in self.handsets}
        self.hosts = {name: HostActor(self, name, self.now) for name in self.script.hosts}
        self.tasks: dict[str, TaskActor] = {}
        self.remembered = ""
        self.config = Config(limit=self.script.limit)
        self.dispatcher = DispatcherActor(self, self.config)
        self.set_lanes(self.dispatcher.machine)
        if self.script.deck:
            for kind_of_task in ("check", "scan"):
                self.dispatcher.machine.tallies[kind_of_task] = Tally(1, 1, 2.0, 0.0)
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
        self._hostile: tuple[Callable[[], object], ...] = (
            *[self._revive_worker] * 3, self._kill_worker, self._restart_worker, self._restart_worker, *[self._connect] * 3, self._cut_off, self._cut_off,
            *[self._wake] * 4, self._stall, self._stall, self._reboot, self._cut_line, self._move,
            self._freeze, self._freeze, self._continue_task, self._continue_emulator, self._continue_host,
            self._continue_dispatcher, self._continue_dispatcher, self._terminate_dispatcher,
            self._terminate_task, self._terminate_task, self._retry, self._retry, self._retry, self._cancel, self._force, self._pause, self._resume, self._retry,
            self._pause_lane, self._resume_lane, self._set_capacity, self._prioritize,
        )  # fmt: skip

    def set_lanes(self, d: Watched) -> None:
        for name, capacity in zip(("account", "anonymous"), self.script.capacities, strict=True):
            d.board.lanes[name] = Lane(name, capacity, by_priority=self.script.by_priority)

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
            for told in self.script.tasks:
                if told.starts_at_step == step:
                    self._start(told)
            self.now += 1
            hostile = self.below(8) == 7  # noqa: PLR2004 - one in eight
            table = self._hostile if hostile else self._tame
            event = table[self.below(len(table))]
            if event() is not False and hostile:
                name = event.__name__.strip("_").replace("_", " ")
                self.witness.note(f"{self.now - START_MS:>7} {name}")
                self.count(name)
        self.settle()

    def _start(self, told: script.TaskScript) -> None:
        if told.task_id not in self.tasks:
            self.tasks[told.task_id] = task = TaskActor(self, told, 1, 0)
            task.process()

    def settle(self) -> None:
        """No more faults: everything must end as its script says."""
        self._heal()
        quiet = 0
        for _ in range(SETTLE_ROUNDS):
            self.now += SETTLE_STEP_MS
            self._round()
            quiet = quiet + 1 if self._finished() else 0
            if quiet >= QUIET_ROUNDS:
                break
        self._judge()

    def _heal(self) -> None:
        for told in self.script.tasks:
            self._start(told)
        for host in self.hosts.values():
            if not host.worker:
                host.revive()
            elif not host.connected:
                host.reconnect()
        for handset in self.handsets.values():
            handset.cut = 0
            handset.wake()
            while handset.straggle():
                pass
        for actor in self._actors():
            actor.frozen_until_ms = 0
        for task in self.tasks.values():
            if task.intent == "pause":
                task.intent = ""
        self.dispatcher.machine.held_back = False
        self._operator(lambda d: d.tick(self.now))

    def _open_lanes(self) -> None:
        if any(lane.paused_by for lane in self.dispatcher.machine.board.lanes.values()):
            self._operator(lambda d: d.resume("", "op", self.now))

    def _round(self) -> None:
        if not self.dispatcher.alive:
            self.start_dispatcher()
        self._open_lanes()
        for _ in range(4):
            for flight in list(self.flights):
                self._move_flight(flight)
        while self._results():
            pass
        self._timeouts()
        for handset in self.handsets.values():
            for _ in range(3):
                handset.work()
        for name in self.handsets:
            for host in self.hosts.values():
                host.probe(name)
            self.emulators[name].gate()
        self.dispatcher.audit()
        for actor in self._actors():
            actor.process()

    def _actors(self) -> list[Actor]:
        return [
            self.dispatcher,
            *self.hosts.values(),
            *self.emulators.values(),
            *[task for task in self.tasks.values() if task.alive],
        ]

    def _finished(self) -> bool:
        board = self.dispatcher.machine.board
        return not (
            board.entries
            or self.flights
            or self.later
            or self.dispatcher.machine.rebuilding
            or any(task.alive for task in self.tasks.values())
            or len(board.free) < len(self.handsets)
        )

    def _judge(self) -> None:
        broken, d = self.witness.broken, self.dispatcher.machine
        for task in self.tasks.values():
            if task.alive:
                broken(f"{task.name} is {task.state} (wants {task.claim.want}) and never ends")
            self._judge_outcome(task)
        if d.board.entries:
            broken(f"still on the board: {d.board.entries}")
        if d.keys.held or d.keys.parked or d.keys.places or d.board.buckets or d.size_bytes:
            broken(f"keys are left: {d.keys} {d.board.buckets} {d.size_bytes}")
        for actor in self._actors():
            if len(actor.outbox):
                broken(f"{actor.name} still wants to say {actor.outbox.rows()}")
        for name, handset in self.handsets.items():
            row = d.board.rows.get(name)
            if row is None or name not in d.board.free:
                broken(f"{name} is not free: {row}")
            if handset.remains or handset.running or [a for a in handset.queue if not a.given_up]:
                broken(f"{name}: remains of {handset.remains}, runs {handset.running}, queue {handset.queue}")

    def _judge_outcome(self, task: TaskActor) -> None:
        if task.outcome == "cancelled" and not {"cancel", "force"} & set(task.asked):
            self.witness.broken(f"{task.name} was cancelled by nobody")
        if task.outcome == "completed":
            key = m.Key(task.name, task.first_run, task.attempt).text()
            for stage, effects in enumerate(task.told.stages):
                for step in range(effects):
                    if self.handsets[task.home].journal.get(f"{key}/{stage}/{step}") != "done" and not self.without:
                        self.witness.broken(f"{task.name} is completed without effect {stage}/{step} on {task.home}")

    def check_rejected(self, task: TaskActor, news: m.Rejected) -> None:
        self.count(f"rejected {news.reason}")
        fine = {
            "queue_full": self.config.limit <= len(self.script.tasks),
            "cannot_be_satisfied": bool(task.told.requires),
            "duplicate": task.told.on_busy is OnBusy.REJECT,
            "account_running": task.told.on_busy is OnBusy.REJECT,
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
            target.receive(flight.message)
        if flight.run != flight.sender.run and flight in self.flights:
            self.flights.remove(flight)

    def _find(self, name: str) -> Actor | None:
        if name.startswith("dispatcher/"):
            return self.dispatcher if self.dispatcher.alive else None
        if name.startswith("emulator/"):
            return self.emulators[name.removeprefix("emulator/")]
        task = self.tasks.get(name)
        return task if task is not None and task.alive else None

    def lose_flights(self, sender: Actor) -> None:
        """Its run ended: what flies is lost, or arrives late."""
        kept: list[Flight] = []
        for flight in self.flights:
            if flight.sender is not sender:
                kept.append(flight)
            elif not flight.arrived and self.below(2):
                self.count("late copy")
                kept.append(flight)
        self.flights[:] = kept

    def start_dispatcher(self) -> None:
        """Whoever finds it gone starts it; one wins."""
        if self.dispatcher.alive:
            return
        self.dispatcher = DispatcherActor(self, self.config)
        self.dispatcher.restored = False
        self.dispatcher.memory = self.remembered if self.below(4) < 3 else ""  # noqa: PLR2004 - three in four
        self.count("successor with memory" if self.dispatcher.memory else "successor without memory")
        self.dispatcher.frozen_until_ms = self.now + self.below(3) * 500

    # --- the engine's activities ------------------------------------------------------------------------------

    def owner_name(self, emulator_id: str) -> str:
        return self.emulators[emulator_id].machine.owner

    def owner(self, emulator_id: str) -> "Owner | None":
        host = self.hosts.get(self.owner_name(emulator_id))
        return Owner(host) if host is not None else None

    def schedule(self, activity: Activity) -> None:
        self.handsets[activity.emulator].queue.append(activity)
        self.activities.append(activity)

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
        for activity in list(self.activities):
            if activity.given_up or not activity.task.is_open(activity.key.run):
                self.activities.remove(activity)
            elif activity.started and self.now - activity.last_beat_ms > script.HEARTBEAT_TIMEOUT_MS:
                self.count("heartbeat timeout")
                self._resolve(activity, "timeout")
            elif not activity.started and self.now - activity.queued_ms > script.QUEUE_TIMEOUT_MS:
                self.count("schedule to start timeout")
                self._resolve(activity, "timeout")

    # --- tame events ------------------------------------------------------------------------------------------

    def _work(self) -> None:
        self._some_handset().work()

    def _bustle(self) -> None:
        """A little of everything, so that faults meet work in full swing."""
        for _ in range(min(len(self.flights), 5)):
            self.deliver_some()
        while self._results():
            pass
        for handset in self.handsets.values():
            handset.work()

    def _straggle(self) -> None:
        if self._some_handset().straggle():
            self.count("straggler")

    def _pass_time(self) -> None:
        self.now += PAUSES_MS[self.below(len(PAUSES_MS))]
        self._timeouts()
        for actor in self._actors():
            actor.process()

    def _probe(self) -> None:
        for host in self.hosts.values():
            for name in self.handsets:
                host.probe(name)

    def _gate(self) -> None:
        for emulator in self.emulators.values():
            emulator.gate()

    def _audit(self) -> None:
        self.dispatcher.audit()

    # --- hostile events ---------------------------------------------------------------------------------------

    def _some_handset(self) -> Handset:
        return self.handsets[f"e{self.below(len(self.handsets))}"]

    def _some_host(self) -> HostActor:
        return self.hosts[f"h{self.below(len(self.hosts))}"]

    def _some_task(self) -> TaskActor | None:
        return self.tasks.get(f"t{self.below(len(self.script.tasks))}")

    def _kill_worker(self) -> bool:
        host = self._some_host()
        if not host.worker:
            return False
        host.kill()
        return True

    def _restart_worker(self) -> bool:
        host = self._some_host()
        if not host.worker or not host.connected:
            return False
        host.kill()
        host.revive()
        return True

    def _revive_worker(self) -> bool:
        host = next((one for one in self.hosts.values() if not one.worker), None)
        if host is not None:
            host.revive()
        return host is not None

    def _cut_off(self) -> None:
        self._some_host().connected = False

    def _connect(self) -> bool:
        host = next((one for one in self.hosts.values() if one.worker and not one.connected), None)
        if host is not None:
            host.reconnect()
        return host is not None

    def _stall(self) -> None:
        self._some_handset().stalled = True

    def _wake(self) -> bool:
        handset = next((one for one in self.handsets.values() if one.stalled), None)
        if handset is not None:
            handset.wake()
        return handset is not None

    def _reboot(self) -> None:
        self._some_handset().reboot()

    def _cut_line(self) -> None:
        self._some_handset().cut = 1 + self.below(2)

    def _move(self) -> None:
        """An emulator is reached through another host from now on."""
        self._some_handset().host = self._some_host().name

    def _freeze(self) -> None:
        actors = self._actors()
        actors[self.below(len(actors))].frozen_until_ms = self.now + 500 + 500 * self.below(40)

    def _continue_task(self) -> bool:
        task = self._some_task()
        if task is None or not task.alive or task.frozen():
            return False
        task.continue_as_new()
        return True

    def _continue_emulator(self) -> None:
        self.emulators[f"e{self.below(len(self.emulators))}"].continue_as_new()

    def _continue_host(self) -> None:
        self._some_host().continue_as_new()

    def _continue_dispatcher(self) -> None:
        if self.dispatcher.machine.held_back:
            self.dispatcher.continue_as_new()
        elif self.below(2):
            self.dispatcher.close_to_new()
        else:
            self.dispatcher.continue_as_new()

    def _terminate_dispatcher(self) -> bool:
        if not self.dispatcher.alive:
            return False
        self.dispatcher.terminate()
        return True

    def _terminate_task(self) -> bool:
        task = self._some_task()
        if task is None or not task.alive:
            return False
        task.terminate()
        return True

    def _ask(self, what: str) -> bool:
        task = self._some_task()
        if task is None or not task.alive or task.intent in ("cancel", "force"):
            return False
        task.intent = what
        task.asked.append(what)
        task.process()
        return True

    def _cancel(self) -> bool:
        return self._ask("cancel")

    def _force(self) -> bool:
        return self._ask("force")

    def _pause(self) -> bool:
        return self._ask("pause")

    def _resume(self) -> bool:
        return self._ask("")

    def _retry(self) -> bool:
        """A person tries again what was closed: a new run under the same id."""
        old = self._some_task()
        if old is None or old.alive or old.outcome == "completed":
            return False
        self.tasks[old.name] = task = TaskActor(self, old.told, old.number + 1, old.claim.seq)
        task.process()
        return True

    def _operator(self, order: Callable[[Watched], object]) -> None:
        actor = self.dispatcher
        if actor.alive and not actor.frozen() and actor.restored:
            order(actor.machine)
            self.witness.board(actor.machine)
            actor.pump()

    def _pause_lane(self) -> None:
        lane = ("account", "anonymous", "")[self.below(3)]
        self._operator(lambda d: d.pause(lane, "op", "why", self.now))

    def _resume_lane(self) -> None:
        self._operator(lambda d: d.resume("", "op", self.now))

    def _set_capacity(self) -> None:
        capacity = 1 + self.below(3)
        self._operator(lambda d: d.set_capacity(("account", "anonymous")[self.below(2)], capacity, "op", self.now))

    def _prioritize(self) -> None:
        task_id = f"t{self.below(len(self.script.tasks))}"
        self._operator(lambda d: d.prioritize(task_id, 1, "op", self.now))


class Owner:
    """The worker of the host that owns an emulator, as its stages see it."""

    __slots__ = ("alive", "connected", "name")

    def __init__(self, host: HostActor) -> None:
        self.name, self.alive, self.connected = host.name, host.worker, host.connected


def history(choices: Choices, *, without: str = "", kind: type[Watched] = Watched) -> World:
    """Run one history. Raises BrokenPromiseError with its last steps."""
    world = World(choices, without=without, kind=kind)
    try:
        world.run()
    except BrokenPromiseError as broken:
        broken.add_note("\n".join(world.witness.steps))
        broken.add_note(repr(world.script))
        raise
    return world
