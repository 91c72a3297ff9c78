"""What every piece of a flow has in common."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Frozen and strict about its keys."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
