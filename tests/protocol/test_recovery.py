"""The recovery of emulators: with one of its rules off, some history shows it."""

from collections.abc import Callable

import pytest

from droidherd.domain import messages as m
from droidherd.domain.dispatch import power
from droidherd.domain.dispatch.board import Board, PoolEmulator
from droidherd.domain.dispatch.power import PowerControl
from droidherd.domain.fleet.emulator import Emulator, EmulatorState, GateRequest
from droidherd.domain.fleet.recovery import PlannedStep, RecoveryStep
from droidherd.domain.messages import Health
from droidherd.emulator.probe_loop import Watch
from tests.protocol import fleet, recovery, script
from tests.protocol.choices import Seeded
from tests.protocol.fleet import EmulatorActor
from tests.protocol.simulator import history
from tests.protocol.witness import BrokenPromiseError

SEEDS = 3_000
RARE = {"believes_every_gate": 5_800, "forgets_what_it_asked": 17_700}
"""Where it was seen first, when it takes thousands of histories."""
Patch = pytest.MonkeyPatch


def all_histories(first: int) -> None:
    """Those in which hosts can do something for their emulators."""
    for seed in range(first, first + SEEDS):
        if script.write(Seeded(seed)).recovery:
            history(Seeded(seed))


def grants_the_restarted(patch: Patch) -> None:
    """Whoever answers may be granted, whatever its host was told."""

    def stays(_: Emulator) -> bool:
        return False

    patch.setattr(Emulator, "_is_going_down", stays)


def boots_as_it_likes(patch: Patch) -> None:
    patch.setattr(recovery, "BOOTS", (RecoveryStep.RESTART,))


def grants_who_is_to_rest(patch: Patch) -> None:
    refresh = Board.refresh

    def careless(board: Board, emulator: PoolEmulator) -> None:
        switch, emulator.switch = emulator.switch, ""
        refresh(board, emulator)
        emulator.switch = switch

    patch.setattr(Board, "refresh", careless)


def wakes_nobody(patch: Patch) -> None:
    def idle(*_: object) -> None: ...

    patch.setattr(PowerControl, "switch_on", idle)


def wakes_for_nobody(patch: Patch) -> None:
    """Counts nobody who is on the way."""
    original = PowerControl._provide

    def blind(part: PowerControl, needs: tuple[str, ...], wanted: int, _: list[PoolEmulator], now_ms: int) -> int:
        return original(part, needs, wanted, [], now_ms)

    patch.setattr(PowerControl, "_provide", blind)


def counts_the_busy(patch: Patch) -> None:
    """Whoever waits takes room in the lane, though nobody can be switched on for it."""
    original = PowerControl._provide

    def greedy(part: PowerControl, needs: tuple[str, ...], wanted: int, coming: list[PoolEmulator], now_ms: int) -> int:
        original(part, needs, wanted, coming, now_ms)
        return wanted

    patch.setattr(PowerControl, "_provide", greedy)


def rests_who_is_expected(patch: Patch) -> None:
    idle = PowerControl._idle

    def hasty(part: PowerControl) -> list[tuple[int, PoolEmulator]]:
        expected, part._state.expected = part._state.expected, {}
        found = idle(part)
        part._state.expected = expected
        return found

    patch.setattr(PowerControl, "_idle", hasty)


def expects_for_ever(patch: Patch) -> None:
    patch.setattr(power, "LATE_MS", 10**9)


def forgets_what_it_asked(patch: Patch) -> None:
    """Takes back that an emulator is to rest when nobody is there who could do it."""
    announced = PowerControl.on_announced

    def hasty(part: PowerControl, emulator: PoolEmulator, news: m.Announce, now_ms: int) -> None:
        announced(part, emulator, news, now_ms)
        emulator.switch = emulator.switch if news.startable else ""

    patch.setattr(PowerControl, "on_announced", hasty)


def believes_every_gate(patch: Patch) -> None:
    """Also one that was passed before a person ordered something else."""
    on_gate = Emulator.on_gate

    def believe(machine: Emulator, request: GateRequest, evidence: str, now_ms: int = 0, dice: float = 0.5) -> None:
        with Patch.context() as inner:
            inner.setattr(Emulator, "_step_comes_first", lambda _: False)  # pyright: ignore[reportUnknownLambdaType]
            on_gate(machine, request, evidence, now_ms, dice)
        machine._update_status()

    patch.setattr(Emulator, "on_gate", believe)


def passes_gates_meanwhile(patch: Patch) -> None:
    """Orders a gate while its host does something else for it."""
    gate_request = Emulator.gate_request

    def busy(machine: Emulator) -> GateRequest | None:
        due, machine.state.due = machine.state.due, None
        found = gate_request(machine)
        machine.state.due = due
        return found

    patch.setattr(Emulator, "gate_request", busy)


def forgets_to_end(patch: Patch) -> None:
    """A boot that fails is waited for all the same."""
    on_step_done = Emulator.on_step_done

    def deaf(machine: Emulator, done: PlannedStep, evidence: str, *when: float, idle: bool = False) -> None:
        if not evidence:
            on_step_done(machine, done, evidence, *when, idle=idle)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    patch.setattr(Emulator, "on_step_done", deaf)


def calls_nothing_back(patch: Patch) -> None:
    """Begins the next step while the one before goes on."""
    think = EmulatorActor.think

    def two_handed(actor: EmulatorActor) -> None:
        doing = actor.job
        think(actor)
        if doing is not None and actor.job is not doing:
            doing.given_up = False

    patch.setattr(EmulatorActor, "think", two_handed)


def carries_half(patch: Patch) -> None:
    """Leaves behind what is to be done when its workflow continues as new."""
    carried = fleet.carried

    def forgetful(state: EmulatorState) -> EmulatorState:
        found = carried(state)
        found.due = None
        return found

    patch.setattr(fleet, "carried", forgetful)


def keeps_first_findings(patch: Patch) -> None:
    """A new presence takes for granted that whoever answered it once is down already, as far as others know."""
    bad = Watch.bad

    def silent(watch: Watch, emulator_id: str, now_s: float) -> bool:
        watched = watch.emulators.get(emulator_id)
        if watched is not None and watched.health is None:
            watched.health = Health.DOWN
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
        (counts_the_busy, "nobody is on the way for it"),
        (rests_who_is_expected, "though somebody is expected"),
        (expects_for_ever, "never comes to rest"),
        (forgets_what_it_asked, "is switched off"),
        (believes_every_gate, "says it is up while"),
        (passes_gates_meanwhile, "passes a gate while"),
        (forgets_to_end, "is not free|never ends"),
        (calls_nothing_back, "is recovered by two"),
        (carries_half, "is not carried over"),
    ],
)
def test_without_this_rule_recovery_breaks_a_promise(
    rule: Callable[[Patch], None], shows: str, monkeypatch: Patch
) -> None:
    rule(monkeypatch)
    with pytest.raises(BrokenPromiseError, match=shows):
        all_histories(RARE.get(rule.__name__, 0))
