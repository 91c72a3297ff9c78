"""The fixtures of a world with workflows: monitors act on its dispatcher."""

from tests.workflows.conftest import client, here, shared, task

__all__ = ["client", "here", "shared", "task"]
