"""What stands in the memos of workflows. Whoever may start a workflow may write anything there."""

from typing import TypeVar

from temporalio.client import WorkflowExecution

T = TypeVar("T")

UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RuntimeError)
"""What decoding of foreign payloads raises: no metadata, an unknown encoding, no JSON, JSON of something else."""


async def read(known: WorkflowExecution, name: str, kind: type[T]) -> T | None:
    """What stands under this name. None: nothing, or nothing that can be read as this."""
    try:
        return await known.memo_value(name, None, type_hint=kind)
    except UNREADABLE:
        return None


async def read_text(known: WorkflowExecution, name: str) -> str:
    """The text that stands under this name; empty: there is none."""
    found = await read(known, name, str)
    return found if isinstance(found, str) else ""
