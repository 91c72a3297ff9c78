"""What a handler is, and the ground it stands on while it works.

A handler is the body of a `handle` step. Its stage may run again after any death, so it first looks whether it is
done; its acts are named inside the step, journaled on the emulator like all acts, and made once.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, JsonValue

from droidherd.domain.fleet.facts import Facts
from droidherd.domain.ports import Eyes, Frame, Sink, Things, Wanted
from droidherd.domain.task.things import State


class Params(BaseModel):
    """Base of the parameters of a handler: frozen, and strict about its keys."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


P = TypeVar("P", bound=Params)


class EmulatorActs(Protocol):
    """What a handler does on the emulator. `name` tells its acts apart, and stays the same when it runs again."""

    def make(self, name: str, wanted: Wanted) -> None: ...
    def start_app(self, name: str, app: str) -> None: ...
    def stop_app(self, name: str, app: str) -> None: ...
    def look(self) -> Frame: ...

    def rest(self, seconds: float) -> None:
        """Wait a moment and say that work moves. Raises StageTimeoutError when the stage's time is over."""
        ...


class WebResponse(Protocol):
    """A good answer of a server, its body still on its way."""

    @property
    def size(self) -> int | None:
        """As the server announced it."""
        ...

    def pieces(self) -> Iterator[bytes]:
        """The body, once. Ends only when all of it came."""
        ...


class WebPort(Protocol):
    """Asks servers that the settings allow. Its errors have a verdict."""

    def get(self, url: str) -> AbstractContextManager[WebResponse]: ...


class Labels(Protocol):
    """The labels of the emulator in its host's inventory."""

    def get(self, name: str) -> str: ...

    def put(self, name: str, value: str) -> None:
        """An empty value takes the label away."""
        ...


@dataclass(frozen=True, slots=True)
class HandlerContext:
    """All that a handler may touch."""

    task_id: str
    emulator_id: str
    account: str
    doing: EmulatorActs
    things: Things
    facts: Facts
    ask: Callable[[str], str]
    """Asks the emulator's shell something that changes nothing. CommandFailedError when it says no."""
    eyes: Eyes
    web: WebPort
    labels: Labels
    scratch: Path
    """A folder on the host for files on their way. What is left in it may be gone any time."""
    create: Callable[[str, int], AbstractContextManager[Sink]]
    """A new file of this name in `scratch`, so many bytes at most, written in turns with everybody on this host.

    DiskFullError before nothing is left for the engine.
    """
    keep: Callable[[str, bytes], None]
    """Leaves an artifact."""
    note: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Subject:
    """A thing that a handler changes by value, as its parameters name it."""

    thing: str
    name: str
    state: State | None = None
    """What it will be, where that is known before."""


class Handler(ABC, Generic[P]):
    """One body. All methods may be called again at any time."""

    name: ClassVar[str]
    params: type[P]

    def changes(self, params: P) -> tuple[Subject, ...]:  # noqa: ARG002 - for those who change something
        """What it changes by value. It is captured before, and restored by a rollback."""
        return ()

    def refusal(self, params: P, account: str) -> str:  # noqa: ARG002
        """Why a task that acts for this account may not do it; asked when it is planned. Empty: it may."""
        return ""

    def addresses(self, params: P) -> tuple[str, ...]:  # noqa: ARG002 - for those who ask servers
        """Whom it is going to ask, as far as its parameters say. Judged before the task is accepted."""
        return ()

    def is_done(self, ground: HandlerContext, params: P) -> bool:  # noqa: ARG002
        """Whether there is nothing left to do. Asked first."""
        return False

    def prepare(self, ground: HandlerContext, params: P) -> None:
        """What can be done before anything is changed."""

    @abstractmethod
    def execute(self, ground: HandlerContext, params: P) -> dict[str, JsonValue]:
        """The work itself; returns a summary of a few lines."""

    def cleanup(self, ground: HandlerContext, params: P) -> None:
        """Whatever came of it: take away what was left on the host."""

    def rollback(self, ground: HandlerContext, params: P, before: Mapping[tuple[str, str], State]) -> None:
        """Take back what values do not: it runs before they are restored. `before`: those values."""

    @property
    def takes_back(self) -> bool:
        return type(self).rollback is not Handler.rollback
