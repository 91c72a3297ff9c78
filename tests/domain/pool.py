"""A pool for tests: a dispatcher, and short words for what is said to it."""

from dataclasses import replace
from typing import Any

from droidherd.domain import messages as m
from droidherd.domain.dispatch.board import EntryState
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.state import DispatcherState, PoolConfig
from droidherd.domain.dispatch.stats import AttemptStats
from droidherd.domain.messages import EmulatorStatus, Health, OnBusy

NOW = 1_700_000_000_000


class Pool:
    """What tests say is sent at `now`; what comes back is kept until it is asked for."""

    def __init__(self, **config: Any) -> None:
        self.d = Dispatcher("pool", PoolConfig(**config))
        self.now = NOW
        self._seq = 0

    def seq(self) -> int:
        self._seq += 1
        return self._seq

    def ask(self, task_id: str, lane: str = "anonymous", **more: Any) -> m.Enqueue:
        given = m.Enqueue(m.Key(task_id, "r1", 1), self.seq(), lane, "check", on_busy=OnBusy.QUEUE)
        return replace(given, **more)

    def enqueue(self, task_id: str, lane: str = "anonymous", **more: Any) -> m.Enqueue:
        ask = self.ask(task_id, lane, **more)
        self.d.on_enqueue(ask, self.now)
        return ask

    def done(self, task_id: str, outcome: str = "completed", *, clean: bool = True, seconds: float = 1.0) -> None:
        entry = self.d.board.entries.get(task_id)
        token = entry.lease.token if entry is not None and entry.lease is not None else 0
        self.d.on_done(m.Done(m.Key(task_id, "r1", 1), self.seq(), outcome, clean, seconds, token=token), self.now)

    def ending(self, task_id: str) -> None:
        self.d.on_ending(m.Ending(m.Key(task_id, "r1", 1), self.seq()), self.now)

    def emulator(
        self, name: str, state: EmulatorStatus = EmulatorStatus.UP, *, incarnation: int = 1, boot: str = "b1",
        labels: tuple[str, ...] = (), reset_to: int = 0, why: str = "",
    ) -> None:  # fmt: skip
        news = m.Announce(name, "h", incarnation, self.seq(), state, labels, boot, reset_to, why=why)
        self.d.on_announce(news, self.now)

    def short_tasks(self) -> None:
        """The type `check` is known to end soon, so that others may stand on deck behind it."""
        self.d.stats.by_type["check"] = AttemptStats.from_sums(1, 1, 1.0)

    def on(self, emulator_id: str) -> str:
        return self.d.board.emulators[emulator_id].active

    def place(self, task_id: str) -> EntryState | None:
        entry = self.d.board.entries.get(task_id)
        return entry.state if entry else None

    def lease(self, task_id: str) -> m.Lease:
        lease = self.d.board.entries[task_id].lease
        assert lease is not None
        return lease

    def deliver(self, target: str) -> None:
        """Everything said to this one arrives."""
        while target in self.d.outbox.lines:
            self.d.outbox.launch(target)
            self.d.outbox.mark_delivered(target)
        self.d.on_delivered(target, self.now)

    def messages_to(self, target: str, kind: type) -> list[Any]:
        return [one for one in self.d.outbox.lines.get(target, []) if isinstance(one, kind)]

    def order(self) -> list[str]:
        """Who was granted, in this order, as one emulator becomes free again and again."""
        granted: list[str] = []
        while task := self.on("e1"):
            granted.append(task)
            self.now += 10
            self.done(task)
        return granted


def seen(host: str, health: Health = Health.GOOD, *, incarnation: int = 1, seq: int = 1, boot: str = "b1") -> m.Seen:
    return m.Seen("e1", host, incarnation, seq, health, boot, pool="pool")


def again(pool: Pool, config: PoolConfig | None = None) -> Pool:
    """After a continue-as-new."""
    other = Pool()
    other.d = Dispatcher(state=DispatcherState.load(pool.d.state.dump(), config or pool.d.state.config))
    other.now, other._seq = pool.now, pool._seq
    return other
