"""Once, or known: stages full of taps, whose worker is killed again and again, and whose lines are cut in the middle.

A worker is a process of its own that runs the very code of a stage (`Stay`: interpreter, hands, eyes) against the real
adb server, and dies by SIGKILL. It needs no engine: whoever starts the next try here does what a task's workflow does,
a higher try under the same lease. Each tap has a place of its own, so the emulator's own record of its commands counts
them one by one. What a stage asks about is answered from that record, as by a person who looks at the emulator.
"""

import json
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from droidherd.adb.client import AdbClient
from droidherd.artifacts.store import DirectoryStore
from droidherd.contracts.plan import TaskTiming
from droidherd.contracts.stage import StageWork
from droidherd.domain.errors import DID_NOT, HAPPENED, DroidherdError, NeedsPersonError
from droidherd.domain.messages import Key
from droidherd.emulator import lease
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.emulator.probe import DeviceLink
from droidherd.emulator.token import Token
from droidherd.flows.catalogue import Catalogue
from droidherd.flows.run.context import Tempo
from droidherd.flowtools.records import NO_SECRETS, credential_store
from droidherd.stage.attempt import StageAttempt, StageFailedError
from droidherd.stage.context import StageServices
from droidherd.web.allow import AllowList
from droidherd.web.client import WebClient
from tests.emulator.farm import LEASES, small_farm

NAME = "virtual-1"
BLOCK = 50
"""Taps of one stage."""
ACROSS, DOWN = 1.9, 4.0
"""Between two taps, and between two stages, in percent of the screen."""
WIDTH, HEIGHT = 1280, 720
STAGES_MAX = 23
"""More have no place on the screen."""
GUARD_S = 2.0
"""How long an act may come true late. Short, since nobody is slow here on purpose."""
LIFE_S = 120.0
TRIES_MAX = 200
COMPLETED, GONE = "completed", "gone"
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([__name__])


@dataclass(frozen=True, slots=True)
class Job:
    """One try of one stage."""

    home: Path
    port: int
    flow: str
    lease: int
    tries: int
    answers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a connection breaks, and what becomes of the line."""

    match: str
    count: int = 1
    when: str = "after"
    line: str = "stop"


BEHIND_A_TAP = Cut("input tap")
"""Done, and its result not written down: nobody knows. The last cut is this one, whatever the other blows hit."""


@dataclass(frozen=True, slots=True)
class Word:
    """What a worker said before it ended."""

    outcome: str
    text: str = ""
    mark: str = ""
    step: str = ""
    settled: int = 0
    """Effects that the stage itself found to have happened."""


@dataclass(slots=True)
class Outcome:
    """What the emulator's own record says, and how the stages came through."""

    seed: int
    effects: int
    kills: int = 0
    cuts: int = 0
    tries: int = 0
    asked_happened: int = 0
    asked_did_not: int = 0
    settled: int = 0
    lost: Counter[str] = field(default_factory=Counter[str])
    """Tries that ended with an error of the emulator, by its class."""
    twice: list[str] = field(default_factory=list[str])
    missing: list[str] = field(default_factory=list[str])

    @property
    def good(self) -> bool:
        return not self.twice and not self.missing

    @property
    def unknown(self) -> int:
        """Effects that were reported unknown and then observed."""
        return self.asked_happened + self.asked_did_not + self.settled

    def figures(self) -> dict[str, object]:
        return {
            "effects": self.effects, "worker_killed": self.kills, "lines_cut": self.cuts, "tries": self.tries,
            "unknown_then_observed": self.unknown, "asked_happened": self.asked_happened,
            "asked_did_not": self.asked_did_not, "lost": dict(self.lost), "twice": len(self.twice),
            "missing": len(self.missing), "seed": self.seed,
        }  # fmt: skip


# --- the worker ---------------------------------------------------------------------------------------------------


