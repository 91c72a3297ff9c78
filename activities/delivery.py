"""Carries messages between workflows, with a client: batches of signals, and a task's question to its dispatcher."""

import asyncio
import time
from collections.abc import Callable

from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from droidherd.contracts import names
from droidherd.contracts.delivery import (
    AskDispatcher,
    Batch,
    BatchResult,
    DeliveryResult,
    DispatcherAnswer,
    Envelope,
)

AT_ONCE = 16
BATCH_S = 2.0
"""A batch returns within this time, and reports what is not delivered by then as failed."""


class DeliveryActivities:
    """When one of these fails for whatever reason, the workflow tries again or sends a signal itself."""

    def __init__(self, client: Client) -> None:
        """Messages carry no trace of their own: the span is the activity's."""
        config = client.config()
        config["interceptors"] = []
        self._client = Client(**config)

    @activity.defn
    async def ask_dispatcher(self, question: AskDispatcher) -> DispatcherAnswer:
        """Ask a dispatcher for an emulator, and return its answer."""
        dispatcher = self._client.get_workflow_handle(question.dispatcher)
        return await dispatcher.execute_update(names.Update.ASK, question.message, result_type=DispatcherAnswer)

    @activity.defn
    async def deliver(self, batch: Batch) -> BatchResult:
        """Try to deliver each envelope once. To deliver one again is harmless."""
        gate, until_s = asyncio.Semaphore(AT_ONCE), time.monotonic() + BATCH_S

        async def one(envelope: Envelope) -> DeliveryResult:
            async with gate:
                return await self._deliver(envelope, until_s - time.monotonic())

        return BatchResult(results=tuple(await asyncio.gather(*map(one, batch.envelopes))))

    async def _deliver(self, envelope: Envelope, seconds: float) -> DeliveryResult:
        handle = self._client.get_workflow_handle(envelope.target)
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await handle.signal(envelope.signal, envelope.message)
        except TimeoutError:
            return DeliveryResult.FAILED
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return DeliveryResult.NOT_FOUND
            activity.logger.warning("%s could not be delivered to %s: %s", envelope.signal, envelope.target, error)
            return DeliveryResult.FAILED
        return DeliveryResult.DELIVERED

    def all(self) -> list[Callable[..., object]]:
        return [self.ask_dispatcher, self.deliver]
