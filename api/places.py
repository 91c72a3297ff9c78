"""Where tasks stand in line now: the dispatcher's word, for one task and for a whole list."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from api.engine import Engine, EngineError
from droidherd.contracts.queue import Place, Places, PlacesQuery
from droidherd.contracts.tasks import TaskView
from droidherd.domain.lifecycle import TaskState


def with_place(view: TaskView, place: Place) -> TaskView:
    """A task itself knows only what it was told when it got in line."""
    told = place.model_dump(exclude=None if place.priority else {"priority", "precedence"})
    return view.model_copy(update=told) if place.position else view


async def with_places(engine: Engine, views: Sequence[TaskView]) -> list[TaskView]:
    """One question for each pool that has one of them in line. Who does not answer leaves its tasks as they were."""
    lines: dict[str, list[str]] = {}
    for view in views:
        if view.state is TaskState.QUEUED:
            lines.setdefault(view.pool, []).append(view.task_id)
    found = await asyncio.gather(*(_places(engine, pool, tuple(ids)) for pool, ids in lines.items()))
    known = dict(zip(lines, found, strict=True))
    return [with_place(one, known.get(one.pool, {}).get(one.task_id, Place())) for one in views]


async def _places(engine: Engine, pool: str, tasks: tuple[str, ...]) -> dict[str, Place]:
    places = Places()
    with suppress(EngineError):
        places = await engine.places(pool, PlacesQuery(tasks=tasks))
    return places.places