class Alone:
    """Nobody listens, so every beat is confirmed at once."""

    def beat(self, progress: str = "") -> None:
        pass

    def send(self, progress: str = "") -> Callable[[], None]:
        return lambda: None

    def stopping(self) -> str:
        return ""

    def leaving(self) -> bool:
        return False

    def confirmed_s(self) -> float:
        return time.monotonic()

    def begin_writing(self) -> None:
        pass


def work(job: Job, say: Connection) -> None:
    """In a process of its own, which may be killed anywhere in here."""
    inventory = Inventory(job.home)
    adb = AdbClient(job.port)
    catalogue = Catalogue([job.home / "flows"])
    store = DirectoryStore(job.home / "artifacts")
    tempo = Tempo(late_s=GUARD_S, retry_s=0.05)
    with WebClient(AllowList.of(())) as web:
        services = StageServices(
            adb, inventory, catalogue, store, "test", credential_store(NO_SECRETS), web, job.home / "scratch", tempo
        )
        attempt = StageAttempt(services, _stage(job, catalogue), Alone())
        try:
            DeviceLink(adb).ensure(inventory.entries()[0].address)
            attempt.run()
            word = Word(COMPLETED)
        except StageFailedError as stopped:
            step = stopped.cause.asks.step if isinstance(stopped.cause, NeedsPersonError) else ""
            word = Word(type(stopped.cause).__name__, str(stopped.cause), stopped.mark, step)
        except DroidherdError as lost:
            word = Word(type(lost).__name__, str(lost))
    settled = sum("observed to have happened" in str(line["text"]) for line in attempt.log)
    say.send(Word(word.outcome, word.text, word.mark, word.step, settled))


def _stage(job: Job, catalogue: Catalogue) -> StageWork:
    plan = catalogue.plan(job.flow, {})
    return StageWork(
        task_id=job.flow,
        key=Key(job.flow, "00000001", 1),
        emulator_id=NAME,
        lease=job.lease,
        stage_index=0,
        tries=job.tries,
        task_type=plan.task_type,
        flow=plan.flow,
        flow_hash=plan.flow_hash,
        answers=dict(job.answers),
        stage=plan.stages[0],
        last=True,
        timing=TaskTiming(lease_ttl_s=GUARD_S),
    )


# --- whoever starts, kills and answers ------------------------------------------------------------------------------


