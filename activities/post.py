"""Carries what a dispatcher says: one trip for all that waits."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from droidherd.contracts.post import Bag, Fate, Letter, Receipts

AT_ONCE = 16
RPC_TIMEOUT = timedelta(seconds=1)


class PostActivities:
    """The dispatchers' postman."""

    def __init__(self, client: Client) -> None:
        """Messages carry no trace of their own."""
        config = client.config()
        config["interceptors"] = []
        self._client = Client(**config)

    @activity.defn
    async def post(self, bag: Bag) -> Receipts:
        """Deliver each letter once, or say that it could not be. Delivering one again is harmless."""
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(letter: Letter) -> Fate:
            async with gate:
                return await self._deliver(letter)

        return Receipts(fates=tuple(await asyncio.gather(*map(one, bag.letters))))

    async def _deliver(self, letter: Letter) -> Fate:
        handle = self._client.get_workflow_handle(letter.target)
        try:
            await handle.signal(letter.signal, letter.message, rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return Fate.NOBODY
            activity.logger.warning("%s could not be told %s: %s", letter.target, letter.signal, error)
            return Fate.FAILED
        return Fate.DELIVERED

    def all(self) -> list[Callable[..., object]]:
        return [self.post]
