"""An engine that is away while subscriptions are due: what became of every single time."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from droidherd.cli.local.embedded import EmbeddedTemporal
from tests.api.recurring import ALL, add, show, tasks
from tests.api.waiting import eventually
from tests.api.world import World

SETTLED_S = 240.0
MARGIN_S = 2.0
"""Around the moments of going and coming back."""


@dataclass(frozen=True)
class Recurs:
    """A subscription that lives through it."""

    name: str
    every_s: int
    overlap: str
    catch_up_s: int


@dataclass(frozen=True)
class Outcome:
    """What became of one subscription. Times are seconds since 1970."""

    recurs: Recurs
    away: tuple[float, float]
    due: tuple[int, ...]
    """From its first run to its last."""
    started: tuple[int, ...]
    missed: tuple[int, ...]
    """As reported, one by one."""
    missed_count: int
    skipped: int
    overlaps: int
    """Pairs of tasks that ran at once."""
    reasons: tuple[str, ...]

    def due_while_away(self) -> list[int]:
        return [one for one in self.due if self.away[0] + MARGIN_S < one < self.away[1] - MARGIN_S]

    def figures(self) -> dict[str, Any]:
        whiles = self.due_while_away()
        return {
            **asdict(self.recurs),
            "away_s": round(self.away[1] - self.away[0], 1),
            "due_while_away": len(whiles),
            "caught_up": len([one for one in whiles if one in self.started]),
            "reported_as_missed": self.missed_count,
            "skipped_by_policy": self.skipped,
            "lost_silently": len(self.lost()),
            "overlaps": self.overlaps,
        }

    def lost(self) -> list[int]:
        """Due, never started, never reported."""
        silent = [one for one in self.due if one not in {*self.started, *self.missed}]
        return silent[: max(len(silent) - self.skipped, 0)]


def rehearse_outage(
    data: Path, away_s: float, *recurring: Recurs, progress: Callable[[str], None] = lambda _: None
) -> dict[str, Outcome]:
    """Let them recur, kill the engine for so long, wait until all is settled."""
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(EmbeddedTemporal.start(data / "engine"))
        world = stack.enter_context(World(engine.address, "droidherd", data))
        http = stack.enter_context(httpx.Client(base_url=world.url, timeout=30))
        world.work()
        for one in recurring:
            add(http, one.name, every_s=one.every_s, overlap=one.overlap, catch_up_s=one.catch_up_s)
        for one in recurring:
            eventually(lambda one=one: len(tasks(http, one.name, "completed")) >= 2, SETTLED_S)
        gone = time.time()
        engine.kill()
        progress(f"Temporal is away for {away_s:g} s")
        time.sleep(away_s)
        engine.restart()
        back = time.time()
        progress("the engine is back")
        return {one.name: _settled(http, one, (gone, back)) for one in recurring}


def _settled(http: httpx.Client, recurs: Recurs, away: tuple[float, float]) -> Outcome:
    """Once it has caught up, at a moment in which nothing moves."""

    def still() -> tuple[dict[str, Any], list[int]] | None:
        before = http.get(f"{ALL}/{recurs.name}")
        started = sorted(_times(http, recurs.name)) if before.is_success else []
        if not started or started[-1] < away[1] + MARGIN_S:
            return None
        shown = show(http, recurs.name)
        moves = shown["waiting"] or shown["running"] or before.json()["running"]
        return None if moves or shown["started"] != len(started) else (shown, started)

    shown, started = eventually(still, SETTLED_S)
    missed = sorted(_seconds(one) for row in shown["missed_runs"] for one in row["times"])
    return Outcome(
        recurs=recurs,
        away=away,
        due=tuple(range(started[0], started[-1] + 1, recurs.every_s)),
        started=tuple(started),
        missed=tuple(missed),
        missed_count=shown["missed"],
        skipped=shown["skipped"],
        overlaps=_overlaps(http, recurs.name),
        reasons=tuple(row["why"] for row in shown["missed_runs"]),
    )


def _times(http: httpx.Client, name: str) -> list[int]:
    found = [one["task_id"].removeprefix(f"{name}.") for one in tasks(http, name)]
    return [int(datetime.strptime(one, "%Y%m%dT%H%M%S%z").timestamp()) for one in found]


def _overlaps(http: httpx.Client, name: str) -> int:
    attempts = sorted((a["started"], a["ended"]) for one in tasks(http, name, "completed") for a in one["attempts"])
    return sum(1 for before, after in pairwise(attempts) if after[0] < before[1])


def _seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())