@dataclass(slots=True)
class Record:
    """The emulator's own record of its taps, read as it grows. An effect is known by its place."""

    path: Path
    counts: Counter[tuple[int, int]] = field(default_factory=Counter[tuple[int, int]])
    """By stage and number."""
    _read: int = 0

    def look(self) -> int:
        """How many taps so far."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            argv = json.loads(line)["argv"]
            if argv[:2] == ["input", "tap"]:
                self.counts[_effect_at(int(argv[2]), int(argv[3]))] += 1
        return self.counts.total()


def _effect_at(x: int, y: int) -> tuple[int, int]:
    across, down = (100 * x / WIDTH - 2) / ACROSS, (100 * y / HEIGHT - 6) / DOWN
    return round(down), round(across) + 1


def write_flow(root: Path, number: int) -> str:
    """One stage of taps, each at a place of its own."""
    name = f"effects_{number}"
    taps = "".join(
        f"      - tap: {{percent: [{2 + ACROSS * column:.2f}, {6 + DOWN * number:.2f}]}}\n" for column in range(BLOCK)
    )
    text = f"flow: {name}\nabout: Taps to be counted.\nstages:\n  - stage: one\n    effect: account\n    steps:\n{taps}"
    (root / name).mkdir(parents=True)
    (root / name / "flow.yaml").write_text(text)
    return name


@dataclass
class Campaign:
    """Stage after stage, try after try."""

    home: Path
    effects: int
    kills: int
    cuts: int
    seed: int

    def run(self, progress: Callable[[str], None] = lambda _: None) -> Outcome:
        self._chance = random.Random(self.seed)
        self._outcome = Outcome(self.seed, self.effects)
        self._due_kills = self._moments(self.kills)
        self._due_cuts = self._moments(self.cuts)
        with small_farm(self.home) as self._farm:
            adb, address = self._farm.adb, self._farm.fleet.addresses[NAME]
            Inventory(self.home).add(InventoryEntry(emulator_id=NAME, address=address))
            DeviceLink(adb).ensure(address, deadline_s=10.0)
            lease.floor(adb, address, Token(next(LEASES)), NAME)
            self._record = Record(self._farm.fleet.state / NAME / "commands.jsonl")
            for number in range(STAGES_MAX):
                if number * BLOCK >= self.effects and not self._has_blows_left():
                    break
                self._complete(write_flow(self.home / "flows", number), number)
                self._outcome.effects = (number + 1) * BLOCK
                progress(f"effects: {self._outcome.effects} of {self.effects}")
            self._judge()
        return self._outcome

    def _has_blows_left(self) -> bool:
        """Whoever strikes may have stood still while the worker went on to the end: then there is one more stage."""
        return bool(self._due_kills or self._due_cuts or (self.cuts and not self._outcome.unknown))

    def _moments(self, count: int) -> list[int]:
        """After how many taps; behind the last one there is room for the blow to fall."""
        return sorted(self._chance.sample(range(self.effects - BLOCK // 2), count))

    def _complete(self, flow: str, number: int) -> None:
        """Until the stage has completed, as a task goes on until it has."""
        answers: dict[str, str] = {}
        lease_number, word = next(LEASES), Word(GONE)
        for tries in range(1, TRIES_MAX):
            self._outcome.tries += 1
            word = self._life(Job(self.home, self._farm.server.port, flow, lease_number, tries, answers))
            self._outcome.settled += word.settled
            if word.outcome == COMPLETED:
                return
            if word.step:
                answers[word.mark] = self._answer(number, word.step)
            elif word.outcome != GONE:
                self._outcome.lost[word.outcome] += 1
        raise AssertionError(f"seed {self.seed}: {flow} never completes: {word}")

    def _answer(self, number: int, step: str) -> str:
        """As one who looks at the emulator."""
        self._record.look()
        happened = self._record.counts[number, int(step)] > 0
        if happened:
            self._outcome.asked_happened += 1
        else:
            self._outcome.asked_did_not += 1
        return HAPPENED if happened else DID_NOT

    def _life(self, job: Job) -> Word:
        """Of one worker, to its end or to its death."""
        hear, say = _PROCESSES.Pipe(duplex=False)
        worker = _PROCESSES.Process(target=work, args=(job, say))
        worker.start()
        say.close()
        with hear:
            end_s = time.monotonic() + LIFE_S
            while not hear.poll(0.001):
                if time.monotonic() > end_s:
                    worker.kill()
                    raise AssertionError(f"seed {self.seed}: a worker hangs: {job}")
                if self._strike():
                    worker.kill()
                    self._outcome.kills += 1
                    break
            try:
                return hear.recv()
            except EOFError:
                return Word(GONE)
            finally:
                worker.join(LIFE_S)
                worker.close()

    def _strike(self) -> bool:
        """Whether the worker dies now. Lines are cut on the way."""
        taps = self._record.look()
        if self._due_cuts and taps >= self._due_cuts[0]:
            self._due_cuts.pop(0)
            when, line = self._chance.choice(("before", "after")), self._chance.choice(("stop", "stop", "continue"))
            at = Cut("", self._chance.randint(1, 30), when, line) if self._due_cuts else BEHIND_A_TAP
            self._farm.control.cut_after(NAME, at.match, count=at.count, when=at.when, line=at.line)
            self._outcome.cuts += 1
        if self._due_kills and taps >= self._due_kills[0]:
            self._due_kills.pop(0)
            time.sleep(self._chance.uniform(0.0, 0.02))
            return True
        return False

    def _judge(self) -> None:
        self._record.look()
        for number in range(self._outcome.effects // BLOCK):
            for step in range(1, BLOCK + 1):
                count = self._record.counts[number, step]
                if count != 1:
                    (self._outcome.twice if count else self._outcome.missing).append(f"{number}/{step}: {count}")
