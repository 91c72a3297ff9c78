"""What one run of a stage is given, and what becomes of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from droidherd.domain.errors import CredentialError, FlowError
from droidherd.domain.ports import Acted, Eyes, Frame, Hands, Lifeline, Match, Things, Wanted
from droidherd.domain.task.things import State
from droidherd.flows.model.geometry import Area
from droidherd.flows.model.screens import NO_SCREENS, ParsedScreenMap
from droidherd.flows.model.steps.handlers import CallStep
from droidherd.flows.model.targets import Target
from droidherd.flows.run.look import Look

if TYPE_CHECKING:
    from droidherd.flows.run.doing import HandlerActs


class Clock(Protocol):
    """Monotonic time, and that of the calendar. Tests bring their own."""

    def now(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...

    def date(self) -> datetime:
        """With its time zone."""
        ...


class Finder(Protocol):
    """Finds what a flow speaks of on one look at the screen."""

    def find(self, look: Look, target: Target) -> Match: ...

    def words(self, look: Look, area: Area | None) -> str:
        """All that can be read in an area, in one line."""
        ...

    def moved(self, before: Frame, after: Frame, area: Area | None) -> float:
        """The share of an area that changed, 0 to 1."""
        ...


@dataclass(frozen=True, slots=True)
class Tempo:
    """Times and bounds of a step loop."""

    poll_s: float = 0.25
    progress_s: float = 120.0
    """Without a step done or a frame changed for this long, the stage is stuck."""
    late_s: float = 8.0
    """How long an act of unknown outcome may still come true: the life of a guard."""
    sends_max: int = 4
    """How often an act that surely was not sent is tried."""
    looks_max: int = 5
    """How many bad frames in a row are borne."""
    retry_s: float = 0.2
    """Between such tries; doubles each time."""


def _no_secret(name: str) -> str:
    raise CredentialError(f"has no credential {name}", to="nobody")


def _forget(_: str) -> None:
    pass


def _unseen(path: str, what: str, frame: Frame, match: Match | None) -> None:
    pass


class Nowhere:
    """Where nothing can be changed by value."""

    def make(self, effect: str, wanted: Wanted) -> Acted:
        raise FlowError(f"{wanted.thing} {wanted.name} cannot be changed here", to=f"step {effect}")

    def read(self, thing: str, name: str) -> State:
        raise FlowError(f"{thing} {name} cannot be read here")


NOWHERE = Nowhere()


class Handlers(Protocol):
    """Runs the bodies of `call` steps."""

    def run(self, args: CallStep, doing: "HandlerActs") -> None: ...


class NoHandlers:
    """Where no handler can run."""

    def run(self, args: CallStep, doing: "HandlerActs") -> None:  # noqa: ARG002 - the shape of the port
        raise FlowError(f"handler {args.by} cannot run here")


NO_HANDLERS = NoHandlers()


def _no_payload(name: str) -> Path:
    raise FlowError(f"there is no file {name} here")


@dataclass(frozen=True, slots=True)
class StageContext:
    """The outside of a stage: everything it may touch."""

    hands: Hands
    eyes: Eyes
    life: Lifeline
    clock: Clock
    finder: Finder
    keep: Callable[[str, Frame], None]
    """Keeps a frame under a file name that ends in `.png`."""
    note: Callable[[str], None] = _forget
    """Writes a line to the task's log. Never holds what was typed."""
    tempo: Tempo = Tempo()
    things: Things = NOWHERE
    payload: Callable[[str], Path] = _no_payload
    """The file that the flow carries under this name."""
    handlers: Handlers = NO_HANDLERS
    confirmed: Mapping[str, bool] = field(default_factory=dict)
    """What a person said about effects of unknown outcome: whether each happened."""
    secret: Callable[[str], str] = _no_secret
    """The text of a credential. Raises CredentialError."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """What people chose where the flow asks them: step → choice."""
    standing: frozenset[str] = frozenset()
    """Those of `answers` that were given while the emulator was kept: what came before them was done on it."""
    rounds: int = 0
    """How often the task ran before, by its own request."""
    seen: Callable[[str, str, Frame, Match | None], None] = _unseen
    """Told of every look, by step, and of everything that was searched on it: what, and where it was found."""
    screen_map: ParsedScreenMap = NO_SCREENS
    """The flow's screens, and the ways between them."""
    lease: int = 0
    """Under which this try has the emulator."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run of a stage ended when it did not raise."""

    stopped: str = ""
    """Empty when the stage is complete, else why it stopped at a step boundary."""
    acts: int = 0
    again: int = 0
    """Acts that an earlier try had done."""
    observed: int = 0
    """Acts of unknown outcome that were settled by looking."""
    again_at: datetime | None = None
    """When the flow wants to run next."""


class StopAskedError(Exception):
    """The stage was asked to stop, and a step boundary was reached. Never leaves the interpreter."""

    def __init__(self, reason: str) -> None:
        """`reason` is the lifeline's word."""
        super().__init__(reason)
        self.reason = reason
