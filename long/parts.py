"""The parts of `make long`. Each returns its figures, with what was aimed at and whether it was reached."""

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.api.outage import Outcome, Recurs, rehearse_outage
from tests.chaos import strikes
from tests.chaos.effects import Campaign
from tests.chaos.faults import Extent, play_fault
from tests.chaos.judge import Judgement, wrong
from tests.chaos.recovery import PARTS, RecoveringInstance, Recovery, percentile
from tests.chaos.replayed import diverged
from tests.chaos.rollback import Returned, furnish, write_flows
from tests.chaos.rollback import rehearse as rehearse_rollback
from tests.chaos.test_crash import EMULATORS, FLOWS, rehearse
from tests.e2e.test_stall import rehearse_stall
from tests.support.api_server import api_server
from tests.support.farm import Farm, farm

ROOT = Path(__file__).resolve().parents[1]
RESUME_TARGETS_S = {
    "worker": {"p50": 1.5, "p95": 4.0},
    "api": {"p95": 2.0},
    "virtual": {"max": 20.0},
    "everything": {"max": 20.0},
}
ROLLBACK_EMULATORS = 5
HALF_OPEN_TARGET_S = 1.0
SUSPECT_TARGET_S, DOWN_TARGET_S = 5.0, 15.0

Progress = Callable[[str], None]


@dataclass
class Figures:
    """What a part found."""

    name: str
    passed: bool
    seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def crash(victim: str, strike: strikes.Strike, rounds: int, seed: int, progress: Progress) -> Figures:
    """Rounds of one blow on one farm that lives through all of them."""
    chance = random.Random(f"{seed} {victim}")
    seen: list[Judgement] = []
    unlike: list[str] = []

    async def all_rounds(place: Farm) -> None:
        for number in range(rounds):
            judgements = await asyncio.wait_for(rehearse(place, strike, chance, f"r{number}"), 300)
            seen.extend(judgements)
            progress(f"crash of {victim}: round {number + 1} of {rounds}")
        unlike.extend(await diverged(place))

    _on_a_farm(EMULATORS, all_rounds)
    problems = [*(str(judgement) for judgement in wrong(seen, victim)), *unlike]
    asked = sum(judgement.asked for judgement in seen)
    figures = {"rounds": rounds, "tasks": len(seen), "wrong": len(problems), "asked_a_person": asked}
    return Figures(f"crash_{victim}", not problems, figures=figures, problems=problems)


def fault(name: str, extent: Extent, progress: Progress) -> Figures:
    """Rounds of one fault of the whole system. What is wrong leaves its data directory behind."""
    folder = Path(tempfile.mkdtemp(prefix=f"droidherd-long-{name}-"))
    try:
        played = asyncio.run(play_fault(folder / "data", name, extent, progress))
    except Exception as error:  # noqa: BLE001 - whatever ends a play is what it found
        text = "".join(traceback.format_exception(error))[-3000:]
        return Figures(f"crash_{name}", passed=False, problems=[f"seed {extent.seed}, kept in {_kept(folder)}: {text}"])
    problems = [f"seed {extent.seed}: {one}" for one in played.problems]
    if problems:
        problems.append(f"kept in {_kept(folder)}")
    shutil.rmtree(folder, ignore_errors=True)
    return Figures(f"crash_{name}", not problems, figures=played.figures(), problems=problems)


def fault_in_namespace(name: str, extent: Extent) -> Figures:
    """The same, in a mount namespace of its own, where a small disk can be mounted."""
    line = ["unshare", "--map-root-user", "--mount", sys.executable, "-m", "long", "--part", f"namespace_{name}",
            "--rounds", str(extent.rounds), "--seed", str(extent.seed), "--seconds", str(extent.seconds),
            "--json"]  # fmt: skip
    folder = tempfile.mkdtemp(prefix="droidherd-long-")
    environment = {**os.environ, "TMPDIR": folder}
    done = subprocess.run(line, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False, timeout=3000)
    try:
        found = Figures(**json.loads(done.stdout.splitlines()[-1]))  # before it the SDK writes what it has to say
    except (ValueError, TypeError, IndexError):
        return Figures(f"crash_{name}", passed=False, problems=[f"{done.returncode}: {done.stdout[-2000:]}"])
    if found.passed:
        shutil.rmtree(folder)
    return found


def _kept(folder: Path) -> Path:
    """A copy that outlives the disks it was mounted on; the database, logs and journals are what explains it."""
    copy = folder.with_name(f"{folder.name}-kept")
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("ballast", "python"), dirs_exist_ok=True)
    return copy


