"""Fixtures that are shared by rooms; each stands in tests/support, one noun per file."""

import gc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.support.adbserver", "tests.support.temporal"]

# How long an example takes, or is drawn, says nothing about whether it is right, and machines are busy.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


MORE = (
    "chaos/",
    "e2e/test_exclusion.py",
    "e2e/test_flood.py",
    "e2e/test_hand_over.py",
    "e2e/test_hostile.py",
    "e2e/test_limit.py",
    "e2e/test_limits.py",
    "e2e/test_recovery.py",
    "e2e/test_secrets.py",
    "e2e/test_stall.py",
    "e2e/test_stuck.py",
    "e2e/test_subscriptions.py",
    "e2e/test_turns.py",
    "e2e/test_viewers.py",
)
"""The dearest plays: files and folders of tests that `make test-more` runs instead of `make test`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    home = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(home) and item.path.relative_to(home).as_posix().startswith(MORE):
            item.add_marker("more")


def pytest_collection_finish() -> None:
    """What stands now stays to the end: no collection looks at it again.

    Where one takes seconds, the SDK takes the workflow it interrupts for deadlocked.
    """
    gc.collect()
    gc.freeze()
