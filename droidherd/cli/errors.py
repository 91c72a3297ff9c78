"""What the command says when it cannot go on: what is wrong, and what to do about it."""

import typer
from pydantic import ValidationError
from typing_extensions import override

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


class EngineVersionError(CliError):
    """The database belongs to another version of the engine."""


class AlreadyRunningError(CliError):
    """Somebody else holds this data directory."""


class PortTakenError(CliError):
    """A port the settings name is in use."""


class NotReadyError(CliError):
    """A process did not become ready in time."""


class EndedEarlyError(NotReadyError):
    """A process ended while it started."""


def unfit(error: ValidationError) -> CliError:
    """What was said of an emulator, and is nothing that can be said of one."""
    first = error.errors(include_url=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    return CliError(f"{'.'.join(map(str, first['loc']))}: {message}", code=2)


def told(error: DroidherdError | typer.TyperException) -> CliError:
    """An error of the core, with what it is about, or wrong usage."""
    if isinstance(error, typer.TyperException):
        context: typer.Context | None = getattr(error, "ctx", None)
        remedy = f"see {context.command_path} --help" if context else ""
        return CliError(error.format_message(), remedy=remedy, code=error.exit_code)
    return CliError(f"{error.to}: {error.what}" if error.to else error.what, remedy=error.remedy)
