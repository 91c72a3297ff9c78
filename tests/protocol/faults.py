"""Everything that can go wrong in a history. Each event says False when there was nothing it could befall."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from droidherd.domain import messages as m
from droidherd.domain.dispatch.lane import LANES, LaneRules, Ordering
from droidherd.domain.fleet.emulator import EmulatorAction
from droidherd.domain.messages import EmulatorStatus
from tests.protocol.emulators import Handset
from tests.protocol.fleet import HostActor
from tests.protocol.script import ACCOUNTS
from tests.protocol.tasks import TaskActor

if TYPE_CHECKING:
    from tests.protocol.simulator import World


NAMED_ACCOUNTS = tuple(dict.fromkeys(filter(None, ACCOUNTS)))


class Faults:
    """Hostile events, and people who change their minds."""

    def __init__(self, world: "World") -> None:
        self.world, self.below = world, world.below
        self.events: tuple[Callable[[], object], ...] = (
            *[self._revive_worker] * 3,
            *[self._restart_worker] * 2,
            self._kill_worker,
            self._leave,
            self._depart,
            *[self._connect] * 3,
            *[self._cut_off] * 2,
            *[self._wake] * 4,
            *[self._stall] * 2,
            self._reboot,
            self._cut_line,
            self._move,
            *[self._freeze] * 2,
            *[self._continue_task] * 5,
            self._continue_emulator,
            self._continue_host,
            *[self._continue_dispatcher] * 2,
            self._terminate_dispatcher,
            *[self._terminate_task] * 2,
            *[self._retry] * 4,
            self._ask_person,
            self._cancel,
            self._force,
            self._pause,
            self._resume,
            self._pause_lane,
            self._resume_lane,
            self._set_capacity,
            self._set_ordering,
            self._configure,
            self._pause_for_the_system,
            self._resume_for_the_system,
            self._prioritize,
            *[self._disable] * 2,
            self._enable,
            *[self._die] * 2,
            self._spoil,
            *[self._order] * 2,
            self._drain,
            *([self._terminate_emulator] * 3 if world.entities_end else []),
            *([self._terminate_host] if world.entities_end else []),
            *([self._lose_journals] * 4 if world.tasks_return else []),
            *(self._forgeries() if world.forged else []),
        )

    def _forgeries(self) -> list[Callable[[], object]]:
        once = [self._forge_token, self._forge_given_up, self._forge_ask, self._forge_seen, self._forge_void]
        return [*[self._forge_announce] * 3, *once, self._forge_join, self._lead]

    def only(self, names: Iterable[str]) -> None:
        """Nothing else happens, and as often as it is named."""
        by_name = {event.__name__.strip("_"): event for event in self.events}
        self.events = tuple(by_name[name] for name in names)

    def _some_handset(self) -> Handset:
        return self.world.handsets[f"e{self.below(len(self.world.handsets))}"]

    def _some_host(self) -> HostActor:
        return self.world.hosts[f"h{self.below(len(self.world.hosts))}"]

    def _some_task(self) -> TaskActor | None:
        return self.world.tasks.get(f"t{self.below(len(self.world.script.tasks))}")

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
        host = next((one for one in self.world.hosts.values() if not one.worker), None)
        if host is not None:
            host.revive()
        return host is not None

    def _leave(self) -> bool:
        host = self._some_host()
        if not host.worker or not host.connected or host.leaving:
            return False
        host.leave()
        return True

    def _depart(self) -> bool:
        host = next((one for one in self.world.hosts.values() if one.leaving and one.worker and one.connected), None)
        if host is not None:
            host.depart()
        return host is not None

    def _cut_off(self) -> None:
        self._some_host().connected = False

    def _connect(self) -> bool:
        host = next((one for one in self.world.hosts.values() if one.worker and not one.connected), None)
        if host is not None:
            host.reconnect()
        return host is not None

    def _stall(self) -> None:
        self._some_handset().stalled = True

    def _wake(self) -> bool:
        handset = next((one for one in self.world.handsets.values() if one.stalled), None)
        if handset is not None:
            handset.wake()
        return handset is not None

    def _reboot(self) -> None:
        self._some_handset().reboot()

    def _die(self) -> bool:
        """Nobody would switch it on again where nobody can."""
        handset = self._some_handset()
        recovers = self.world.script.recovery and handset.name not in self.world.script.controllers
        if not recovers or not handset.on:
            return False
        handset.fails = self.below(4)
        handset.fall()
        return True

    def _spoil(self) -> bool:
        handset = self._some_handset()
        if not self.world.script.recovery:
            return False
        handset.unfit = ("", "connection", "app", "boot")[self.below(4)]
        handset.stubborn = self.below(4) == 3
        handset.reboot()
        return True

    def _order(self) -> bool:
        """A person checks_recovery for an emulator."""
        if not self.world.script.recovery:
            return False
        action = tuple(EmulatorAction)[self.below(len(EmulatorAction))]
        if not self.world.emulators[self._some_handset().name].orders(action):
            return False
        self.world.count(f"ordered {action}")
        return True

    def _drain(self) -> bool:
        actor = self.world.emulators[self._some_handset().name]
        if not self.world.script.recovery or actor.frozen() or not actor.alive:
            return False
        actor.machine.on_drain(on=not actor.machine.state.draining, now_ms=self.world.now)
        actor.process()
        return True

    def _lose_journals(self) -> bool:
        return self._some_handset().lose_journals()

    def _cut_line(self) -> None:
        self._some_handset().cut = 1 + self.below(2)

    def _move(self) -> None:
        """An emulator is reached through another host from now on. Where nobody sees it go, it is off the list too."""
        handset, there = self._some_handset(), self._some_host()
        here, handset.host = self.world.hosts[handset.host], there.name
        if here is not there and not (here.worker and here.connected) and here.listed.pop(handset.name, False) is None:
            self.world.count("taken off the list unseen")

    def _freeze(self) -> None:
        actors = self.world.actors()
        actors[self.below(len(actors))].frozen_until_ms = self.world.now + 500 + 500 * self.below(40)

    def _continue_task(self) -> bool:
        busy = [flight.sender for flight in self.world.flights if isinstance(flight.sender, TaskActor)]
        task = busy[0] if busy else self._some_task()
        if not isinstance(task, TaskActor) or not task.alive or task.frozen():
            return False
        task.continue_as_new()
        return True

    def _continue_emulator(self) -> None:
        emulator = self.world.emulators[f"e{self.below(len(self.world.emulators))}"]
        if emulator.alive:
            emulator.continue_as_new()

    def _continue_host(self) -> None:
        host = self._some_host()
        if host.alive:
            host.continue_as_new()

    def _continue_dispatcher(self) -> None:
        if self.world.dispatcher.machine.held_back:
            self.world.dispatcher.continue_as_new()
        elif self.below(2):
            self.world.dispatcher.close_to_new()
        else:
            self.world.dispatcher.continue_as_new()

    def _terminate_dispatcher(self) -> bool:
        if not self.world.dispatcher.alive:
            return False
        self.world.dispatcher.terminate()
        return True

    def _terminate_emulator(self) -> bool:
        emulator = self.world.emulators[self._some_handset().name]
        if not emulator.alive:
            return False
        emulator.terminate()
        return True

    def _terminate_host(self) -> bool:
        host = self._some_host()
        if not host.alive:
            return False
        host.terminate()
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

    def _ask_person(self) -> bool:
        """A task holds on to its lease for longer."""
        task = self._some_task()
        if task is None or not task.alive or task.frozen() or task.claim.lease is None:
            return False
        task.claim.extend(self.world.now + 60_000)
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
        self.world.tasks[old.name] = task = TaskActor(self.world, old.script, old.number + 1, old.claim.seq)
        task.process()
        return True

    def _pause_lane(self) -> None:
        lane = ("account", "anonymous", "")[self.below(3)]
        self.world.operator(lambda d: d.pause(lane, "op", "why", self.world.now))

    def _resume_lane(self) -> None:
        self.world.operator(lambda d: d.resume("", "op", self.world.now))

    def _set_capacity(self) -> bool:
        lane, capacity = LANES[self.below(2)], 1 + self.below(3)
        done = self.world.operator(lambda d: d.set_capacity(lane, capacity, "op", self.world.now))
        if done and capacity != self.world.config.rules.capacity(lane):
            self.world.by_hand[lane] = capacity
        elif done:
            self.world.by_hand.pop(lane, None)
        return done

    def _set_ordering(self) -> bool:
        lane, ordering = LANES[self.below(2)], Ordering(bool(self.below(2)), self.below(3))
        return self.world.operator(lambda d: d.set_ordering(lane, ordering, "op", self.world.now))

    def _configure(self) -> bool:
        """A process starts with other settings."""
        rules = LaneRules({lane: 1 + self.below(4) for lane in LANES}, ("*",) if self.below(2) else (), self.below(3))
        config = replace(self.world.config, rules=rules, mutex_hold_s=(7_200.0, 10.0)[self.below(2)])
        done = self.world.operator(lambda d: d.configure(config, self.world.now))
        if done:
            self.world.config = config
        return done

    def _pause_for_the_system(self) -> bool:
        return self.world.operator(lambda d: d.pause("", "system:disk_full", "h0", self.world.now))

    def _resume_for_the_system(self) -> bool:
        return self.world.operator(lambda d: d.resume("", "system:disk_full", self.world.now))

    def _disable(self) -> bool:
        account = NAMED_ACCOUNTS[self.below(len(NAMED_ACCOUNTS))]
        done = self.world.operator(lambda d: d.disable(account, "op", "banned", self.world.now))
        if done:
            self.world.disabled[account] = None
        return done

    def _enable(self) -> bool:
        account = next(iter(self.world.disabled), "")
        return bool(account) and self.world.enable(account)

    # --- somebody else speaks, or a clock was wrong -----------------------------------------------------------

    def _ahead(self) -> int:
        return self.world.now + (5_000, 3_600_000, 86_000_000)[self.below(3)]

    def _forge_announce(self) -> bool:
        """Next in turn, or hours ahead."""
        state = self.world.emulators[self._some_handset().name].machine.state
        status = (EmulatorStatus.DOWN, EmulatorStatus.SUSPECT, EmulatorStatus.RECOVERING)[self.below(3)]
        ahead = self._ahead()
        incarnation, seq = ((state.incarnation, state.seq + 1), (ahead, ahead))[self.below(2)]
        news = m.Announce(state.emulator_id, state.owner, incarnation, seq, status, token=self.below(2) * ahead)
        self.world.dispatcher.receive(news)
        return True

    def _forge_seen(self) -> bool:
        emulator, ahead = self.world.emulators[self._some_handset().name], self._ahead()
        if not emulator.machine.state.owner or not emulator.alive:
            return False
        health = (m.Health.DOWN, m.Health.SUSPECT)[self.below(2)]
        owner = emulator.machine.state.owner
        emulator.receive(m.Seen(emulator.machine.state.emulator_id, owner, ahead, ahead, health, pool="p"))
        return True

    def _forge_void(self) -> bool:
        """Whatever its pool switches is older."""
        emulator = self.world.emulators[self._some_handset().name]
        emulator.receive(m.Recall(1, voids=self._ahead()))
        return emulator.alive

    def _forge_token(self) -> bool:
        """A task took an emulator by a lease that nobody granted."""
        handset = self._some_handset()
        if handset.token is None:
            return False
        handset.token = max(handset.token, (self._ahead(), 0, 0))
        return True

    def _forge_given_up(self) -> bool:
        """A grant for an attempt that is none: the task takes no smaller token any more."""
        task = self._some_task()
        if task is None or not task.alive:
            return False
        key = m.Key(task.name, task.first_run, 99)
        task.receive(m.Grant(key, 1, m.Lease(self._ahead(), "e0", "h0", self.world.now + 60_000)))
        return True

    def _forge_ask(self) -> bool:
        """What it asks itself is older."""
        task = self._some_task()
        if task is None or not task.alive or task.claim.ask is None or task.claim.lease is not None:
            return False
        self.world.witness.counting.spoken_for.add(task.name)
        seq = task.claim.seq + self._ahead() - self.world.now  # it counts from the time at which it began
        self.world.dispatcher.receive(replace(task.claim.ask, seq=seq))
        return True

    def _forge_join(self) -> None:
        host = self._some_host()
        host.newest = max(host.newest, self._ahead())

    def _lead(self) -> bool:
        """The clock was hours ahead, and was put right."""
        return self.world.operator(lambda d: d.board.saw_token(self._ahead()))

    def _prioritize(self) -> None:
        task_id = f"t{self.below(len(self.world.script.tasks))}"
        self.world.operator(lambda d: d.prioritize(task_id, 1, "op", self.world.now))
