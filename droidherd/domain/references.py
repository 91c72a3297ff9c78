"""Which references to credentials may be followed. Asked at the door and again by the worker that follows one."""

import posixpath
from dataclasses import dataclass
from pathlib import PurePosixPath

OURS = "DROIDHERD_"
"""Variables that begin like this hold keys of the house."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where references may point to."""

    env_prefix: str = ""
    """Only variables that begin like this; empty: all but those of the house."""
    directory: str = ""
    """Only files below this; empty: wherever they are."""

    def refusal(self, reference: str) -> str:
        """How to say it instead; empty when it may be followed."""
        scheme, _, place = reference.partition(":")
        if scheme == "env":
            return self._of_variable(place)
        return self._of_file(place)

    def _of_variable(self, name: str) -> str:
        if self.env_prefix:
            return (
                "" if name.startswith(self.env_prefix) else f"use a variable whose name begins with {self.env_prefix}"
            )
        return f"use a variable whose name does not begin with {OURS}" if name.startswith(OURS) else ""

    def _of_file(self, path: str) -> str:
        """As it is written. Where links lead, and where a relative folder is, only the worker sees."""
        if not posixpath.isabs(self.directory):
            return ""
        below = PurePosixPath(posixpath.normpath(path)).is_relative_to(posixpath.normpath(self.directory))
        return "" if below else f"keep it below {self.directory}"
