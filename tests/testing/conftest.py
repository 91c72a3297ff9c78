"""One server that skips time per module; each test brings its own answers."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

import pytest
import pytest_asyncio

from droidherd.testing.skipping import Herd, StandIn, skipped_time

CLOSING_S = 60.0


@dataclass
class SharedHerd:
    """Its clock and its tasks are everybody's: after a test that failed, the next one gets a new server."""

    session: pytest.Session
    _herd: Herd | None = None
    _failed: int = 0
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _emulators: dict[str, StandIn] = field(default_factory=dict[str, StandIn])

    async def herd(self) -> Herd:
        if self._herd is None or self._failed != self.session.testsfailed:
            await self.close()
            self._failed = self.session.testsfailed
            self._herd = await self._stack.enter_async_context(skipped_time())
        return self._herd

    async def emulator(self, name: str) -> StandIn:
        """Without what an earlier test left of its answers."""
        herd = await self.herd()
        if name not in self._emulators:
            self._emulators[name] = await herd.emulator(name)
        self._emulators[name].answers = []
        return self._emulators[name]

    async def close(self) -> None:
        self._emulators.clear()
        stack, self._stack, self._herd = self._stack, AsyncExitStack(), None
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await stack.aclose()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(request: pytest.FixtureRequest) -> AsyncGenerator[SharedHerd]:
    one = SharedHerd(request.session)
    yield one
    await one.close()


@pytest_asyncio.fixture(loop_scope="module")
async def herd(shared: SharedHerd) -> Herd:
    """Knows the types of the gallery, by their flows."""
    return await shared.herd()
