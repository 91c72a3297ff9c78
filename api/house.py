"""What the routes work with, made by the composition root."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from api.auth import CALLER
from api.engine import Accounts, Book, Engine, Maintenance, MissingError, Onlooker
from api.schedules import Schedules
from droidherd.artifacts.store import DirectoryStore
from droidherd.domain import ids
from droidherd.flows.catalogue import Catalogue
from droidherd.settings import Settings


@dataclass(frozen=True, slots=True)
class House:
    engine: Engine
    accounts: Accounts
    schedules: Schedules
    upkeep: Maintenance
    book: Book
    live: Onlooker
    catalogue: Catalogue
    store: DirectoryStore
    settings: Settings


async def _house(request: Request) -> House:
    house: House = request.app.state.house
    return house


async def _task_id(task_id: str) -> str:
    return plain(task_id, "task")


def plain(text: str, what: str) -> str:
    """A name from the path. What cannot be an id names nothing."""
    if not ids.is_id(text):
        raise MissingError(f"there is no such {what}: an id {ids.RULES[ids.PATTERN]}")
    return text


async def pool_of(house: House, pool: str) -> str:
    """This pool; without a name, our own. MissingError: nobody knows it."""
    if pool and not await house.engine.knows_pool(pool):
        raise MissingError(f"there is no pool {pool}")
    return pool or house.settings.host.pool


async def _caller(request: Request) -> str:
    return str(getattr(request.state, CALLER, ""))


Home = Annotated[House, Depends(_house)]
TaskId = Annotated[str, Depends(_task_id)]
Caller = Annotated[str, Depends(_caller)]
"""The name of the key a request came with; empty where no key is needed."""
