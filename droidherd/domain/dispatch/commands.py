"""What people may order of a pool, by the name of the update that carries it; and how it is known after a disaster.

The workflow carries commands out while it runs. A successor whose predecessor cannot be asked carries them out once
more, as they stand in that one's history: `recovered`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

from droidherd.domain import messages as m
from droidherd.domain.dispatch.audit import AuditEntry
from droidherd.domain.dispatch.board import Board
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.keys import Keys
from droidherd.domain.dispatch.lane import Ordering
from droidherd.domain.dispatch.state import DispatcherState, PoolConfig, RebuildState

WHICH_ACCOUNT = "say which account"
WHICH_LANE = "say which lane"
NOT_FOR_ALL = "say which lane: this is not set for all of them at once"


class Command(Protocol):
    """An order with everything that any of them takes."""

    @property
    def request_id(self) -> str: ...
    @property
    def actor(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def lane(self) -> str: ...
    @property
    def capacity(self) -> int: ...
    @property
    def task_id(self) -> str: ...
    @property
    def account(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def order(self) -> str: ...
    @property
    def ageing(self) -> int: ...
    @property
    def bulk(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class PoolCommand:
    """One kind of order."""

    refusal: Callable[[Dispatcher, Command], str]
    """Why it cannot be carried out; empty: it can."""
    apply: Callable[[Dispatcher, Command, int], object]


def _any_lane(d: Dispatcher, command: Command) -> str:
    return d.lanes.refusal(command.lane)


def _one_lane(d: Dispatcher, command: Command) -> str:
    return d.lanes.refusal(command.lane) if command.lane else NOT_FOR_ALL


def _named_lane(_: Dispatcher, command: Command) -> str:
    return "" if command.lane else WHICH_LANE


def _waiting_task(d: Dispatcher, command: Command) -> str:
    entry = d.board.entries.get(command.task_id)
    waits = entry is not None and entry.lease is None
    return "" if waits else f"task {command.task_id} does not wait in pool {d.state.pool}"


def _new_account(d: Dispatcher, command: Command) -> str:
    return d.accounts.refusal(command.account) if command.account else WHICH_ACCOUNT


def _named_account(_: Dispatcher, command: Command) -> str:
    return "" if command.account else WHICH_ACCOUNT


def _set_order(d: Dispatcher, command: Command, now_ms: int) -> None:
    ordering = Ordering(command.order == "priority", command.ageing)
    d.set_ordering(command.lane, ordering, command.actor, now_ms, command.reason)


def _prioritize(d: Dispatcher, command: Command, now_ms: int) -> None:
    prioritize = d.prioritize_in_bulk if command.bulk else d.prioritize
    prioritize(command.task_id, command.priority, command.actor, now_ms, command.reason)


COMMANDS: Mapping[str, PoolCommand] = MappingProxyType({
    "pause_lane": PoolCommand(_any_lane, lambda d, c, now_ms: d.pause(c.lane, c.actor, c.reason, now_ms)),
    "resume_lane": PoolCommand(_any_lane, lambda d, c, now_ms: d.resume(c.lane, c.actor, now_ms, c.reason)),
    "set_capacity": PoolCommand(
        _one_lane, lambda d, c, now_ms: d.set_capacity(c.lane, c.capacity, c.actor, now_ms, c.reason)
    ),
    "set_order": PoolCommand(_one_lane, _set_order),
    "reset_lane": PoolCommand(_named_lane, lambda d, c, now_ms: d.reset_lane(c.lane, c.actor, now_ms, c.reason)),
    "prioritize": PoolCommand(_waiting_task, _prioritize),
    "disable_account": PoolCommand(_new_account, lambda d, c, now_ms: d.disable(c.account, c.actor, c.reason, now_ms)),
    "enable_account": PoolCommand(_named_account, lambda d, c, now_ms: d.enable(c.account, c.actor, now_ms, c.reason)),
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class CommandRecord:
    """Something that a dispatcher heard, and when."""

    at_ms: int
    what: Command | AuditEntry | m.Announce | PoolConfig
    command: str = ""
    """The name of a command."""


def recovered(before: DispatcherState, heard: Iterable[CommandRecord]) -> DispatcherState:
    """What people set and who did what, of a dispatcher that cannot be asked. It began with `before` and heard this.

    Nothing of its tasks, emulators and leases: what became of those, its history does not say without a replay.
    """
    machine = Dispatcher(state=before)
    machine.held_back = True
    announced = {one.emulator_id: (one.incarnation, one.seq) for one in before.board.emulators.values()}
    for one in heard:
        if isinstance(one.what, m.Announce):
            number = one.what.incarnation, one.what.seq
            if number <= announced.get(one.what.emulator_id, (0, -1)):
                continue
            announced[one.what.emulator_id] = number
        _hear(machine, one)
    return _set_by_people(machine.state)


def _hear(machine: Dispatcher, record: CommandRecord) -> None:
    match record.what:
        case PoolConfig():
            machine.configure(record.what, record.at_ms)
        case AuditEntry():
            if machine.state.handled.is_new(record.what.once):
                machine.audit_recorder.record(record.what, record.at_ms)
        case m.Announce():
            machine.audit_announced(record.what, record.at_ms)
        case command:
            kind = COMMANDS.get(record.command)
            if kind is None or not machine.state.handled.is_new(command.request_id):
                return
            if not kind.refusal(machine, command):
                kind.apply(machine, command, record.at_ms)
            elif record.command == "prioritize" and not command.bulk:  # a task that is forgotten, and who preferred it
                detail = f"priority {command.priority} by {command.actor}"
                entry = AuditEntry("prioritized", command.actor, command.reason, "", command.task_id, detail=detail)
                machine.audit_recorder.record(entry, record.at_ms)


def _set_by_people(state: DispatcherState) -> DispatcherState:
    board = Board(pattern=state.board.pattern, rules=state.board.rules)
    for lane in state.board.lanes.values():
        if state.board.by_hand(lane):
            board.lanes[lane.name] = replace(lane, in_use=0, waiting=0, turns=0)
    return DispatcherState(
        pool=state.pool,
        board=board,
        keys=Keys(disabled=dict(state.keys.disabled)),
        events=state.events,
        audit=state.audit,
        rebuild=RebuildState(generation=state.rebuild.generation),
        handled=state.handled,
    )
