"""Where chance comes from: a seed, or a tape that hypothesis can shrink."""

import random
from typing import Protocol


class Choices(Protocol):
    """Every decision of a history is drawn here, so that the same choices give the same history."""

    def below(self, limit: int) -> int: ...

    def spent(self) -> bool:
        """Whether nothing hostile will come any more."""
        ...


class Seeded:
    """Endless choices from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def below(self, limit: int) -> int:
        return int(self._random() * limit)

    def spent(self) -> bool:
        return False


class Tape:
    """Choices from bytes. A tape that ran out gives zeros, and zero is always the tame choice."""

    def __init__(self, tape: bytes) -> None:
        self._tape = tape
        self._at = 0

    def below(self, limit: int) -> int:
        if self._at >= len(self._tape):
            return 0
        value = self._tape[self._at]
        self._at += 1
        return value % limit

    def spent(self) -> bool:
        return self._at >= len(self._tape)
