"""Which tasks a request means, as query parameters."""

from dataclasses import replace
from typing import Annotated

from fastapi import Depends, Query

from droidherd.domain import ids
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.visibility import TaskFilters

VALUES_MAX = 20
"""Of one filter, in one request."""

Name = Annotated[str, Query(pattern=ids.OPTIONAL)]
Names = Annotated[list[Annotated[str, Query(pattern=ids.PATTERN)]], Query(max_length=VALUES_MAX)]
States = Annotated[list[TaskStatus], Query(max_length=VALUES_MAX)]
Labels = Annotated[list[Annotated[str, Query(pattern=ids.TAG)]], Query(max_length=VALUES_MAX)]


def _what(
    state: States = [],  # noqa: B006 (FastAPI copies it)
    type: Names = [],  # noqa: A002, B006 (the name in the query)
    label: Labels = [],  # noqa: B006
) -> TaskFilters:
    return TaskFilters(types=tuple(type), states=tuple(state), labels=tuple(label))


def _where(
    account: Name = "", lane: Name = "", pool: Name = "", emulator: Name = "", subscription: Name = ""
) -> TaskFilters:
    return TaskFilters(account=account, lane=lane, pool=pool, emulator=emulator, subscription=subscription)


def _filters(
    what: Annotated[TaskFilters, Depends(_what)], where: Annotated[TaskFilters, Depends(_where)]
) -> TaskFilters:
    return replace(where, types=what.types, states=what.states, labels=what.labels)


TaskQuery = Annotated[TaskFilters, Depends(_filters)]
