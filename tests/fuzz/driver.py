"""Feeds parsers with mutated inputs, each within a limit of time and memory, and keeps what reaches new code.

`make test` gives each parser a few hundred inputs of fixed seeds, `make long` ten minutes, `make fuzz` an hour. With
atheris (the extra `fuzz`) its engine chooses the inputs; without it, this file does, by the lines of droidherd that an
input reaches.
"""

import contextlib
import hashlib
import importlib.util
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzz.parsers import HERE, PARSERS, Parser, parser_of

ROOT = HERE.parents[1]
CORPUS = HERE / "corpus"
INPUT_MAX_BYTES = 1 << 16
SECONDS_MAX = 3.0
"""Of processor time for one input."""
MEMORY_MAX_BYTES = 768 << 20
"""What the whole of a process may take beyond what its imports took."""
CORPUS_MAX_FILES, CORPUS_MAX_BYTES = 60, 4_096
"""Of one parser, and of one file: the corpus stands in the tree."""
NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF)


class TooSlowError(Exception):
    """An input took longer than any may."""


@dataclass
class Finding:
    """An input that a parser did not refuse as it should."""

    parser: str
    data: bytes
    error: str

    def __str__(self) -> str:
        return f"{self.parser}: {self.error}: {self.data[:200]!r} ({len(self.data)} bytes)"


@dataclass
class Outcome:
    """What became of the inputs of one parser."""

    parser: str
    inputs: int = 0
    refused: int = 0
    kept: list[bytes] = field(default_factory=list[bytes])
    """Inputs that reached new code."""
    findings: list[Finding] = field(default_factory=list[Finding])
    slowest_s: float = 0.0


def corpus_of(parser: Parser) -> list[bytes]:
    """What earlier runs kept."""
    return [path.read_bytes() for path in sorted((CORPUS / parser.name).glob("*"))]


# --- mutation --------------------------------------------------------------------------------------------------------


def mutate(parser: Parser, pool: Sequence[bytes], chance: random.Random) -> bytes:
    """One input, made of those that are known by one to six changes."""
    data = bytearray(chance.choice(pool))
    for _ in range(1 << chance.randrange(4) if chance.random() < 0.7 else 1):
        _change(data, parser, pool, chance)
    return bytes(data[:INPUT_MAX_BYTES])


def _change(data: bytearray, parser: Parser, pool: Sequence[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(data) + 1)
    end = min(len(data), at + 1 + int(chance.expovariate(1 / 12)))
    match chance.randrange(9):
        case 0 if at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        case 1 if at < len(data):
            data[at] = chance.choice((0, 0xFF, 0x80, 0x7F, chance.randrange(256)))
        case 2:
            width = chance.choice((1, 2, 4))
            number = chance.choice(NUMBERS) + chance.randrange(-2, 3)
            order = chance.choice(("little", "big"))
            data[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, order)
        case 3:
            del data[at:end]
        case 4:
            data[at:at] = chance.randbytes(1 + int(chance.expovariate(1 / 6)))
        case 5:
            data[at:at] = data[at:end] * chance.choice((1, 2, 8, 100, 2_000))
        case 6:
            other = chance.choice(pool)
            begin = chance.randrange(len(other) + 1)
            data[at:] = other[begin:]
        case 7 if parser.words:
            data[at:at] = chance.choice(parser.words) * chance.choice((1, 1, 1, 3, 500))
        case _:
            del data[at:]


# --- one input -------------------------------------------------------------------------------------------------------


def _over_time(number: int, frame: FrameType | None) -> None:
    raise TooSlowError(f"more than {SECONDS_MAX:g} s")


@contextlib.contextmanager
def limits(memory_bytes: int = MEMORY_MAX_BYTES) -> Generator[None]:
    """What this process may take beyond what it has: memory, and time by the alarm that `feed` sets."""
    taken = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + memory_bytes, resource.RLIM_INFINITY))
    before = signal.signal(signal.SIGVTALRM, _over_time)
    try:
        yield
    finally:
        signal.signal(signal.SIGVTALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def feed(parser: Parser, data: bytes, outcome: Outcome) -> None:
    """Give it one input and judge what it does with it."""
    outcome.inputs += 1
    began_s = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS_MAX)
    try:
        parser.read(data)
    except (TooSlowError, MemoryError) as error:
        outcome.findings.append(Finding(parser.name, data, _describe(error)))
    except parser.refuses:
        outcome.refused += 1
    except Exception as error:  # noqa: BLE001 - whatever a parser lets out is what is searched
        outcome.findings.append(Finding(parser.name, data, _describe(error)))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    outcome.slowest_s = max(outcome.slowest_s, time.process_time() - began_s)


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"


