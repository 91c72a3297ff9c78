"""Which references to credentials may be followed. The API checks them, and so does the worker that follows one."""

import posixpath
from dataclasses import dataclass
from pathlib import PurePosixPath

OURS = "DROIDHERD_"
"""Variables with this prefix hold keys of droidherd itself."""


@dataclass(frozen=True, slots=True)
class AllowedReferences:
    """Where references may point to, as an operator set it."""

    env_prefix: str = ""
    """Only variables with this prefix; empty: all but those of droidherd itself."""
    directory: str = ""
    """Only files below this folder; empty: no files."""

    def refusal(self, reference: str) -> str:
        """What to write instead; empty when the reference may be followed."""
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
        """Judge the path as written: only the worker sees where links and relative folders lead."""
        if not self.directory:
            return "set `credentials.directory` to the folder that holds such files, or use `env:`"
        if not posixpath.isabs(self.directory):
            return ""
        below = PurePosixPath(posixpath.normpath(path)).is_relative_to(posixpath.normpath(self.directory))
        return "" if below else f"keep it below {self.directory}"