def crash_engine_away(rounds: int, seconds: float, seed: int, progress: Progress) -> Figures:
    """The engine is away for a whole minute: four farms at once, since all they do meanwhile is wait."""
    farms = 4
    lines = [
        [sys.executable, "-m", "long", "--part", "engine_away_farm", "--rounds", str(-(-rounds // farms)),
         "--seed", str(seed + number), "--away", str(seconds), "--json"]
        for number in range(farms)
    ]  # fmt: skip
    running = [subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True) for line in lines]
    problems: list[str] = []
    for number, process in enumerate(running):
        out, _ = process.communicate(timeout=1200)
        if process.returncode:
            problems.append(f"farm {number}: {out[-1500:]}")
        progress(f"engine away: farm {number + 1} of {farms}")
    figures = {"rounds": farms * -(-rounds // farms), "away_s": seconds, "farms_at_once": farms}
    return Figures("crash_engine_away", not problems, figures=figures, problems=problems)


def resume(rounds: int, seed: int, progress: Progress) -> Figures:
    """How long interrupted tasks stand still after a death of a worker, of all emulators, of everything; and the API.

    The instance is one that `droidherd up` started, so the supervisor's share is in the figures.
    """
    chance = random.Random(seed)
    deaths = {"worker": (("worker",), rounds), "api": (("api",), rounds),
              "virtual": (("virtual",), max(1, rounds // 2)), "everything": (PARTS, max(1, rounds // 4))}  # fmt: skip
    found: dict[str, list[Recovery]] = {name: [] for name in deaths}
    with tempfile.TemporaryDirectory(prefix="droidherd-long-") as folder:
        instance = RecoveringInstance(Path(folder) / "data", chance)
        try:
            instance.start()
            for name, (victims, count) in deaths.items():
                for number in range(count):
                    found[name].append(instance.strike(*victims))
                    progress(f"resume after the death of {name}: round {number + 1} of {count}")
        finally:
            instance.stop()
    values = {
        name: [one.api_s for one in ones] if name == "api" else [gap for one in ones for gap in one.acts_s]
        for name, ones in found.items()
    }
    figures: dict[str, Any] = {"seed": seed}
    for name, ones in values.items():
        p50, p95 = percentile(ones, 0.5), percentile(ones, 0.95)
        figures[name] = {"p50": p50, "p95": p95, "max": round(max(ones), 2), "samples": len(ones)}
    missed = [
        f"{name} {which} {figures[name][which]} s, wanted {wanted} s"
        for name, targets in RESUME_TARGETS_S.items()
        for which, wanted in targets.items()
        if figures[name][which] > wanted
    ]
    return Figures("resume_after_restart", not missed, figures=figures, problems=missed)


def rollback(rounds: int, seed: int, progress: Progress) -> Figures:
    """Tasks that change their emulator are taken back; in every other round the worker is killed amid the changes."""
    chance = random.Random(seed)
    calm: list[Returned] = []
    killed: list[Returned] = []

    async def all_rounds(place: Farm) -> None:
        with api_server(place) as api:
            await furnish(place)
            for number in range(rounds):
                kill = number % 2 == 1
                round_ = rehearse_rollback(place, api, chance, f"b{number}", kill=kill)
                (killed if kill else calm).extend(await asyncio.wait_for(round_, 300))
                progress(f"rollback: round {number + 1} of {rounds}")

    with tempfile.TemporaryDirectory(prefix="droidherd-long-") as folder:
        _on_a_farm(ROLLBACK_EMULATORS, all_rounds, write_flows(Path(folder)))
    problems = [str(one) for one in calm + killed if not one.good]
    figures = {
        "tasks": len(calm) + len(killed),
        "worker_killed": len(killed),
        "killed_between_first_and_last_change": sum(one.struck for one in killed),
        "taken_back_while_it_ran": sum(one.ended is None for one in killed),
        "wrong": len(problems),
    }
    return Figures("rollback", not problems, figures=figures, problems=problems)


def effects(count: int, kills: int, seed: int, progress: Progress) -> Figures:
    """Effects of stages whose worker is killed in the middle; as many lines are cut between two commands."""
    with tempfile.TemporaryDirectory(prefix="droidherd-long-") as folder:
        outcome = Campaign(Path(folder), effects=count, kills=kills, cuts=kills, seed=seed).run(progress)
    problems = [f"seed {seed}: twice {outcome.twice}, missing {outcome.missing}"] if not outcome.good else []
    if (outcome.kills, outcome.cuts) != (kills, kills):
        problems.append(f"seed {seed}: {outcome.kills} kills and {outcome.cuts} cuts of {kills} each")
    return Figures("effects", not problems, figures=outcome.figures(), problems=problems)


def stall(rounds: int, progress: Progress) -> Figures:
    """How fast a stalled emulator is suspected and given up."""
    suspect: list[float] = []
    down: list[float] = []
    problems: list[str] = []

    async def all_rounds(place: Farm) -> None:
        for number in range(rounds):
            one = await asyncio.wait_for(rehearse_stall(place, f"s{number}"), 300)
            suspect.append(one.suspect_s)
            down.append(one.down_s)
            if one.moved_to == one.left or set(one.taps.values()) != {1} or one.late:
                problems.append(str(one))
            progress(f"stall: round {number + 1} of {rounds}")

    _on_a_farm(2, all_rounds)
    figures = {"suspect_s_max": max(suspect), "down_s_max": max(down), "rounds": rounds}
    passed = max(suspect) <= SUSPECT_TARGET_S and max(down) <= DOWN_TARGET_S and not problems
    return Figures("stall", passed, figures=figures, problems=problems)


def half_open(progress: Progress) -> Figures:
    """How soon others are answered while 1,100 clients do not finish their request, and how much is logged."""
    from tests.api.test_half_open import COUNT, HALF, LOG_MAX_BYTES, many_open_files, serving

    with tempfile.TemporaryDirectory(prefix="droidherd-long-") as folder, many_open_files(), ExitStack() as stack:
        api = stack.enter_context(serving(Path(folder)))
        before, waited_s = api.log.stat().st_size, list[float]()
        for number in range(3 * COUNT):
            stack.enter_context(api.connect(HALF))
            if not number % 20:
                began_s = time.monotonic()
                if not api.answers():
                    return Figures("half_open", passed=False, problems=[f"no answer with {number} of them"])
                waited_s.append(time.monotonic() - began_s)
                progress(f"half-open connections: {number + 1} of {3 * COUNT}")
        logged = api.log.stat().st_size - before
    figures = {"p50": percentile(waited_s, 0.5), "max": round(max(waited_s), 3), "logged_bytes": logged}
    passed = max(waited_s) <= HALF_OPEN_TARGET_S and logged < LOG_MAX_BYTES
    return Figures("half_open", passed, figures=figures, problems=[] if passed else [str(figures)])


def subscriptions(progress: Progress) -> Figures:
    """Due every 2 s. The engine is away for 20 s: all caught up. For 60 s, with a window of 10: the rest reported."""
    wide, narrow = Recurs("wide", 2, "buffer_all", 60), Recurs("narrow", 2, "buffer_all", 10)
    found: dict[str, Outcome] = {}
    for away_s, recurs in ((20.0, wide), (60.0, narrow)):
        with tempfile.TemporaryDirectory(prefix="droidherd-long-") as folder:
            found |= rehearse_outage(Path(folder), away_s, recurs, progress=progress)
    caught_up, beyond = found["wide"], found["narrow"]
    problems: list[str] = []
    if caught_up.due != caught_up.started or caught_up.missed_count:
        problems.append(f"not all caught up: {caught_up}")
    unstarted = [one for one in beyond.due if one not in beyond.started]
    if not unstarted or unstarted != list(beyond.missed):
        problems.append(f"not exactly the missed ones reported: {beyond}")
    problems += [f"two ran at once: {one}" for one in found.values() if one.overlaps]
    figures = {name: one.figures() for name, one in found.items()}
    return Figures("subscriptions", not problems, figures=figures, problems=problems)


def pytest_part(name: str, *words: str) -> Figures:
    """Tests at full size."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "long", *words], cwd=ROOT, capture_output=True, text=True, check=False,
        timeout=1200,
    )  # fmt: skip
    problems = [] if done.returncode == 0 else [done.stdout[-4000:]]
    return Figures(
        name, done.returncode == 0, figures={"last_line": done.stdout.strip().splitlines()[-1:]}, problems=problems
    )


def command_part(name: str, *line: str) -> Figures:
    """A program whose last line is its figures as JSON, and whose exit code says whether all is well."""
    done = subprocess.run([sys.executable, *line], cwd=ROOT, capture_output=True, text=True, check=False, timeout=1500)
    try:
        figures = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        figures = {"output": done.stdout[-1000:]}
    problems = [] if done.returncode == 0 else [done.stdout[-2000:] + done.stderr[-2000:]]
    return Figures(name, done.returncode == 0, figures=figures, problems=problems)


def _on_a_farm(count: int, work: Callable[[Farm], Awaitable[None]], flows: Path = FLOWS) -> None:
    with tempfile.TemporaryDirectory(prefix="droidherd-long-") as folder:
        data = Path(folder)
        try:
            with farm(data, count, flows=flows) as place:
                asyncio.run(_awaited(work(place)))
        except BaseException:
            kept = Path(tempfile.gettempdir()) / f"droidherd-long-worker-{int(time.time())}.log"
            kept.write_bytes((data / "worker.log").read_bytes())
            raise


async def _awaited(work: Awaitable[None]) -> None:
    await work
