"""Fixtures that are shared by rooms; each stands in tests/support, one noun per file."""

import gc

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.support.adbserver", "tests.support.temporal"]

# How long an example takes, or is drawn, says nothing about whether it is right, and machines are busy.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """What stands now stays to the end: no collection looks at it again.

    Where one takes seconds, the SDK takes the workflow it interrupts for deadlocked.
    """
    gc.collect()
    gc.freeze()
