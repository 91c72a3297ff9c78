"""What every contract has in common: frozen, additive, and forgiving towards fields it does not know yet."""

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, StringConstraints

ID_PATTERN = r"^[A-Za-z0-9._-]{1,64}$"

Id = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
"""A name that is safe in workflow ids, queue names, file names and shell lines."""


class Contract(BaseModel):
    """Base of all models that cross a wire. Fields are only ever added, with defaults."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")
