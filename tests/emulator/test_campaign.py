"""Many effects through many faults, in seeded random order; the emulator's own journal counts them."""

import contextlib
import random
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass, field

import psutil
import pytest

from droidherd.domain.errors import FencedError, InfrastructureError, UnknownOutcomeError
from droidherd.emulator import lease
from droidherd.emulator.hands import EmulatorHands
from droidherd.emulator.token import Token
from tests.emulator.farm import One

TRIES = 40
FAULTS = ("none", "cut", "cut and go on", "drop", "stall", "reboot", "server dies", "disk of another")


@dataclass
class Campaign:
    """Drives one emulator as stage after stage would, under faults."""

    one: One
    seed: int
    attempt: int = 0
    met: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def run(self, effects: int) -> None:
        hands = self._again()
        for number in range(1, effects + 1):
            fault = self.random.choice(FAULTS)
            with self._fault(fault):
                hands = self._complete(hands, number)
            taps = self.one.did(f"input tap {number} {number}")
            assert 1 == len(taps), f"seed {self.seed}, effect {number} under {fault!r}: {len(taps)} taps"

    def _complete(self, hands: EmulatorHands, number: int) -> EmulatorHands:
        """Until the effect is done or known to be done."""
        for _ in range(TRIES):
            try:
                hands.tap(str(number), number, number)
            except InfrastructureError as error:
                self.met.add(type(error).__name__)
                hands = self._again()
                with contextlib.suppress(InfrastructureError):
                    self._look(hands, error, number)
            else:
                return hands
        raise AssertionError(f"seed {self.seed}: effect {number} never ended")

    def _look(self, hands: EmulatorHands, error: InfrastructureError, number: int) -> None:
        """As the interpreter does with what is unknown by the journal; here the witness serves as eyes."""
        if isinstance(error, UnknownOutcomeError) and "intent without a result" in error.what:
            if self.one.did(f"input tap {number} {number}"):
                hands.settle(str(number))
            else:
                hands.forget(str(number))

    def _again(self) -> EmulatorHands:
        """A new try: server, link, token."""
        for _ in range(TRIES):
            self.attempt += 1
            try:
                self.one.farm.server.ensure()
                return self.one.hands(attempt=self.attempt, act_s=0.4)
            except FencedError:
                with contextlib.suppress(InfrastructureError):
                    lease.floor(self.one.adb, self.one.address, Token(self.one.lease))
            except InfrastructureError:
                time.sleep(0.02)
        raise AssertionError(f"seed {self.seed}: no way back to the emulator")

    @contextlib.contextmanager
    def _fault(self, fault: str) -> Generator[None]:
        control, name = self.one.control, self.one.name
        strike = threading.Timer(self.random.random() * 0.004, lambda: None)
        match fault:
            case "cut" | "cut and go on":
                line = "stop" if fault == "cut" else "continue"
                when = self.random.choice(("before", "after"))
                control.cut_after(name, "", count=self.random.randint(1, 25), when=when, line=line)
            case "drop" | "reboot" | "server dies":
                strike.function = lambda: self._strike(fault)
            case "stall":
                control.stall(name)
                strike = threading.Timer(0.45, self._release)
            case "disk of another":
                control.set_fault(name, "push_full")
            case _:
                pass
        strike.start()
        yield
        strike.join()
        control.clear_fault(name)

    def _strike(self, fault: str) -> None:
        if fault == "server dies":
            with contextlib.suppress(psutil.Error):
                psutil.Process(self.one.farm.server.pid).kill()
            return
        with self.one.farm.fleet.control() as control:
            control.drop(self.one.name) if fault == "drop" else control.reboot(self.one.name, boot_s=0.0)

    def _release(self) -> None:
        with self.one.farm.fleet.control() as control:
            control.release(self.one.name)


def test_every_effect_happens_once_under_every_fault(one: One):
    campaign = Campaign(one, seed=11)
    campaign.run(24)
    assert "UnknownOutcomeError" in campaign.met


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_every_effect_happens_once_under_every_fault_for_long(one: One, seed: int):
    campaign = Campaign(one, seed)
    campaign.run(100)
    assert {"UnknownOutcomeError", "NotSentError"} <= campaign.met
