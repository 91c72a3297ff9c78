"""Whatever anybody sends: what a dispatcher, an emulator and a task's claim keep of it has a limit."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from droidherd.domain import messages as m
from droidherd.domain.dispatch.audit import AuditEntry
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.lane import LaneRules
from droidherd.domain.dispatch.state import (
    EMULATORS_MAX,
    RETIRED_KEPT,
    DispatcherState,
    ExpectedTask,
    PoolConfig,
)
from droidherd.domain.fleet.emulator import (
    HOSTS_MAX,
    ORDERS_MAX,
    Emulator,
    EmulatorAction,
    EmulatorRequest,
    EmulatorState,
)
from droidherd.domain.messages import EmulatorStatus, Health, OnBusy, RevokeReason
from droidherd.domain.task.claim import UNHEARD_MAX, Claim
from tests.domain.pool import NOW, Pool, again
from tests.protocol.boards import a_name, full

FEW, MANY = 1_000, 10_000
SNAPSHOT_BYTES = 1_500_000
"""Of a dispatcher. One with 10,000 tasks of the longest names has no more (tests/protocol/test_limits.py)."""
HOSTILE_BYTES = 1_900_000
"""Of one whose queue was full before: Temporal refuses to continue as new above 2 MB."""


class Stranger:
    """Says anything that the door lets in: every text as long as it may be, every name as random as it gets."""

    def __init__(self, d: Dispatcher, seed: int) -> None:
        self.d, self.random = d, random.Random(seed)
        self.now = NOW
        self.kinds = [self.enqueue, self.ask, self.soon, self.ending, self.done, self.announce, self.closed]
        self.kinds += [self.audit, self.configure, self.lane, self.account]

    def text(self, length: int) -> str:
        return (a_name(self.random) * (length // 64 + 1))[:length]

    def texts(self, count: int, length: int) -> tuple[str, ...]:
        return tuple(self.text(length) for _ in range(self.random.randint(0, count)))

    def key(self) -> m.Key:
        known = list(self.d.board.entries)[:3]
        task_id = self.random.choice([*known, a_name(self.random)])
        return m.Key(task_id, self.random.choice(["r1", a_name(self.random)]), self.random.randint(1, 3))

    def lease(self) -> m.Lease:
        return m.Lease(self.now + self.random.randint(0, 9), a_name(self.random), a_name(self.random), 2**53)

    def request(self) -> m.Enqueue:
        return m.Enqueue(
            self.key(),
            self.random.randint(-1, 3),
            a_name(self.random),
            self.text(64),
            self.texts(3, 200),
            a_name(self.random),
            self.texts(2, 200),
            on_busy=self.random.choice(list(OnBusy)),
            ticket=self.random.choice([0, 0, 5, -self.random.randint(1, 99)]),
            sticky=self.text(64),
            avoid=self.text(64),
            lease=self.random.choice([None, None, self.lease()]),
        )

    def enqueue(self) -> None:
        self.d.on_enqueue(self.request(), self.now)

    def ask(self) -> None:
        self.d.ask(self.request(), self.now)

    def soon(self) -> None:
        soon = m.Soon(self.key(), self.random.randint(0, 9), self.now + 10**6, self.texts(9, 200), a_name(self.random))
        self.d.on_soon(soon, self.now)

    def ending(self) -> None:
        self.d.on_ending(m.Ending(self.key(), self.random.randint(0, 9)), self.now)

    def done(self) -> None:
        self.d.on_done(m.Done(self.key(), self.random.randint(0, 9), self.text(64), token=self.now), self.now)

    def announce(self) -> None:
        news = m.Announce(
            self.random.choice(["e1", a_name(self.random)]),
            a_name(self.random),
            self.random.randint(0, 10**6),
            self.random.randint(0, 10**6),
            self.random.choice(list(EmulatorStatus)),
            self.texts(20, 200),
            self.text(1_000),
            action=self.random.choice(["", "drain"]),
            actor=self.text(1_000),
            reason=self.text(1_000),
            startable=True,
            why=self.text(1_000),
        )
        self.d.on_announce(news, self.now)

    def closed(self) -> None:
        key = self.key()
        self.d.on_closed(key.task_id, key.run, self.now)

    def audit(self) -> None:
        if self.d.state.handled.is_new(self.text(1_000)):
            entry = AuditEntry(self.text(64), self.text(1_000), self.text(1_000), detail=self.text(1_000))
            self.d.audit_recorder.record(entry, self.now)

    def configure(self) -> None:
        rules = LaneRules({a_name(self.random): 1 for _ in range(9)}, (a_name(self.random),))
        self.d.configure(replace(self.d.state.config, rules=rules), self.now)

    def lane(self) -> None:
        lane = a_name(self.random)
        if not self.d.lanes.refusal(lane):
            self.d.set_capacity(lane, 3, self.text(1_000), self.now)
            self.d.pause(lane, self.text(1_000), self.text(1_000), self.now)

    def account(self) -> None:
        name = a_name(self.random)
        if not self.d.accounts.refusal(name):
            self.d.disable(name, self.text(1_000), self.text(1_000), self.now)

    def say(self, count: int, *kinds: Callable[[], None]) -> None:
        for number in range(count):
            self.now += self.random.randint(0, 50)
            self.random.choice(kinds or self.kinds)()
            if number % 100 == 0:
                self.d.tick(self.now)


def assert_goes_on(d: Dispatcher, most: int = SNAPSHOT_BYTES) -> None:
    text = d.state.dump()
    assert len(text) < most
    state = DispatcherState.load(text, d.state.config)
    assert state.weight == d.state.weight
    assert text == state.dump() or len(text) > len(state.dump())


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.long)])
def test_a_dispatcher_can_continue_as_new_after_anything(count: int) -> None:
    d = Dispatcher("pool", PoolConfig())
    Stranger(d, 1).say(count)
    assert_goes_on(d)


KINDS = ("enqueue", "ask", "soon", "done", "announce", "audit", "configure", "lane", "account")


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_dispatcher_can_continue_as_new_after_ten_thousand_of_a_kind(kind: str) -> None:
    d = Dispatcher("pool", PoolConfig())
    stranger = Stranger(d, 2)
    stranger.say(MANY, getattr(stranger, kind))
    assert_goes_on(d)


@pytest.mark.long
def test_a_dispatcher_with_a_full_queue_can_continue_as_new_after_anything() -> None:
    d = full(MANY)
    d.outbox.lines.clear()
    Stranger(d, 3).say(MANY)
    assert_goes_on(d, HOSTILE_BYTES)


@pytest.mark.parametrize(("first", "last"), [(33, 126), (0x430, 0x44F), (0x4E00, 0x9FFF), (0x1F300, 0x1F5FF)])
def test_a_snapshot_is_no_larger_than_it_is_taken_for_in_any_alphabet(first: int, last: int) -> None:
    pool, chance = Pool(), random.Random(4)

    def text() -> str:
        return "".join(chr(chance.randint(first, last)) for _ in range(200))

    for number in range(300):
        pool.d.accounts.disable(f"account-{number}", text(), text(), NOW)
        state = EmulatorStatus.DRAINING
        pool.d.on_announce(m.Announce(f"e{number}", "h", 1, 1, state, (), "b", why=text()), NOW)
    audit_bytes = 100_000
    assert len(pool.d.state.dump()) <= pool.d.state.weight.total_bytes + audit_bytes


def test_a_pool_takes_no_more_emulators_than_it_keeps_and_says_what_to_do() -> None:
    pool = Pool()
    for number in range(EMULATORS_MAX + RETIRED_KEPT):
        pool.emulator(f"e{number}")
    pool.emulator("late")
    refused = pool.d.state.events.events[-1]
    assert ("emulator_refused", "late") == (refused.kind, refused.emulator_id)
    assert "host.pool" in refused.detail
    assert "late" not in pool.d.board.emulators
    pool.enqueue("t1", requires=("emulator_id=e7",))
    assert "t1" == pool.on("e7")


def test_labels_beyond_the_limit_are_not_taken_over_and_the_rest_is() -> None:
    pool = Pool()
    random_ = random.Random(1)
    for number in range(25):
        pool.emulator(f"e{number}", labels=tuple(a_name(random_) * 3 for _ in range(100)))
    refused = [one for one in pool.d.state.events.events if one.kind == "labels_refused"]
    assert refused
    last = pool.d.board.emulators["e24"]
    assert (EmulatorStatus.UP, ()) == (last.state, last.labels)


def test_who_holds_an_emulator_beyond_the_limit_is_asked_to_let_go() -> None:
    pool = Pool()
    for number in range(EMULATORS_MAX + RETIRED_KEPT):
        pool.emulator(f"e{number}")
    pool.enqueue("t1", lease=m.Lease(NOW, "nobody", "h", NOW + 1))
    assert None is pool.place("t1")
    assert [RevokeReason.EXPIRED] == [one.reason for one in pool.messages_to("t1", m.Revoked)]


def test_a_claimed_lease_lasts_no_longer_than_any_other() -> None:
    pool = Pool()
    pool.emulator("e1")
    pool.enqueue("t1", lease=m.Lease(NOW, "e1", "h", 2**53))
    assert pool.lease("t1").expires_at_ms <= NOW + 86_400_000


def test_a_task_that_comes_back_is_taken_into_a_full_queue() -> None:
    pool = Pool(limit=3)
    for number in range(3):
        pool.enqueue(f"t{number}")
    pool.enqueue("new")
    pool.enqueue("returning", ticket=7)
    assert [None, "waiting"] == [pool.place("new"), pool.place("returning")]


def test_lanes_that_the_settings_do_not_name_any_more_are_forgotten() -> None:
    pool = Pool()
    for number in range(9):
        rules = LaneRules({f"lane-{number}": 2})
        pool.d.configure(replace(pool.d.state.config, rules=rules), pool.now)
    assert ["lane-8"] == list(pool.d.board.lanes)


def test_a_hint_weighs_nothing_once_its_task_has_asked() -> None:
    pool = Pool()
    pool.d.on_soon(m.Soon(m.Key("t1", "r1", 1), 1, NOW + 9, ("a=b",), "lane"), NOW)
    assert {"t1": ExpectedTask(NOW + 9, ("a=b",), "lane")} == pool.d.state.expected
    assert 0 < again(pool).d.state.weight.expected_bytes == pool.d.state.weight.expected_bytes
    pool.seq()
    pool.enqueue("t1")
    assert 0 == pool.d.state.weight.expected_bytes


def test_a_token_that_an_emulator_was_fenced_up_to_is_never_granted_again() -> None:
    pool = Pool()
    pool.emulator("e1", reset_to=NOW + 1_000_000)
    pool.enqueue("t1")
    assert pool.lease("t1").token > NOW + 1_000_000


def test_a_rebuild_is_the_reason_why_a_task_waits() -> None:
    pool = Pool()
    pool.d.take_over({"t9": "r1"}, pool.now, 60.0, blind=True)
    pool.enqueue("t1")
    why = pool.messages_to("t1", m.Admitted)[-1].why
    assert "the dispatcher of pool pool is rebuilding what it knew: 1 tasks have yet to say what they hold" == why


# --- lines of messages -------------------------------------------------------------------------------------------


def test_a_task_that_is_answered_for_ever_has_a_short_line() -> None:
    pool = Pool()
    pool.emulator("e1")
    first = pool.enqueue("t1")
    for incarnation in range(2, 300):
        pool.emulator("e1", incarnation=incarnation)
        pool.d.on_enqueue(replace(first, seq=0), pool.now)
        pool.d.on_enqueue(replace(first, seq=pool.seq()), pool.now)
    assert pool.d.outbox.waiting("t1") < 20
    assert 1 <= len(pool.messages_to("t1", m.Grant))


def emulator() -> Emulator:
    one = Emulator(EmulatorState("e1"))
    one.on_seen(m.Seen("e1", "h1", 1, 1, Health.GOOD, "b1", pool="pool"))
    return one


def test_an_emulator_keeps_the_reports_of_few_hosts() -> None:
    one = emulator()
    for number in range(300):
        one.on_seen(m.Seen("e1", f"other-{number}", 1, 1, Health.GOOD, "b1", pool="pool"))
    assert HOSTS_MAX == len(one.state.reports)
    assert "h1" == one.state.owner
    one.on_seen(m.Seen("e1", "other-1", 1, 2, Health.LEFT, pool="pool"))
    one.on_seen(m.Seen("e1", "late", 1, 1, Health.GOOD, "b1", pool="pool"))
    assert {"h1", "late"} <= set(one.state.reports)


def test_an_emulator_whose_pool_hears_nothing_refuses_further_orders() -> None:
    one = emulator()
    orders = [one.on_control(EmulatorRequest(EmulatorAction.RELEASE, "ann", "x")) for _ in range(100)]
    assert "" == orders[0]
    assert f"dispatcher/pool has not heard of the last {ORDERS_MAX} orders: see `droidherd status`" == orders[-1]
    for number in range(300):
        one.on_drain(on=number % 2 == 1, actor="ann")
    assert one.outbox.waiting("dispatcher/pool") <= ORDERS_MAX + 8
    last = one.state.outbox["dispatcher/pool"][-1]
    assert one.state.draining or (isinstance(last, m.Announce) and last.state is EmulatorStatus.DRAINING)


def test_an_emulator_that_is_moved_on_and_on_keeps_few_pools_waiting() -> None:
    one = emulator()
    for number in range(300):
        one.on_seen(m.Seen("e1", "h1", 1, 2 + number, Health.GOOD, "b1", pool=f"pool-{number}"))
    assert len(one.state.outbox) <= 8


def grants(count: int) -> Iterator[m.Grant]:
    for token in range(1, count):
        yield m.Grant(m.Key("t", "r1", 1), 7, m.Lease(token, "e1", "h", 9), 10)


def test_a_task_gives_back_so_many_emulators_at_once_and_no_more() -> None:
    claim = Claim("dispatcher/p", 10, run="r1")
    claim.request(m.Enqueue(m.Key("t", "r1", 1), 0, "anonymous", "check"))
    claim.done("completed", final=True)
    for grant in grants(1_000):
        claim.hear(grant)
        claim.hear(m.Recall(grant.lease.token, m.Key("t", "r1", grant.lease.token)))
    line = claim.outbox.lines["dispatcher/p"]
    assert len(line) <= UNHEARD_MAX
    assert any(isinstance(one, m.Done) and one.final for one in line)


def test_a_task_that_is_asked_for_ever_repeats_itself_once() -> None:
    claim = Claim("dispatcher/p", 10, run="r1")
    claim.request(m.Enqueue(m.Key("t", "r1", 1), 0, "anonymous", "check"))
    for generation in range(1_000):
        claim.hear(m.Recall(generation))
    assert len(claim.outbox.lines["dispatcher/p"]) <= 8


def test_a_recall_from_the_far_future_does_not_push_a_task_there() -> None:
    claim = Claim("dispatcher/p", 10, run="r1")
    claim.hear(m.Recall(1, seq=2**53))
    assert 10 == claim.seq
    claim.hear(m.Recall(1, seq=99))
    assert 99 == claim.seq
