"""What a dispatcher gives its postman, and what the postman brings back."""

from enum import StrEnum

from pydantic import JsonValue

from droidherd.contracts.base import Contract


class Letter(Contract):
    """One message to one workflow, as a signal."""

    target: str
    signal: str
    message: JsonValue


class Bag(Contract):
    """Input of `post`: at most one letter per target."""

    letters: tuple[Letter, ...]


class Fate(StrEnum):
    DELIVERED = "delivered"
    NOBODY = "nobody"
    """There is no such workflow, or it is closed."""
    FAILED = "failed"


class Receipts(Contract):
    """What became of each letter, in their order."""

    fates: tuple[Fate, ...]
