"""Which tasks a request means, as query parameters."""

from typing import Annotated

from fastapi import Depends, Query

from api.engine import Filters
from droidherd.domain.lifecycle import TaskState

Name = Annotated[str, Query(pattern=r"^[A-Za-z0-9._-]{0,64}$")]
Names = Annotated[list[Annotated[str, Query(pattern=r"^[A-Za-z0-9._-]{1,64}$")]], Query(max_length=20)]
Labels = Annotated[list[Annotated[str, Query(pattern=r"^[A-Za-z0-9._/-]{1,64}=[A-Za-z0-9._/-]{1,64}$")]], Query()]


def _filters(  # noqa: PLR0917 (query parameters)
    state: Annotated[list[TaskState], Query()] = [],  # noqa: B006 (FastAPI copies it)
    type: Names = [],  # noqa: A002, B006 (the name in the query)
    account: Name = "",
    lane: Name = "",
    pool: Name = "",
    emulator: Name = "",
    label: Labels = [],  # noqa: B006
) -> Filters:
    return Filters(tuple(type), tuple(state), account, lane, pool, emulator, tuple(label))


Wanted = Annotated[Filters, Depends(_filters)]
