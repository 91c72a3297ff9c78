"""The fencing token. Pure, so that the domain may reason about it."""

import re
from dataclasses import dataclass
from typing import Self

LEASE_DIGITS, PART_DIGITS = 15, 3
LEASE_LIMIT, PART_LIMIT = 10**LEASE_DIGITS, 10**PART_DIGITS
_TEXT = re.compile(r"([0-9]{15})\.([0-9]{3})\.([0-9]{3})")


@dataclass(frozen=True, slots=True, order=True)
class Token:
    """Who may act on an emulator: a lease, in it a stage, of it a try. It only grows.

    Its text has a fixed width, so that order as text is order as numbers: a shell with 32-bit arithmetic cannot
    compare a lease any other way.
    """

    lease: int
    stage: int = 0
    attempt_of_stage: int = 0

    def __post_init__(self) -> None:
        """Refuse what the fixed width cannot hold."""
        for name, value, limit in (
            ("lease", self.lease, LEASE_LIMIT),
            ("stage", self.stage, PART_LIMIT),
            ("attempt_of_stage", self.attempt_of_stage, PART_LIMIT),
        ):
            if not 0 <= value < limit:
                raise ValueError(f"{name} of a token is {value}, expected 0 to {limit - 1}")

    def __str__(self) -> str:
        return f"{self.lease_text}.{self.stage:03d}.{self.attempt_of_stage:03d}"

    @property
    def lease_text(self) -> str:
        return f"{self.lease:015d}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form, and nothing else."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not a token")
        return cls(int(found[1]), int(found[2]), int(found[3]))
