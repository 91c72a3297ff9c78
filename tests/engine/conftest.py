"""The fixtures of a world with workflows: clients of the engine act on it."""

from tests.workflows.conftest import client, here, shared, task

__all__ = ["client", "here", "shared", "task"]
