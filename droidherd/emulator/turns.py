"""One stage at a time on each emulator, though its worker has the next one in hand already."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager


class Turns:
    """A door per emulator. Shared by all threads that run stages in one process."""

    def __init__(self) -> None:
        """All doors are open."""
        self._doors: dict[str, threading.Lock] = {}

    @contextmanager
    def taken(
        self, emulator_id: str, every_s: float, wanted: Callable[[], bool], beat: Callable[[], None]
    ) -> Generator[bool]:
        """Wait until the stage that runs there has ended, with a `beat` now and then.

        Gives False when this one is not `wanted` any more: then the emulator may not be touched.
        """
        door = self._doors.setdefault(emulator_id, threading.Lock())
        while not door.acquire(timeout=every_s):
            beat()
            if not wanted():
                yield False
                return
        try:
            yield wanted()
        finally:
            door.release()
