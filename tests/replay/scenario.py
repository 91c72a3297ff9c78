"""A path through the workflows, played on a real engine, whose history is worth keeping."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from temporalio.client import Client

from droidherd.contracts.engine import PoolSettings
from droidherd.contracts.plan import TaskTiming
from tests.workflows.plays import NothingDirect
from tests.workflows.timing import IMPATIENT_TASKS
from tests.workflows.world import POOL, World

Path = Callable[[World], Awaitable[None]]
TASK = "task"
DISPATCHER = "dispatcher/default"
EMULATOR = "emulator/e1"
HOST = "host/h1"


@dataclass(frozen=True, slots=True)
class Setting:
    """What a scenario finds when it begins."""

    emulators: tuple[str, ...] = ("e1",)
    pool: PoolSettings = POOL
    timing: TaskTiming = IMPATIENT_TASKS
    joined: bool = True
    delivery: Callable[[Client], NothingDirect] | None = None
    """Nothing gets through but signals."""
    short: bool = False
    """On an engine that suggests to continue as new very early."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """`keep`: workflows whose histories are recorded, all their runs."""

    name: str
    why: str
    keep: tuple[str, ...]
    setting: Setting
    play: Path


ALL: dict[str, Scenario] = {}


def scenario(
    why: str, *, keep: tuple[str, ...] = (TASK,), setting: Setting | None = None, name: str = ""
) -> Callable[[Path], Path]:
    """Register a path under its function's name."""

    def register(play: Path) -> Path:
        called = name or getattr(play, "__name__", "")
        if called in ALL:
            raise ValueError(f"two scenarios are called {called}")
        ALL[called] = Scenario(called, why, keep, setting or Setting(), play)
        return play

    return register
