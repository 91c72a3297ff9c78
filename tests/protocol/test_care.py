"""The care of emulators: with one of its rules off, some history shows it."""

from collections.abc import Callable

import pytest

from droidherd.domain import messages as m
from droidherd.domain import power
from droidherd.domain.board import Board, Row
from droidherd.domain.emulator import Emulator, GateOrder
from droidherd.domain.ladder import Measure, Rung
from droidherd.domain.messages import Sight
from droidherd.domain.moves import Moves
from droidherd.domain.presence import Watch
from tests.protocol import care, fleet, script
from tests.protocol.choices import Seeded
from tests.protocol.fleet import EmulatorActor
from tests.protocol.simulator import history
from tests.protocol.witness import BrokenPromiseError

SEEDS = 3_000
RARE = {"believes_every_gate": 5_800, "forgets_what_it_wished": 17_700}
"""Where it was seen first, when it takes thousands of histories."""
Patch = pytest.MonkeyPatch


def all_histories(first: int) -> None:
    """Those in which hosts can do something for their emulators."""
    for seed in range(first, first + SEEDS):
        if script.write(Seeded(seed)).care:
            history(Seeded(seed))


def grants_the_restarted(patch: Patch) -> None:
    """Whoever answers may be granted, whatever its host was told."""

    def stays(_: Emulator) -> bool:
        return False

    patch.setattr(Emulator, "_goes", stays)


def boots_as_it_likes(patch: Patch) -> None:
    patch.setattr(care, "BOOTS", (Rung.RESTART,))


def grants_who_is_to_rest(patch: Patch) -> None:
    refresh = Board.refresh

    def careless(board: Board, row: Row) -> None:
        wish, row.wish = row.wish, ""
        refresh(board, row)
        row.wish = wish

    patch.setattr(Board, "refresh", careless)


def wakes_nobody(patch: Patch) -> None:
    def idle(*_: object) -> None: ...

    patch.setattr(power, "wake", idle)


def wakes_for_nobody(patch: Patch) -> None:
    """Counts nobody who is on the way."""
    original = power._raise

    def blind(d: Moves, needs: tuple[str, ...], wanted: int, _: list[Row], now_ms: int) -> int:
        return original(d, needs, wanted, [], now_ms)

    patch.setattr(power, "_raise", blind)


def keeps_room_for_the_busy(patch: Patch) -> None:
    """Whoever waits takes room in the lane, though nobody can be switched on for it."""
    original = power._raise

    def greedy(d: Moves, needs: tuple[str, ...], wanted: int, coming: list[Row], now_ms: int) -> int:
        original(d, needs, wanted, coming, now_ms)
        return wanted

    patch.setattr(power, "_raise", greedy)


def rests_who_is_expected(patch: Patch) -> None:
    idle = power._idle

    def hasty(d: Moves) -> list[tuple[int, Row]]:
        soon, d.soon = d.soon, {}
        found = idle(d)
        d.soon = soon
        return found

    patch.setattr(power, "_idle", hasty)


def expects_for_ever(patch: Patch) -> None:
    patch.setattr(power, "LATE_MS", 10**9)


def forgets_what_it_wished(patch: Patch) -> None:
    """Takes back that an emulator is to rest when nobody is there who could do it."""
    hear = power.hear

    def hasty(d: Moves, row: Row, news: m.Announce, now_ms: int) -> None:
        hear(d, row, news, now_ms)
        row.wish = row.wish if news.startable else ""

    patch.setattr(power, "hear", hasty)


def believes_every_gate(patch: Patch) -> None:
    """Also one that was passed before a person ordered something else."""
    on_gate = Emulator.on_gate

    def believe(machine: Emulator, order: GateOrder, evidence: str, now_ms: int = 0, dice: float = 0.5) -> None:
        strict, machine.strict = machine.strict, False
        on_gate(machine, order, evidence, now_ms, dice)
        machine.strict = strict
        machine._settle()

    patch.setattr(Emulator, "on_gate", believe)


def passes_gates_meanwhile(patch: Patch) -> None:
    """Orders a gate while its host does something else for it."""
    order = Emulator.order

    def busy(machine: Emulator) -> GateOrder | None:
        due, machine.due = machine.due, None
        found = order(machine)
        machine.due = due
        return found

    patch.setattr(Emulator, "order", busy)


def forgets_to_end(patch: Patch) -> None:
    """A boot that fails is waited for all the same."""
    on_measure = Emulator.on_measure

    def deaf(machine: Emulator, done: Measure, evidence: str, *when: float, idle: bool = False) -> None:
        if not evidence:
            on_measure(machine, done, evidence, *when, idle=idle)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    patch.setattr(Emulator, "on_measure", deaf)


def calls_nothing_back(patch: Patch) -> None:
    """Begins the next measure while the one before goes on."""
    think = EmulatorActor.think

    def two_handed(actor: EmulatorActor) -> None:
        doing = actor.tending
        think(actor)
        if doing is not None and actor.tending is not doing:
            doing.given_up = False

    patch.setattr(EmulatorActor, "think", two_handed)


def carries_half(patch: Patch) -> None:
    """Leaves behind what is to be done when its workflow continues as new."""
    load = fleet.load

    def forgetful(machine: Emulator, carry: str) -> None:
        load(machine, carry)
        machine.due = None

    patch.setattr(fleet, "load", forgetful)


def keeps_first_findings(patch: Patch) -> None:
    """A new presence takes for granted that whoever answered it once is down already, as far as others know."""
    bad = Watch.bad

    def silent(watch: Watch, emulator_id: str, now_s: float) -> bool:
        watched = watch.emulators.get(emulator_id)
        if watched is not None and watched.sight is None:
            watched.sight = Sight.DOWN
        return bad(watch, emulator_id, now_s)

    patch.setattr(Watch, "bad", silent)


@pytest.mark.parametrize(
    ("rule", "shows"),
    [
        (keeps_first_findings, "never ends|is not free"),
        (grants_the_restarted, "says it is up while"),
        (boots_as_it_likes, "while it boots"),
        (grants_who_is_to_rest, "free is out of date"),
        (wakes_nobody, "nobody is on the way for it"),
        (wakes_for_nobody, "nobody needs one more"),
        (keeps_room_for_the_busy, "nobody is on the way for it"),
        (rests_who_is_expected, "though somebody is expected"),
        (expects_for_ever, "never comes to rest"),
        (forgets_what_it_wished, "is switched off"),
        (believes_every_gate, "says it is up while"),
        (passes_gates_meanwhile, "passes a gate while"),
        (forgets_to_end, "is not free|never ends"),
        (calls_nothing_back, "is cared for by two"),
        (carries_half, "is not carried over"),
    ],
)
def test_without_this_rule_an_emulator_is_not_well_cared_for(
    rule: Callable[[Patch], None], shows: str, monkeypatch: Patch
) -> None:
    rule(monkeypatch)
    with pytest.raises(BrokenPromiseError, match=shows):
        all_histories(RARE.get(rule.__name__, 0))
