"""Each rule of docs/protocol.md closes a hole: with the rule off, the simulator falls into it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from droidherd.domain import messages as m
from droidherd.domain.dispatch.board import Entry, PoolEmulator
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.task.claim import Claim
from tests.protocol import driver
from tests.protocol.choices import Seeded, Tape
from tests.protocol.dispatchers import Change, after, instead, no_change
from tests.protocol.simulator import World, history
from tests.protocol.tasks import TaskActor
from tests.protocol.witness import ANSWER_MS, BrokenPromiseError, Witness

SEEDS = 1_000
RARE = {"key": range(1_950, 2_950), "takes_itself_for_the_first": range(1_250, 2_250)}
"""Where a hole was seen that other rules nearly close as well: once in thousands of histories."""


def test_with_every_rule_in_place_nothing_breaks() -> None:
    assert [] == driver.found("", range(SEEDS // 2))


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param("key", id="1-the-key-names-the-run"),
        pytest.param("outbox", id="2-messages-wait-in-the-outbox-until-delivered"),
        pytest.param("order", id="3-one-message-in-flight-per-target"),
        pytest.param("atomic", id="4-nothing-is-awaited-between-snapshot-and-continuing"),
        pytest.param("journal", id="the-effect-journal-is-read"),
        pytest.param("marker", id="a-lease-on-deck-needs-the-release-marker"),
        pytest.param("priority", id="a-task-keeps-the-priority-it-was-given"),
        pytest.param("listed", id="a-presence-that-begins-names-all-it-has"),
        pytest.param("roll-call", id="a-dispatcher-that-lost-messages-calls-the-roll"),
    ],
)
def test_without_this_rule_a_promise_is_broken(rule: str) -> None:
    assert driver.found(rule, RARE.get(rule, range(SEEDS)))


def takes_every_message_for_a_new_one(d: Dispatcher) -> None:
    def enqueue(original: Callable[..., None]) -> Callable[..., None]:
        def forgetful(ask: m.Enqueue, now_ms: int) -> None:
            d.state.recent.seqs.clear()
            entry = d.board.entries.get(ask.key.task_id)
            if entry is not None:
                entry.ask = replace(entry.ask, seq=ask.seq - 1)
            original(ask, now_ms)

        return forgetful

    def done(original: Callable[..., None]) -> Callable[..., None]:
        def forgetful(message: m.Done, now_ms: int) -> None:
            entry = d.board.entries.get(message.key.task_id)
            original(replace(message, seq=entry.ask.seq) if entry is not None else message, now_ms)

        return forgetful

    def announce(original: Callable[..., None]) -> Callable[..., None]:
        def forgetful(news: m.Announce, now_ms: int) -> None:
            emulator = d.board.emulators.get(news.emulator_id)
            if emulator is not None:
                emulator.incarnation, emulator.seq = news.incarnation, -1
            original(news, now_ms)

        return forgetful

    instead(d, "on_enqueue", enqueue)
    instead(d, "on_done", done)
    instead(d, "on_announce", announce)


def frees_the_down(d: Dispatcher) -> None:
    """Believes that whoever ran on an emulator that is down has let go."""

    def free(news: m.Announce, now_ms: int) -> None:
        entry = d.board.entries.get(d.board.emulators[news.emulator_id].active)
        if news.state is m.EmulatorStatus.DOWN and entry is not None:
            d.leases.remove(entry, entry.ask.seq, now_ms)
            d.assign(now_ms)

    after(d, "on_announce", free)


def frees_the_closed(d: Dispatcher) -> None:
    """Frees the lease of a closed holder at once, without fencing."""

    def free(entry: Entry, now_ms: int, *, closed: bool) -> None:
        d.leases.remove(entry, entry.ask.seq, now_ms)

    instead(d.leases, "fence", lambda _: free)


def forgets_tickets(d: Dispatcher) -> None:
    """Draws a new ticket for whoever comes back."""

    def admit(original: Callable[..., None]) -> Callable[..., None]:
        def forgetful(ask: m.Enqueue, now_ms: int) -> None:
            original(replace(ask, on_busy=m.OnBusy.QUEUE, ticket=0, sticky="", avoid="", lost=0), now_ms)

        return forgetful

    instead(d.admission, "admit", admit)


def answers_once(d: Dispatcher) -> None:
    """Takes the same question again for one that was answered."""

    def enqueue(original: Callable[..., None]) -> Callable[..., None]:
        def once(ask: m.Enqueue, now_ms: int) -> None:
            entry = d.board.entries.get(ask.key.task_id)
            if ask.seq > (entry.ask.seq if entry else d.state.recent.seq(ask.key.task_id)):
                original(ask, now_ms)

        return once

    instead(d, "on_enqueue", enqueue)


def forgets_the_floor(d: Dispatcher) -> None:
    """A dispatcher without memory counts its tokens from the beginning."""

    def begun(*_: object, blind: bool, **__: object) -> None:
        if blind:
            d.board.last_token = 0

    def sweep(original: Callable[..., None]) -> Callable[..., None]:
        def low(emulator: PoolEmulator, _: int) -> None:
            original(emulator, d.board.last_token)

        return low

    def grant(original: Callable[..., None]) -> Callable[..., None]:
        def low(entry: Entry, emulator: PoolEmulator, now_ms: int) -> None:
            original(entry, emulator, d.board.last_token if d.state.rebuild.blind_since_ms else now_ms)

        return low

    after(d, "take_over", begun)
    instead(d.leases, "sweep", sweep)
    instead(d.leases, "grant", grant)


def takes_itself_for_the_first(d: Dispatcher) -> None:
    """Finds nothing of its predecessor, and believes that there never was one."""

    def take_over(original: Callable[..., None]) -> Callable[..., None]:
        def as_the_first(*args: Any, **more: Any) -> None:
            original(*args, **{**more, "blind": False})

        return as_the_first

    instead(d, "take_over", take_over)


def grants_the_disabled(d: Dispatcher) -> None:
    """Notes that an account is disabled, and grants all the same."""
    after(d, "disable", lambda *_: d.keys.disabled.clear())


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(frees_the_down, id="down-never-frees-a-lease"),
        pytest.param(frees_the_closed, id="a-closed-holder-is-fenced-before-it-is-freed"),
        pytest.param(forgets_tickets, id="a-lost-lease-keeps-its-ticket"),
        pytest.param(answers_once, id="9-the-same-question-again-gets-its-answer-again"),
        pytest.param(grants_the_disabled, id="nothing-is-granted-to-a-disabled-account"),
        pytest.param(takes_itself_for_the_first, id="who-finds-nothing-of-its-predecessor-is-blind"),
        pytest.param(forgets_the_floor, id="tokens-go-on-where-they-were-even-without-memory"),
    ],
)
def test_a_dispatcher_without_this_rule_breaks_a_promise(change: Change) -> None:
    with pytest.raises(BrokenPromiseError):
        all_histories(change)


def orders_a_reset_once(d: Dispatcher) -> None:
    """Believes that an order to reset outlives whoever was told."""
    instead(d.leases, "repeat_reset", lambda _: lambda *_: None)


def drops_what_is_older(d: Dispatcher) -> None:
    """Drops a question with a smaller number than one it heard, without a word."""
    instead(d, "_ask_anew", lambda _: lambda *_: None)


def test_whoever_asks_is_answered_within_seconds_also_after_a_lost_step() -> None:
    with pytest.raises(BrokenPromiseError, match="has no answer"):
        all_histories(drops_what_is_older, entities_end=True)


def test_a_question_that_died_with_a_dispatcher_is_repeated_by_the_clock() -> None:
    assert question_dies_with_its_dispatcher("").counts["repeated by the clock"]


def test_a_question_that_died_has_no_answer_unless_it_is_repeated() -> None:
    with pytest.raises(BrokenPromiseError, match="has no answer"):
        question_dies_with_its_dispatcher("repeat")


def question_dies_with_its_dispatcher(without: str) -> Witness:
    """The answer is lost with a run of the task; the question, said again, with the run of the dispatcher.

    The successor has the task in line by its predecessor's memory, and asks it nothing. Its lane is paused, so that no
    grant tells it either.
    """
    world = World(Tape(b""), without=without)
    for _ in range(8):
        world.now += 400
        world._round()
    assert world.operator(lambda d: d.pause("", "op", "why", world.now))
    task = world.tasks["t0"] = TaskActor(world, world.script.tasks[0], 1, 0)
    task.process()
    [question] = [flight for flight in world.flights if flight.sender is task]
    world._move_flight(question)
    assert isinstance(question.answer, m.Admitted)
    task.continue_as_new()
    world.dispatcher.frozen_until_ms = world.now + 1_000
    while any(flight.sender is task for flight in world.flights):
        world._move_flight(next(flight for flight in world.flights if flight.sender is task))
    world.dispatcher.terminate()
    world.start_dispatcher()
    world.healed_ms = world.now
    while world.now < world.healed_ms + 3 * ANSWER_MS:
        world.now += 400
        for actor in world.actors():
            actor.process()
        for flight in list(world.flights):
            world._move_flight(flight)
        world.witness.answers()
    assert task.claim.admitted is not None
    return world.witness


def test_a_reset_is_ordered_again_after_a_termination() -> None:
    with pytest.raises(BrokenPromiseError, match="is not free"):
        all_histories(orders_a_reset_once, entities_end=True)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param("presence", id="a-worker-tells-anew-of-an-emulator-whose-workflow-is-another-one"),
        pytest.param("listed", id="a-worker-asks-the-pool-which-emulators-are-its-own"),
    ],
)
def test_without_this_rule_a_terminated_emulator_is_lost(rule: str) -> None:
    assert driver.found(rule, range(SEEDS), entities_end=True)


def all_histories(change: Change, *, entities_end: bool = False) -> None:
    for seed in RARE.get(change.__name__, range(SEEDS)):
        history(Seeded(seed), "", change, entities_end=entities_end)


def hears_no_priority(d: Dispatcher) -> None:
    """Believes of who stands in line what it said first."""
    instead(d.admission, "_restore_priority", lambda _: lambda *_: None)


FORGOTTEN = ("prioritize", "terminate_dispatcher", "continue_task", "continue_task", "disable", "enable")
LEFT = (
    "prioritize", "terminate_dispatcher", "continue_task", "continue_task", "pause", "resume", "resume", "prioritize",
    "prioritize", "freeze", "pause_lane", "resume_lane",
)  # fmt: skip


@pytest.mark.parametrize("events", [FORGOTTEN, LEFT])
def test_priority_outlives_what_ends_and_begins_again_and_again(events: tuple[str, ...]) -> None:
    in_haste(events)


def test_without_hearing_it_from_who_waits_priority_is_lost_with_the_memory() -> None:
    with pytest.raises(BrokenPromiseError, match="was prioritized"):
        in_haste(FORGOTTEN, hears_no_priority, range(2_000, 3_000))


def test_without_saying_it_again_the_priority_is_lost_with_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repeat = Claim.repeat

    def as_asked(claim: Claim) -> None:
        priority, claim.priority = claim.priority, 0
        repeat(claim)
        claim.priority = priority

    monkeypatch.setattr(Claim, "repeat", as_asked)
    with pytest.raises(BrokenPromiseError, match="was prioritized"):
        in_haste(FORGOTTEN)


def test_without_repeating_it_priority_that_comes_late_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> bool:
        return False

    monkeypatch.setattr(Claim, "comes_late", never)
    with pytest.raises(BrokenPromiseError, match="was prioritized"):
        in_haste(LEFT)


def in_haste(events: tuple[str, ...], change: Change = no_change, seeds: range = range(SEEDS)) -> None:
    """Histories in which nothing else happens than what may cost a task the priority a person gave it."""
    for seed in seeds:
        world = World(Seeded(seed), change=change)
        world.befalls(*events)
        world.run()


def test_rule_8_late_copies_change_nothing() -> None:
    assert (True, m.EmulatorStatus.DOWN) == after_late_copies(no_change)


def test_without_rule_8_a_late_copy_drops_a_task_and_raises_a_dead_emulator() -> None:
    assert (False, m.EmulatorStatus.UP) == after_late_copies(takes_every_message_for_a_new_one)


def after_late_copies(change: Change) -> tuple[bool, m.EmulatorStatus]:
    """A task gave its place back and asked anew; an emulator came and went. Then the older words arrive once more."""
    world = World(Tape(b""), change=change)
    d = world.dispatcher.machine
    ask = m.Enqueue(m.Key("t", "r1", 1), 1, "anonymous", "check")
    done = m.Done(ask.key, 2)
    up = m.Announce("e1", "h", 1, 1, m.EmulatorStatus.UP, boot="b1")
    d.on_enqueue(ask, world.now)
    d.on_done(done, world.now)
    d.on_enqueue(replace(ask, seq=3), world.now)
    d.on_done(done, world.now)
    waits = "t" in d.board.entries
    d.on_announce(up, world.now)
    d.on_announce(replace(up, seq=2, state=m.EmulatorStatus.DOWN), world.now)
    d.on_announce(up, world.now)
    return waits, d.board.emulators["e1"].state
