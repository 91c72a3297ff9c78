"""Which tasks a request means, as query parameters."""

from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Query

from api.engine import Filters
from droidherd.domain import ids
from droidherd.domain.lifecycle import TaskState

Name = Annotated[str, Query(pattern=ids.OPTIONAL)]
Names = Annotated[list[Annotated[str, Query(pattern=ids.PATTERN)]], Query(max_length=20)]
Labels = Annotated[list[Annotated[str, Query(pattern=r"^[A-Za-z0-9._/-]{1,64}=[A-Za-z0-9._/-]{1,64}$")]], Query()]


def _what(
    state: Annotated[list[TaskState], Query()] = [],  # noqa: B006 (FastAPI copies it)
    type: Names = [],  # noqa: A002, B006 (the name in the query)
    label: Labels = [],  # noqa: B006
) -> Filters:
    return Filters(types=tuple(type), states=tuple(state), labels=tuple(label))


def _where(
    account: Name = "", lane: Name = "", pool: Name = "", emulator: Name = "", subscription: Name = ""
) -> Filters:
    return Filters(account=account, lane=lane, pool=pool, emulator=emulator, subscription=subscription)


def _filters(what: Annotated[Filters, Depends(_what)], where: Annotated[Filters, Depends(_where)]) -> Filters:
    return replace(where, types=what.types, states=what.states, labels=what.labels)


Wanted = Annotated[Filters, Depends(_filters)]
