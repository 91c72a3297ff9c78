"""What the command says when it cannot go on: what is wrong, and what to do about it."""

import typer
from pydantic import ValidationError
from typing_extensions import override

from droidherd.contracts.validation import explain, message_of
from droidherd.domain.errors import DroidherdError


class CliError(Exception):
    """Ends the command with a sentence instead of a traceback."""

    def __init__(self, what: str, *, remedy: str = "", code: int = 1) -> None:
        """`what` is wrong, the `remedy`, and the exit code."""
        super().__init__(what)
        self.what = what
        self.remedy = remedy
        self.code = code

    @override
    def __str__(self) -> str:
        return f"{self.what}\n  {self.remedy}" if self.remedy else self.what


class TemporalVersionError(CliError):
    """The database belongs to another version of the Temporal server."""


class AlreadyRunningError(CliError):
    """Somebody else holds this data directory."""


class PortTakenError(CliError):
    """A port the settings name is in use."""


class NotReadyError(CliError):
    """A process did not become ready in time."""


class EndedEarlyError(NotReadyError):
    """A process ended while it started."""


def invalid_emulator(error: ValidationError) -> CliError:
    """A value that no emulator can have."""
    return CliError(explain(error), code=2)


def in_plain_words(error: typer.TyperException) -> None:
    """Typer hands on what pydantic writes of a value."""
    if isinstance(error.__cause__, ValidationError):
        error.message = message_of(error.__cause__.errors(include_url=False)[0])


def from_core_error(error: DroidherdError | typer.TyperException) -> CliError:
    """From an error of the core, or from wrong usage."""
    if isinstance(error, typer.TyperException):
        context: typer.Context | None = getattr(error, "ctx", None)
        remedy = f"see {context.command_path} --help" if context else ""
        return CliError(error.format_message(), remedy=remedy, code=error.exit_code)
    return CliError(f"{error.to}: {error.what}" if error.to else error.what, remedy=error.remedy)
