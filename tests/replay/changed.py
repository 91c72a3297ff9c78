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

    run.__qualname__ = f"Changed{kind.__name__}.run"
    return _changed(kind, run=workflow.run(run))


def that_raises_after(kind: type, events: int) -> type:
    """The same workflow, but for an error in its loop once its history is so long."""
    original: Any = kind._work  # type: ignore[attr-defined]

    async def work(self: object) -> None:
        if workflow.info().get_current_history_length() > events:
            raise RuntimeError("planted")
        await original(self)

    return _changed(kind, _work=work)


def _changed(kind: type, **members: Any) -> type:
    changed = type(
        f"Changed{kind.__name__}", (kind,), {"run": _own_run(kind), **members, "__module__": kind.__module__}
    )
    return workflow.defn(name=workflow._Definition.must_from_class(kind).name)(changed)


def _own_run(kind: type) -> Any:
    """The SDK wants the run method on the class itself."""
    original: Any = kind.run  # type: ignore[attr-defined]

    @functools.wraps(original)
    async def run(*arguments: Any) -> Any:
        return await original(*arguments)

    run.__qualname__ = f"Changed{kind.__name__}.run"
    return workflow.run(run)
