"""How long an instance stands still after a death: until its API answers, and until interrupted tasks act again."""

import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from droidherd.cli.local.supervise import WELL_S
from droidherd.domain.errors import HAPPENED
from droidherd.processes import pidfile
from droidherd.virtual import journal
from tests.chaos.judge import WIDTH
from tests.cli.stand import Stand, eventually

PROGRAM = (sys.executable, "-P", "-m", "droidherd.cli")
FLOWS = Path(__file__).with_name("flows")
EMULATORS = 4
IN_FLIGHT_S = 0.2
"""A shell line that was under way still acts so long after the death of its worker: nobody recovered by that."""
PARTS = ("up", "worker", "api", "temporal", "virtual")


@dataclass
class Recovery:
    """Seconds from one death."""

    api_s: float
    acts_s: list[float] = field(default_factory=list[float])
    """By task: to its next tap."""


class RecoveringInstance:
    """`droidherd up` on virtual emulators, whose processes are killed while every emulator is at work."""

    def __init__(self, data: Path, chance: random.Random) -> None:
        """Nothing runs yet."""
        self._stand = Stand(data, PROGRAM)
        self._stand.environment["DROIDHERD_FLOWS__PATHS"] = json.dumps([str(FLOWS)])
        self._chance = chance
        self._api = ""
        self._rounds = 0

    def start(self) -> None:
        self._api = self._stand.up("--virtual", str(EMULATORS))["api"]

    def stop(self) -> None:
        self._stand.run("down", "--now")

    def strike(self, *victims: str) -> Recovery:
        """Kill these processes at once. Without its supervisor the instance is started again by hand.

        Each had started well: who dies sooner is started later and later, and in the end not again.
        """
        assert eventually(lambda: self._youngest_s(victims) > WELL_S)
        tasks = self._put_to_work()
        time.sleep(self._chance.uniform(0.1, 0.8))
        known = self._stand.processes()
        struck_s = time.monotonic()
        for name in victims:
            known[name].kill()
        pidfile.wait_gone([known[name] for name in victims], 10)
        if "up" in victims:
            self.start()
        assert eventually(self._is_ready)
        found = Recovery(time.monotonic() - struck_s)
        assert eventually(lambda: not [task for task in tasks if not self._has_completed(task)])
        for x in tasks.values():
            found.acts_s += self._first_tap(x, struck_s)
        return found

    def _has_completed(self, task: str) -> bool:
        """Whether it has. One that cannot know whether its last tap arrived is told that it did."""
        state = self._get(f"/api/tasks/{task}").get("state")
        if state == "waiting":
            httpx.post(f"{self._api}/api/tasks/{task}/answer", json={"choice": HAPPENED}, timeout=30)
        return state == "completed"

    def _youngest_s(self, names: Sequence[str]) -> float:
        known = self._stand.processes()
        return min(time.time() - known[name].started_at if name in known else 0.0 for name in names)

    def _put_to_work(self) -> dict[str, float]:
        assert eventually(lambda: self._count("/api/emulators", "emulators", "up") == EMULATORS)
        self._rounds += 1
        tasks: dict[str, float] = {}
        for number in range(EMULATORS):
            x = 2.0 + 3.0 * number + 15.0 * (self._rounds % 5)
            task = {"type": "pace", "account": f"r{self._rounds}-{number}", "params": {"x": x}}
            tasks[httpx.post(f"{self._api}/api/tasks", json=task, timeout=30).raise_for_status().json()["id"]] = x
        assert eventually(lambda: all(self._get(f"/api/tasks/{task}").get("state") == "running" for task in tasks))
        return tasks

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self._api}/readyz", timeout=5).is_success
        except httpx.HTTPError:
            return False

    def _get(self, path: str) -> dict[str, Any]:
        try:
            return httpx.get(self._api + path, timeout=30).json()
        except (httpx.HTTPError, ValueError):
            return {}

    def _count(self, path: str, name: str, state: str) -> int:
        return [one["state"] for one in self._get(path).get(name, ())].count(state)

    def _first_tap(self, x: float, after_s: float) -> list[float]:
        """Empty: the task had nothing left to do there."""
        column = round(WIDTH * x / 100)
        taps = [
            command.monotonic_s - after_s
            for number in range(1, EMULATORS + 1)
            for command in journal.read(self._stand.data / "virtual", f"virtual-{number}")
            if command.argv[:2] == ("input", "tap")
            and abs(int(command.argv[2]) - column) <= 1
            and command.monotonic_s > after_s + IN_FLIGHT_S
        ]
        return [min(taps)] if taps else []


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest that so large a share of them does not exceed."""
    ordered = sorted(values)
    return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)], 2) if ordered else 0.0
