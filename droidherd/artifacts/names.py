"""Names of artifacts: what may be a file name on every system, and nothing else."""

import re

from droidherd.domain.errors import BadParametersError

NAME_MAX = 120
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
# Windows opens a machine's port under these names, whatever the extension.
_RESERVED = re.compile(r"(?i:con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.ASCII)

_TYPES = {
    ".png": "image/png",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".log": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
}


def checked_name(name: str, what: str = "artifact") -> str:
    """Return the name if it is one plain file name; never a path, never hidden."""
    fits = len(name) <= NAME_MAX and _NAME.fullmatch(name) and not name.endswith(".")
    if not fits or _RESERVED.fullmatch(name):
        raise BadParametersError(
            f"{name[:60]!r} is not a name of an {what}",
            remedy=f"use 1 to {NAME_MAX} of A-Z a-z 0-9 . _ - and begin with a letter, a digit or _",
        )
    return name


def content_type_of(name: str) -> str:
    """By the name's extension; unknown ones are plain bytes."""
    return _TYPES.get("." + name.rpartition(".")[2].lower(), "application/octet-stream")


def plain_name(text: str) -> str:
    """Make a name out of any text, for files that are named after something."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:NAME_MAX].rstrip(".")
    return f"_{name}" if not name or _RESERVED.fullmatch(name) else name
