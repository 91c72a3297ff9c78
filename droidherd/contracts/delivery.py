"""Messages on their way from one workflow to others: a batch of signals, and a task's question to its dispatcher."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, JsonValue

from droidherd.contracts.base import Contract
from droidherd.domain import messages as m


class Envelope(Contract):
    """One message to one workflow, as a signal."""

    target: str
    signal: str
    message: JsonValue


class Batch(Contract):
    """Input of `deliver`: at most one envelope per target."""

    envelopes: tuple[Envelope, ...]


class DeliveryResult(StrEnum):
    DELIVERED = "delivered"
    NOT_FOUND = "not_found"
    """There is no such workflow, or it is closed."""
    FAILED = "failed"


class BatchResult(Contract):
    """What became of each envelope, in their order."""

    results: tuple[DeliveryResult, ...]


class AskDispatcher(Contract):
    """Input of `ask_dispatcher`: a task's request, answered at once."""

    dispatcher: str
    message: m.Enqueue


class DispatcherAnswer(Contract):
    """The dispatcher's answer to a request."""

    message: Annotated[m.FromDispatcher, Field(discriminator="kind")] | None = None
    """None: it comes as a signal, later."""
