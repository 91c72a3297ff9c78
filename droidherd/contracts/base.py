"""What every contract has in common: frozen, additive, and forgiving towards fields it does not know yet."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, StringConstraints

from droidherd.domain import ids

Id = Annotated[str, StringConstraints(pattern=ids.PATTERN)]
"""A name that is safe in workflow ids, queue names, file names and shell lines."""
MaybeId = Annotated[str, StringConstraints(pattern=ids.OPTIONAL)]
"""The same, or nothing."""


def readable(found: Mapping[str, Any]) -> str:
    """What pydantic found, for people: which characters a name may have stands in a sentence, not in a pattern."""
    return ids.RULES.get(found.get("ctx", {}).get("pattern", ""), str(found["msg"]))


class Contract(BaseModel):
    """Base of all models that cross a wire. Fields are only ever added, with defaults."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")


class EntityState(BaseModel):
    """Base of what a workflow knows. It changes in place; continue-as-new and queries get it whole."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")
