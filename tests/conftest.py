"""Fixtures that are shared by rooms; each stands in tests/support, one noun per file."""

import gc
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from opentelemetry.sdk.trace import id_generator

from tests.support.suites import LONGEST, MORE

pytest_plugins = ["tests.support.adbserver", "tests.support.temporal"]

# How long an example takes, or is drawn, says nothing about whether it is right, and machines are busy.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A server of an earlier test may still make spans in a thread, and Hypothesis takes whoever draws from Python's own
# generator meanwhile for a strategy that cannot be repeated.
id_generator.random = random.Random()  # type: ignore[assignment]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    home = Path(__file__).parent
    paths = {one: one.path.relative_to(home).as_posix() for one in items if one.path.is_relative_to(home)}
    for item, path in paths.items():
        if path.startswith(MORE):
            item.add_marker("more")
    items.sort(key=lambda item: not paths.get(item, "").startswith(LONGEST))


def pytest_collection_finish() -> None:
    """What stands now stays to the end: no collection looks at it again.

    Where one takes seconds, the SDK takes the workflow it interrupts for deadlocked.
    """
    gc.collect()
    gc.freeze()
