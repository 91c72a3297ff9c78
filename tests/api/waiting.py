"""Waiting in tests: by condition, bounded, never by a fixed sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(ask: Callable[[], T | None], seconds: float = 60.0) -> T:
    """The first answer that counts."""
    end = time.monotonic() + seconds
    while not (found := ask()):
        if time.monotonic() > end:
            raise AssertionError(f"still {found!r} after {seconds} s")
        time.sleep(0.05)
    return found
