"""Which runs under the id of a service were never ours."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from droidherd.contracts import names
from droidherd.contracts.names import Workflow
from droidherd.engine.visibility import is_foreign, was_delayed

STARTED = datetime(2026, 11, 20, 12, tzinfo=UTC)


def closed_run(*, begins_s: float, closes_s: float) -> Any:
    """A dispatcher of our own type and queue, in seconds after its start by Temporal's clock."""
    begins, closes = (STARTED + timedelta(seconds=one) for one in (begins_s, closes_s))
    times = {"start_time": STARTED, "execution_time": begins, "close_time": closes}
    return cast("Any", SimpleNamespace(workflow_type=Workflow.DISPATCHER.value, task_queue=names.FLEET_QUEUE, **times))


@pytest.mark.parametrize(
    ("begins_s", "closes_s", "foreign"),
    [
        pytest.param(0.0, 60.0, False, id="of-ours"),
        pytest.param(0.0, -600.0, False, id="of-ours-and-temporals-clock-was-set-back"),
        pytest.param(1.0, 0.5, False, id="of-ours-that-temporal-delayed-since-it-continued-quickly"),
        pytest.param(72_000.0, 60.0, True, id="to-begin-tomorrow-and-closed-today"),
        pytest.param(72_000.0, 80_000.0, False, id="delayed-and-begun"),
    ],
)
def test_a_closed_run_is_foreign_when_it_was_delayed_and_never_began(
    begins_s: float, closes_s: float, *, foreign: bool
):
    run = closed_run(begins_s=begins_s, closes_s=closes_s)
    assert (foreign, begins_s > 60) == (is_foreign(run, Workflow.DISPATCHER), was_delayed(run))
