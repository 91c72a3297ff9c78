"""What the routes work with, made by the composition root."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from api.auth import CALLER, OPERATES
from api.emulators.frames import LatestFrames
from api.errors import Kind, ProblemError
from droidherd.artifacts.store import DirectoryStore
from droidherd.domain import ids
from droidherd.engine.accounts import AccountsClient
from droidherd.engine.codec import EncryptionCodec
from droidherd.engine.emulators import EmulatorsClient
from droidherd.engine.errors import NotFoundError
from droidherd.engine.maintenance import MaintenanceClient
from droidherd.engine.queue import QueueClient
from droidherd.engine.schedules import SubscriptionsClient
from droidherd.engine.tasks import TasksClient
from droidherd.flows.catalogue import Catalogue
from droidherd.settings import Settings


class OpenWaits:
    """Requests that stay open until something happens, by who sent them."""

    def __init__(self, most: int) -> None:
        """`most` by one key; without keys, by everybody together."""
        self._most = most
        self._open: Counter[str] = Counter()

    @contextmanager
    def one(self, caller: str, seconds: float = 1.0) -> Generator[None]:
        """Count one more while it is open; none that waits 0 seconds. ProblemError: there are too many."""
        if not seconds:
            yield
            return
        if self._open[caller] >= self._most:
            whose = f"the key {caller!r} has" if caller else "there are"
            raise ProblemError(
                Kind.OVERLOADED, f"{whose} {self._most} event streams and `?wait=` open already: close some, or poll"
            )
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1


@dataclass(frozen=True, slots=True)
class AppState:
    tasks: TasksClient
    queue: QueueClient
    emulators: EmulatorsClient
    accounts: AccountsClient
    subscriptions: SubscriptionsClient
    maintenance: MaintenanceClient
    frames: LatestFrames
    catalogue: Catalogue
    store: DirectoryStore
    settings: Settings
    codec: EncryptionCodec
    waits: OpenWaits

    @property
    def pool(self) -> str:
        """The pool of this process: the default of every route."""
        return self.settings.host.pool

    async def pool_of(self, pool: str) -> str:
        """This pool, or our own without a name. NotFoundError: it does not exist."""
        if pool and not await self.queue.exists(pool):
            raise NotFoundError(f"no pool `{pool}`")
        return pool or self.pool


async def _app_state(request: Request) -> AppState:
    state: AppState = request.app.state.droidherd
    return state


async def _task_id(task_id: str) -> str:
    if not ids.is_task_id(task_id):
        raise NotFoundError(f"no such task: an id {ids.TASK_RULE}")
    return task_id


def path_id(text: str, what: str) -> str:
    """A name from the path. NotFoundError: it cannot be an id, so nothing has it."""
    if not ids.is_id(text):
        raise NotFoundError(f"no such {what}: an id {ids.RULES[ids.PATTERN]}")
    return text


async def _caller(request: Request) -> str:
    return str(getattr(request.state, CALLER, ""))


async def _operates(request: Request) -> bool:
    return bool(getattr(request.state, OPERATES, False))


App = Annotated[AppState, Depends(_app_state)]
TaskId = Annotated[str, Depends(_task_id)]
Caller = Annotated[str, Depends(_caller)]
"""The name of the key a request came with; empty where no key is needed."""
Operates = Annotated[bool, Depends(_operates)]
"""Whether it may do more than read."""
