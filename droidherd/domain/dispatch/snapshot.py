"""A dispatcher's state as text, and back: what continue-as-new carries and a successor asks its predecessor for."""

from dataclasses import replace

from droidherd.domain import columns
from droidherd.domain import messages as m
from droidherd.domain.dispatch.state import DispatcherState, PoolConfig

ROOMY_BYTES = 1_600_000
FULL_BYTES = 1_850_000
FEW_EVENTS, FEWEST = 50, 10
"""So many events, and lines of the audit of each kind, when there is hardly room, and when there is none."""


def dump(state: DispatcherState) -> str:
    """Everything a successor needs; of live events and audit only as much as there is room for.

    As the last resort answers are left behind that a task gets again when it repeats its request.
    """
    text = columns.dump(state)
    if len(text) > ROOMY_BYTES:
        text = columns.dump(_shortened(state, FEW_EVENTS))
    if len(text) > FULL_BYTES:
        outbox = state.outbox.without(m.Admitted, m.Rejected)
        text = columns.dump(replace(_shortened(state, FEWEST), outbox=outbox))
    return text


def _shortened(state: DispatcherState, lines: int) -> DispatcherState:
    return replace(state, events=state.events.newest(lines), audit=state.audit.newest(lines))


def load(text: str, config: PoolConfig) -> DispatcherState:
    """The state a text stands for, under these settings. What is derived is derived again."""
    state = columns.load(text, DispatcherState)
    state.apply(config)
    state.derive()
    return state
