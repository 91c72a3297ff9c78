"""The log of one emulator: a ring that `logcat` reads and follows."""

import asyncio
import time
from collections import deque
from dataclasses import dataclass

RING_LIMIT = 2000


@dataclass(frozen=True, slots=True)
class VirtualLogLine:
    number: int
    wall_s: float
    pid: int
    level: str
    tag: str
    text: str

    def show(self, form: str) -> str:
        if form == "raw":
            return self.text
        if form == "tag":
            return f"{self.level}/{self.tag}: {self.text}"
        if form == "brief":
            return f"{self.level}/{self.tag:<8}({self.pid:>5}): {self.text}"
        moment = time.strftime("%m-%d %H:%M:%S", time.gmtime(self.wall_s))
        stamp = f"{moment}.{int(self.wall_s * 1000) % 1000:03d}"
        if form == "time":
            return f"{stamp} {self.level}/{self.tag:<8}({self.pid:>5}): {self.text}"
        return f"{stamp} {self.pid:>5} {self.pid:>5} {self.level} {self.tag:<8}: {self.text}"


class VirtualLog:
    def __init__(self) -> None:
        self._lines: deque[VirtualLogLine] = deque(maxlen=RING_LIMIT)
        self._count = 0
        self._news = asyncio.Event()

    def add(self, tag: str, text: str, level: str = "I", pid: int = 612) -> None:
        self._count += 1
        self._lines.append(VirtualLogLine(self._count, time.time(), pid, level, tag, text))
        self._news.set()

    def clear(self) -> None:
        self._lines.clear()

    def since(self, number: int) -> list[VirtualLogLine]:
        return [line for line in self._lines if line.number > number]

    async def wait(self, timeout_s: float) -> None:
        """Until something may have been added."""
        self._news.clear()
        try:
            await asyncio.wait_for(self._news.wait(), timeout_s)
        except TimeoutError:
            return
