"""What the door writes into a pool's audit: orders that no workflow carries out by itself."""

from typing import Any

from temporalio.client import Client

from api import engine as e
from api.asking import asking
from api.starting import House, dispatcher_options
from droidherd.contracts import names
from droidherd.contracts.names import Signal, Workflow
from droidherd.domain.audit import Deed

ENGINE_S = 3.0


class Book:
    """Implements `api.engine.Book`."""

    def __init__(self, client: Client, house: House) -> None:
        """The same client as the gateway's."""
        self._client = client
        self._house = house

    async def note(self, pool: str, deed: Deed) -> None:
        if pool in ("", self._house.pool) or not await self._told(pool, deed):
            options: dict[str, Any] = dispatcher_options(self._house)
            async with asking(ENGINE_S):
                await self._client.start_workflow(
                    Workflow.DISPATCHER.value,
                    self._house.dispatcher,
                    **options,
                    start_signal=Signal.DEED.value,
                    start_signal_args=[deed],
                )

    async def _told(self, pool: str, deed: Deed) -> bool:
        """Another pool's dispatcher is not ours to start."""
        try:
            async with asking(ENGINE_S):
                await self._client.get_workflow_handle(names.dispatcher_id(pool)).signal(Signal.DEED.value, deed)
        except e.MissingError:
            return False
        return True
