"""Fixtures that are shared by rooms; each stands in tests/support, one noun per file."""

from hypothesis import settings

pytest_plugins = ["tests.support.adbserver", "tests.support.temporal"]

# How long an example takes says nothing about whether it is right, and machines are busy.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