# --- many inputs -----------------------------------------------------------------------------------------------------


def run_fixed(parser: Parser, inputs: int, seed: int) -> Outcome:
    """The corpus, and then so many mutations of it: the same for the same seed."""
    chance = random.Random(f"{seed} {parser.name}")
    outcome = Outcome(parser.name)
    pool = [*parser.seeds(), *corpus_of(parser)]
    for data in pool:
        feed(parser, data, outcome)
    for _ in range(inputs):
        feed(parser, mutate(parser, pool, chance), outcome)
    return outcome


def run_guided(parser: Parser, seconds: float, seed: int) -> Outcome:
    """For so long, with every input that reached a new line among those that are mutated."""
    chance = random.Random(f"{seed} {parser.name}")
    outcome = Outcome(parser.name)
    seen: set[tuple[Any, int, int]] = set()
    pool = [*parser.seeds(), *corpus_of(parser)]
    for data in pool:
        _reach(parser, data, outcome, seen)
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s and len(outcome.findings) < 20:
        recent = pool[-30:] if chance.random() < 0.5 else pool
        data = mutate(parser, recent, chance)
        if _reach(parser, data, outcome, seen):
            pool.append(data)
            outcome.kept.append(data)
    return outcome


def _reach(parser: Parser, data: bytes, outcome: Outcome, seen: set[tuple[Any, int, int]]) -> bool:
    """Whether this input went from a line to another as none did before."""
    before = len(seen)
    last = 0

    def local(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        nonlocal last
        if event == "line":
            seen.add((frame.f_code, last, frame.f_lineno))
            last = frame.f_lineno
        return local

    def enter(frame: FrameType, _event: str, _: object) -> Callable[..., Any] | None:
        return local if "/droidherd/" in frame.f_code.co_filename else None

    sys.settrace(enter)
    try:
        feed(parser, data, outcome)
    finally:
        sys.settrace(None)
    return len(seen) > before


def keep(parser: Parser, found: Sequence[bytes]) -> int:
    """Put new inputs into the corpus, small ones first and no more than it may hold; returns how many."""
    folder = CORPUS / parser.name
    folder.mkdir(parents=True, exist_ok=True)
    left = CORPUS_MAX_FILES - len([*folder.iterdir()])
    chosen = sorted((one for one in found if 0 < len(one) <= CORPUS_MAX_BYTES), key=len)[: max(0, left)]
    for data in chosen:
        (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    return len(chosen)


# --- atheris ---------------------------------------------------------------------------------------------------------


def has_atheris() -> bool:
    return importlib.util.find_spec("atheris") is not None


def run_atheris(parser: Parser, seconds: float, seed: int) -> Outcome:
    """In a process of its own, since its engine ends the process it runs in."""
    outcome = Outcome(parser.name)
    folder = ROOT / "build" / "fuzz" / parser.name
    folder.mkdir(parents=True, exist_ok=True)
    for data in (*parser.seeds(), *corpus_of(parser)):
        (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    known = {path.name for path in folder.iterdir()}
    line = [sys.executable, "-m", "tests.fuzz.engine", parser.name, str(folder), f"-max_total_time={seconds:.0f}"]
    line += [
        f"-seed={seed + 1}",
        f"-max_len={INPUT_MAX_BYTES}",
        "-timeout=20",
        "-rss_limit_mb=1536",
        "-print_final_stats=1",
    ]
    done = subprocess.run(
        [*line, f"-artifact_prefix={folder.parent}/{parser.name}-"],
        cwd=ROOT, capture_output=True, check=False, timeout=seconds + 120,
    )  # fmt: skip
    output = done.stderr.decode("utf-8", "replace")
    for words in (one.split() for one in output.splitlines()):
        if words[:1] == ["stat::number_of_executed_units:"]:
            outcome.inputs = int(words[1])
        if words[:1] == ["stat::slowest_unit_time_sec:"]:
            outcome.slowest_s = float(words[1])
    if done.returncode:
        artifacts = sorted(folder.parent.glob(f"{parser.name}-*"), key=lambda path: path.stat().st_mtime)
        data = artifacts[-1].read_bytes() if artifacts else b""
        outcome.findings.append(Finding(parser.name, data, output[-1_500:]))
    outcome.kept = [path.read_bytes() for path in sorted(folder.iterdir()) if path.name not in known]
    return outcome


def chosen(names: Sequence[str]) -> list[Parser]:
    return [parser_of(name) for name in names] or [*PARSERS]
