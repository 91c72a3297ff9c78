"""Fixtures that are shared by rooms; each stands in tests/support, one noun per file."""

import gc

from hypothesis import settings

pytest_plugins = ["tests.support.adbserver", "tests.support.temporal"]

# How long an example takes says nothing about whether it is right, and machines are busy.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_collection_finish() -> None:
    """What stands now stays to the end: no collection looks at it again.

    Where one takes seconds, the SDK takes the workflow it interrupts for deadlocked.
    """
    gc.collect()
    gc.freeze()
