"""Messages that wait for their delivery. Part of every machine's snapshot.

An external signal that is not awaited when its workflow ends is lost; two sent at once to one target arrive swapped.
So a message stays here until its delivery returned, and each target has at most one in flight.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

M = TypeVar("M")
LONG = 8
"""Messages to one target; a line is seldom longer than two."""


@dataclass
class Outbox(Generic[M]):
    """Per target a line of messages; the first one of a line may be in flight."""

    lines: dict[str, list[M]] = field(default_factory=dict[str, list[M]])

    def __post_init__(self) -> None:
        """What is in flight is no field: whoever carries the outbox leaves it out, and the next run sends it again."""
        self.flying: dict[str, M] = {}

    def put(self, target: str, message: M) -> None:
        self.lines.setdefault(target, []).append(message)

    def put_instead(self, target: str, message: M, repeated: Callable[[M], bool]) -> None:
        """The same. In a long line, what waits already and is `repeated` by this one is dropped: it does not grow."""
        line = self.lines.setdefault(target, [])
        if len(line) >= LONG:
            at = 1 if target in self.flying else 0
            line[at:] = [one for one in line[at:] if not repeated(one)]
        line.append(message)

    def waiting(self, target: str) -> int:
        """How many messages this target has yet to get."""
        return len(self.lines.get(target, ()))

    def take_last(self, target: str, *kinds: type) -> M | None:
        """Take back what would be said last, if it is of these kinds and does not fly yet."""
        line = self.lines.get(target, [])
        if not line or not isinstance(line[-1], kinds) or (len(line) == 1 and target in self.flying):
            return None
        last = line.pop()
        if not line:
            del self.lines[target]
        return last

    def ready(self) -> list[str]:
        """Targets with something to send and nothing in flight."""
        return [target for target in self.lines if target not in self.flying]

    def launch(self, target: str) -> M:
        """The first message for this target, now in flight."""
        message = self.lines[target][0]
        self.flying[target] = message
        return message

    def mark_delivered(self, target: str) -> None:
        """It arrived, or will never be wanted: drop it."""
        if self.flying.pop(target, None) is None:
            return
        line = self.lines[target]
        line.pop(0)
        if not line:
            del self.lines[target]

    def mark_failed(self, target: str) -> None:
        """It did not arrive: it stays first in line."""
        self.flying.pop(target, None)

    def forget(self, target: str, meant: Callable[[M], bool]) -> None:
        """Nobody is there any more: drop what was meant for them, but for what flies until its fate is known."""
        line = self.lines.get(target, [])
        at = 1 if target in self.flying else 0
        line[at:] = [message for message in line[at:] if not meant(message)]
        if not line:
            self.lines.pop(target, None)

    def without(self, *kinds: type) -> "Outbox[M]":
        """A copy that leaves out these kinds."""
        lines = {target: [one for one in line if not isinstance(one, kinds)] for target, line in self.lines.items()}
        return Outbox({target: line for target, line in lines.items() if line})

    def __len__(self) -> int:
        """How many messages wait or fly."""
        return sum(len(line) for line in self.lines.values())
