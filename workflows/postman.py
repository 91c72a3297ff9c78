"""A dispatcher's courier: all that is ready goes in one bag, and one trip brings all the receipts."""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts.post import Bag, Fate, Letter, Receipts
    from droidherd.domain.outbox import Outbox
    from workflows import options
    from workflows.courier import called, start_missing
    from workflows.handles import unless_cancelled

BAG_LIMIT = 200


class Postman:
    """As `Courier`, for a machine that speaks to many. A bag leaves only together with the decisions in it."""

    def __init__(
        self, outbox: Outbox[Any], on_gone: Callable[[str, Any], bool], on_delivered: Callable[[str], None]
    ) -> None:
        """`on_gone(target, message)`: nobody is there; True when it is worth starting somebody and trying again."""
        self._outbox = outbox
        self._on_gone = on_gone
        self._on_delivered = on_delivered
        self._beside: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Trip after trip, for as long as the workflow lives."""
        while True:
            await workflow.wait_condition(lambda: bool(self._outbox.ready()))
            bag = [(target, self._outbox.launch(target)) for target in self._outbox.ready()[:BAG_LIMIT]]
            for (target, message), fate in zip(bag, await self._trip(bag), strict=True):
                self._settle(target, message, fate)

    def idle(self) -> bool:
        """Nothing waits and nothing is under way."""
        return not self._outbox

    async def _trip(self, bag: list[tuple[str, Any]]) -> tuple[Fate, ...]:
        letters = [
            Letter(target=target, signal=called(message), message=dataclasses.asdict(message))
            for target, message in bag
        ]
        try:
            receipts = await workflow.execute_activity(
                "post",
                Bag(letters=tuple(letters)),
                result_type=Receipts,
                start_to_close_timeout=options.POST_TIMEOUT,
                schedule_to_close_timeout=options.POST_TOTAL,
                retry_policy=options.POST_RETRY,
                cancellation_type=workflow.ActivityCancellationType.ABANDON,
                summary=f"{len(letters)} messages" if len(letters) > 1 else f"{letters[0].signal} {letters[0].target}",
            )
        except ActivityError as error:
            unless_cancelled(error)
            workflow.logger.warning("%d messages could not be sent: %s", len(letters), error.cause)
            return tuple(Fate.FAILED for _ in letters)
        return receipts.fates

    def _settle(self, target: str, message: Any, fate: Fate) -> None:
        if fate is Fate.FAILED:
            self._later(self._again(target))
        elif fate is Fate.NOBODY and self._on_gone(target, message):
            self._later(self._start(target))
        else:
            self._outbox.delivered(target)
            if fate is Fate.DELIVERED:
                self._on_delivered(target)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        """Beside the trips: nobody waits for a target that needs time."""
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def _again(self, target: str) -> None:
        await workflow.sleep(options.SENDING_BACKOFF_S)
        self._outbox.failed(target)

    async def _start(self, target: str) -> None:
        await start_missing(target)
        self._outbox.failed(target)
