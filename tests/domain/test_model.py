"""The dispatcher against a naive model, which sorts everything anew each time."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from droidherd.domain import messages as m
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.state import DispatcherState
from tests.domain.pool import Pool

TASKS = st.sampled_from([f"t{i}" for i in range(8)])
EMULATORS = ("e1", "e2", "e3")
LANES = ("one", "two")


class AgainstTheModel(RuleBasedStateMachine):
    """The model knows tickets, accounts, lanes and who holds what, and nothing of buckets, parking or turns."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = Pool()
        self.waiting: dict[str, tuple[int, str, str, str]] = {}
        """task → (ticket, lane, account, emulator it requires or none)"""
        self.holding: dict[str, tuple[str, str, str]] = {}
        """task → (emulator, lane, account)"""
        self.paused: set[str] = set()
        self.tickets = 0

    @initialize()
    def emulators_join(self) -> None:
        for lane in LANES:
            self.pool.d.set_capacity(lane, 2, "op", self.pool.now)
        for name in EMULATORS:
            self.pool.emulator(name)

    @rule(task=TASKS, lane=st.sampled_from(LANES), account=st.sampled_from(["", "ann", "bob"]),
          bound=st.sampled_from(["", "", "e1", "e2"]))  # fmt: skip
    def enqueue(self, task: str, lane: str, account: str, bound: str) -> None:
        if task not in self.waiting and task not in self.holding:
            self.tickets += 1
            self.waiting[task] = (self.tickets, lane, account, bound)
            self.pool.enqueue(task, lane, account=account, requires=(f"emulator_id={bound}",) if bound else ())
            self.follow()

    @rule(task=TASKS)
    def done(self, task: str) -> None:
        self.pool.now += 1
        self.pool.done(task)
        self.waiting.pop(task, None)
        self.holding.pop(task, None)
        self.follow()

    @rule(lane=st.sampled_from(LANES))
    def pause(self, lane: str) -> None:
        self.paused.add(lane)
        self.pool.d.pause(lane, "op", "", self.pool.now)

    @rule(lane=st.sampled_from(LANES))
    def resume(self, lane: str) -> None:
        self.paused.discard(lane)
        self.pool.d.resume(lane, "op", self.pool.now)
        self.follow()

    @rule()
    def continue_as_new(self) -> None:
        before = self.pool.d
        self.pool.d = Dispatcher(state=DispatcherState.load(before.state.dump(), before.state.config))
        assert before.state == self.pool.d.state

    def follow(self) -> None:
        """Take over who was granted, each one judged by the model."""
        granted: list[Any] = [
            one for line in self.pool.d.outbox.lines.values() for one in line if isinstance(one, m.Grant)
        ]
        for one in sorted(granted, key=lambda grant: grant.lease.token):
            task = one.key.task_id
            if task not in self.waiting:
                continue
            ticket, lane, account, bound = self.waiting[task]
            assert self.runnable(task)
            assert one.lease.emulator_id not in [emulator for emulator, _, _ in self.holding.values()]
            ahead = [t for t, (n, *rest) in self.waiting.items() if n < ticket and rest[0] == lane and rest[2] == bound]
            assert [] == [t for t in ahead if self.runnable(t)]
            del self.waiting[task]
            self.holding[task] = (one.lease.emulator_id, lane, account)
        self.pool.d.outbox.lines.clear()

    def runnable(self, task: str) -> bool:
        _, lane, account, _ = self.waiting[task]
        used = [other for _, other, _ in self.holding.values()]
        accounts = [other for _, _, other in self.holding.values() if other]
        return lane not in self.paused and used.count(lane) < 2 and account not in accounts

    @precondition(lambda self: bool(self.waiting))
    @invariant()
    def nobody_who_could_run_waits(self) -> None:
        idle = set(EMULATORS) - {emulator for emulator, _, _ in self.holding.values()}
        for task, (_, _, _, bound) in self.waiting.items():
            assert not (self.runnable(task) and (bound in idle if bound else idle))

    @invariant()
    def the_board_says_the_same(self) -> None:
        board = self.pool.d.board
        assert {task: where for task, (where, _, _) in self.holding.items()} == {
            entry.task_id: entry.lease.emulator_id for entry in board.held() if entry.lease
        }
        assert len(self.waiting) == board.waiting


TestAgainstTheModel = AgainstTheModel.TestCase
TestAgainstTheModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None, database=None)
