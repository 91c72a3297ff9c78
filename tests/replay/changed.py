"""Workflows with a deliberate change: what a careless edit would do to runs that are under way."""

import functools
from typing import Any

from temporalio import workflow


def with_a_timer_first(kind: type) -> type:
    """The same workflow, but for one command more at its beginning."""
    original: Any = kind.run  # type: ignore[attr-defined]

    @functools.wraps(original)
    async def run(*arguments: Any) -> Any:
        await workflow.sleep(1)
        return await original(*arguments)

    name = f"Changed{kind.__name__}"
    run.__qualname__ = f"{name}.run"
    changed = type(name, (kind,), {"run": workflow.run(run), "__module__": kind.__module__})
    return workflow.defn(name=workflow._Definition.must_from_class(kind).name)(changed)
