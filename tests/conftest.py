"""Fixtures that are shared by rooms; each stands in tests/support, one noun per file."""

pytest_plugins = ["tests.support.adbserver", "tests.support.temporal"]
