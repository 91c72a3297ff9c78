"""Waiting for what others do in their own time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from temporalio.service import RPCError

T = TypeVar("T")
LIMIT_S = 120.0
POLL_S = 0.02


async def until(ask: Callable[[], Awaitable[T | None]], what: str, limit_s: float = LIMIT_S) -> T:
    """Ask until there is an answer."""
    last: object = None
    try:
        async with asyncio.timeout(limit_s):
            while True:
                try:
                    answer = await ask()
                except RPCError as error:
                    answer, last = None, error
                if answer is not None:
                    return answer
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise TimeoutError(f"waited {limit_s:g} s for {what}; last trouble: {last}") from None
