"""What every contract has in common: frozen, additive, and forgiving towards fields it does not know yet."""

import re
from datetime import datetime
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints

from droidherd.contracts.validation import TIME, BadTimeError
from droidherd.domain import ids

Id = Annotated[str, StringConstraints(pattern=ids.PATTERN)]
"""A name that is safe in workflow ids, queue names, file names and shell lines."""
MaybeId = Annotated[str, StringConstraints(pattern=ids.OPTIONAL)]
"""The same, or nothing."""
TaskId = Annotated[str, StringConstraints(pattern=ids.TASK_PATTERN, max_length=ids.ID_MAX)]
"""A task's, which a Schedule of Temporal may have given a time."""
MaybeTaskId = Annotated[str, StringConstraints(pattern=ids.OPTIONAL_TASK, max_length=ids.ID_MAX)]

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
YEARS = (2000, 2200)


def _check_moment(given: Any) -> Any:
    if isinstance(given, str) and _RFC_3339.fullmatch(given) is None:
        raise BadTimeError("must be a time as in RFC 3339, with a time zone: 2026-11-20T08:00:00Z")
    if isinstance(given, bool | int | float) or (isinstance(given, datetime) and given.tzinfo is None):
        raise BadTimeError(TIME)
    year = given.year if isinstance(given, datetime) else int(given[:4]) if isinstance(given, str) else YEARS[0]
    if not YEARS[0] <= year <= YEARS[1]:
        raise BadTimeError("must be a time between the years 2000 and 2200")
    return given


Moment = Annotated[datetime, BeforeValidator(_check_moment)]
"""A time that a client sends. Without a time zone it could not be compared with any other."""


class Contract(BaseModel):
    """Base of all models that cross a wire. Fields are only ever added, with defaults."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")


class Request(Contract):
    """Base of what other services send: what they misspell is refused at the door of a workflow, by name.

    As a model it forgives unknown fields like every contract, so that workflows and workers of two versions understand
    each other. `contracts/inbound.py` looks at a message when it comes from outside; docs/schemas say the same to
    senders. droidherd itself sends only the fields that were set (`engine/connection.py`).
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra={"additionalProperties": False})


class EntityState(BaseModel):
    """Base of what a workflow knows. It changes in place; continue-as-new and queries get it whole."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")
