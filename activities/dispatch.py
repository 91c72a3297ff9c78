"""The two messages of every task's life, carried to its dispatcher without a trip through the engine's outbox.

Both run as local activities. When one fails for whatever reason, the workflow sends the same message as a signal.
"""

from collections.abc import Callable

from temporalio import activity
from temporalio.client import Client

from droidherd.contracts import names
from droidherd.contracts.queue import Asking, Parting, Verdict


class DispatchActivities:
    """A task's line to its dispatcher."""

    def __init__(self, client: Client) -> None:
        """Messages carry no trace of their own: the span is the activity's."""
        config = client.config()
        config["interceptors"] = []
        self._client = Client(**config)

    @activity.defn
    async def ask(self, asking: Asking) -> Verdict:
        """Ask for an emulator. The same question again, under the same id, is the same update."""
        message = asking.message
        return await self._client.get_workflow_handle(asking.dispatcher).execute_update(
            names.Update.ASK,
            message,
            id=f"{message.key.text()}.{message.seq}",
            result_type=Verdict,
        )

    @activity.defn
    async def part(self, parting: Parting) -> None:
        """Say that a task ended. Repeating it is harmless."""
        await self._client.get_workflow_handle(parting.dispatcher).signal(names.Signal.DONE, parting.message)

    def all(self) -> list[Callable[..., object]]:
        return [self.ask, self.part]
