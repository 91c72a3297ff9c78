"""How a worker is asked to stop: once to drain, twice to wait for nothing."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from signal import SIGINT, SIGTERM
from signal import signal as on
from types import FrameType
from typing import Self


@dataclass(frozen=True, slots=True)
class ShutdownRequest:
    """What people and supervisors ask for."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """Stop, and let the stages that run end."""
    twice: asyncio.Event = field(default_factory=asyncio.Event)
    """Do not wait for stages."""

    @classmethod
    def by_signal(cls) -> Self:
        """SIGTERM or SIGINT."""
        request, loop = cls(), asyncio.get_running_loop()

        def note(_number: int, _frame: FrameType | None) -> None:
            loop.call_soon_threadsafe((request.twice if request.asked.is_set() else request.asked).set)

        for name in (SIGTERM, SIGINT):
            on(name, note)  # the loop's own handlers do not exist on Windows
        return request

    async def wait(self, seconds: float) -> None:
        """Returns when somebody asked, or after so long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.asked.wait(), seconds)

    async def wait_for(self, work: "list[asyncio.Task[None]]") -> None:
        """Returns when all of it has ended, or somebody asked twice."""
        if not work:
            return
        hurry = asyncio.create_task(self.twice.wait())
        everything = asyncio.gather(*work, return_exceptions=True)
        await asyncio.wait([hurry, everything], return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
