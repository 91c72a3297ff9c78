"""What the lines of this package answered, and which error that is."""

from dataclasses import dataclass
from typing import NoReturn

from droidherd.adb.model import ShellResult
from droidherd.domain.errors import (
    DiskFullError,
    EmulatorLostError,
    FencedError,
    InfrastructureError,
    LateError,
    NotReleasedError,
    NotSentError,
    UnknownOutcomeError,
)

MARK = "dh:"
NOBODY_THERE = "Can't find service"
"""What a command says that reached nobody: Android's services are not up, or not yet again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The marker, the words after it, and what the act itself printed."""

    word: str
    rest: tuple[str, ...]
    output: str
    error_output: str

    @classmethod
    def of(cls, result: ShellResult, to: str) -> "Answer":
        """Only a line that got as far as its marker said anything; without one nobody knows what it did."""
        first, _, output = result.text.replace("\r\n", "\n").partition("\n")
        if not first.startswith(MARK):
            shown = (first or result.error_text).strip()[:200]
            raise UnknownOutcomeError(f"the emulator's shell answered {shown!r}, rc {result.rc}", to=to)
        word, *rest = first.removeprefix(MARK).split()
        return cls(word, tuple(rest), output.strip(), result.error_text.strip())

    def refuse(self, to: str) -> NoReturn:
        """Raise what a marker that is not success means."""
        said = " ".join(self.rest)
        _refuse_who(self.word, said, to)
        match self.word:
            case "nobody":
                raise NotSentError("its services are not up", to=to)
            case "late":
                raise LateError(f"the deadline had passed at uptime {said}", to=to)
            case "unknown":
                raise UnknownOutcomeError(f"the journal holds an intent without a result: {said}", to=to)
            case "unreadable":
                raise UnknownOutcomeError(f"the journal cannot be read: {self.error_output}", to=to)
            case "running":
                raise UnknownOutcomeError("the emulator is still carrying it out", to=to)
            case "unwritten":
                raise DiskFullError(
                    f"the journal cannot be written: {self.error_output or 'no reason given'}",
                    to=to,
                    remedy="free space on the emulator",
                )
            case _:
                raise InfrastructureError(f"the emulator answered {self.word} {said}".strip(), to=to)


def _refuse_who(word: str, said: str, to: str) -> None:
    """Not this emulator, or not by this token."""
    match word:
        case "stranger":
            raise EmulatorLostError(f"{said} answers in its place", to=to)
        case "unset":
            raise FencedError("the emulator has no token: it was restarted", to=to)
        case "fenced":
            raise FencedError(f"token {said} holds the emulator", to=to)
        case "held":
            raise NotReleasedError(f"token {said} has not said that it ended", to=to)
        case _:
            pass
