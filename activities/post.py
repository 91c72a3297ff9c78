"""Carries messages between workflows: a task's question and its last word, and whatever a dispatcher says."""

import asyncio
import time
from collections.abc import Callable

from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from droidherd.contracts import names
from droidherd.contracts.post import Asking, Bag, Fate, Letter, Parting, Receipts, Verdict

AT_ONCE = 16
TRIP_S = 2.0
"""A bag comes back within this, and says of what is not delivered by then that it failed."""


class PostActivities:
    """When one of these fails for whatever reason, the workflow tries again or finds another way."""

    def __init__(self, client: Client) -> None:
        """Messages carry no trace of their own: the span is the activity's."""
        config = client.config()
        config["interceptors"] = []
        self._client = Client(**config)

    @activity.defn
    async def ask(self, asking: Asking) -> Verdict:
        """Ask a dispatcher for an emulator, and hear what it says to that."""
        dispatcher = self._client.get_workflow_handle(asking.dispatcher)
        return await dispatcher.execute_update(names.Update.ASK, asking.message, result_type=Verdict)

    @activity.defn
    async def part(self, parting: Parting) -> None:
        """Say that a task ended. Repeating it is harmless."""
        await self._client.get_workflow_handle(parting.dispatcher).signal(names.Signal.DONE, parting.message)

    @activity.defn
    async def post(self, bag: Bag) -> Receipts:
        """Deliver each letter once, or say that it could not be. Delivering one again is harmless."""
        gate, until_s = asyncio.Semaphore(AT_ONCE), time.monotonic() + TRIP_S

        async def one(letter: Letter) -> Fate:
            async with gate:
                return await self._deliver(letter, until_s - time.monotonic())

        return Receipts(fates=tuple(await asyncio.gather(*map(one, bag.letters))))

    async def _deliver(self, letter: Letter, seconds: float) -> Fate:
        handle = self._client.get_workflow_handle(letter.target)
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await handle.signal(letter.signal, letter.message)
        except TimeoutError:
            return Fate.FAILED
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return Fate.NOBODY
            activity.logger.warning("%s could not be told %s: %s", letter.target, letter.signal, error)
            return Fate.FAILED
        return Fate.DELIVERED

    def direct(self) -> list[Callable[..., object]]:
        """What a task's courier uses."""
        return [self.ask, self.part]

    def all(self) -> list[Callable[..., object]]:
        return [*self.direct(), self.post]
