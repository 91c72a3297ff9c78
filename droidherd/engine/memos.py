"""What stands in the memos of workflows. Whoever may start a workflow may write anything there."""

from typing import TypeVar

from pydantic import ValidationError
from temporalio.client import WorkflowExecution

from droidherd.contracts.inbound import TEXT, checked
from droidherd.contracts.validation import explain

T = TypeVar("T")

UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RuntimeError)
"""What decoding of foreign payloads raises: no metadata, an unknown encoding, no JSON, JSON of something else."""


async def read(known: WorkflowExecution, name: str, kind: type[T]) -> T | None:
    """What stands under this name. None: nothing, or nothing that can be read as this."""
    return (await read_or_why(known, name, kind))[0]


async def read_or_why(known: WorkflowExecution, name: str, kind: type[T]) -> tuple[T | None, str]:
    """The same; and why it cannot be read, if there is something."""
    try:
        return checked(await known.memo_value(name, None, type_hint=kind)), ""
    except ValidationError as error:
        why = explain(error, kind, secret=True)
    except UNREADABLE as error:
        why = f"{type(error).__name__}: {error}"
    return None, f"cannot be read: {why}"[:TEXT]


async def read_text(known: WorkflowExecution, name: str) -> str:
    """The text that stands under this name; empty: there is none."""
    found = await read(known, name, str)
    return found if isinstance(found, str) else ""
