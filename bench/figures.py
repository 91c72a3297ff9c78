"""What a benchmark says: a number, what it should be, and whether it is."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

Watch: TypeAlias = Callable[[str, float], None]
"""Tells the one who waits: what is being done, and how much of the benchmark is behind us (0 to 1)."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number. Without a target it is there to be read."""

    name: str
    value: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""
    parts: tuple[float, ...] = ()
    """The same number round by round, so that noise can be seen."""

    @property
    def passed(self) -> bool | None:
        """None: nothing was promised."""
        if self.at_most is not None:
            return self.value <= self.at_most
        if self.at_least is not None:
            return self.value >= self.at_least
        return None

    @property
    def target(self) -> str:
        if self.at_most is not None:
            return f"≤ {self.at_most:g}"
        return f"≥ {self.at_least:g}" if self.at_least is not None else ""

    def as_json(self) -> dict[str, Any]:
        row = {name: value for name, value in asdict(self).items() if value not in (None, "", ())}
        return {**row, "target": self.target, "passed": self.passed}
