"""Workflows with a deliberate change: what a careless edit would do to runs that are under way."""

import functools
from typing import Any

from temporalio import workflow


def with_a_timer_first(kind: type) -> type:
    """The same workflow, but for one command more at its beginning."""
    original: Any = _definition(kind).run_fn

    @functools.wraps(kind.run)  # type: ignore[attr-defined]
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
    workflow.defn(name=_definition(kind).name)(changed)
    object.__setattr__(_definition(changed), "arg_types", _definition(kind).arg_types)
    return changed


def _definition(kind: type) -> Any:
    return workflow._Definition.must_from_class(kind)


def _own_run(kind: type) -> Any:
    """The SDK wants the run method on the class itself."""
    original: Any = _definition(kind).run_fn

    @functools.wraps(kind.run)  # type: ignore[attr-defined]
    async def run(*arguments: Any) -> Any:
        return await original(*arguments)

    run.__qualname__ = f"Changed{kind.__name__}.run"
    return workflow.run(run)
