"""Messages on their way: what a task asks and says directly, and what a dispatcher gives its postman."""

from enum import StrEnum

from pydantic import JsonValue

from droidherd.contracts.base import Contract
from droidherd.domain import messages as m


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


class Asking(Contract):
    """Input of `ask`: a task's request, for an answer in the same breath."""

    dispatcher: str
    message: m.Enqueue


class Parting(Contract):
    """Input of `part`: the last word of a task that ended."""

    dispatcher: str
    message: m.Done


class Verdict(Contract):
    """The dispatcher's answer to a request. Nothing: it comes as a message of its own."""

    admitted: m.Admitted | None = None
    rejected: m.Rejected | None = None
    recall: m.Recall | None = None

    def news(self) -> m.Admitted | m.Rejected | m.Recall | None:
        return self.admitted or self.rejected or self.recall
