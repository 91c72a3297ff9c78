"""Names of artifacts: what may be a file name on every system, and nothing else."""

from dataclasses import dataclass, field
from itertools import count

from droidherd.domain import ids
from droidherd.domain.errors import BadParametersError

NAME_MAX = 120

_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".html": "text/html; charset=utf-8",
    ".xml": "application/xml",
    ".yaml": "application/yaml",
    ".csv": "text/csv; charset=utf-8",
    ".apk": "application/vnd.android.package-archive",
    ".mp4": "video/mp4",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".log": "text/plain; charset=utf-8",
    ".zip": "application/zip",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
}


CONTENT_TYPES = (*sorted(set(_TYPES.values())), "application/octet-stream")
"""Every type an artifact may have."""


def checked_name(name: str, what: str = "artifact") -> str:
    """Return the name if it is one plain file name; never a path, never hidden."""
    if not ids.is_file_name(name, NAME_MAX):
        raise BadParametersError(
            f"{name[:60]!r} is not a name of an {what}",
            remedy=f"use 1 to {NAME_MAX} of A-Z a-z 0-9 . _ - and begin with a letter, a digit or _",
        )
    return name


def content_type_of(name: str) -> str:
    """By the name's extension; unknown ones are plain bytes."""
    return _TYPES.get("." + name.rpartition(".")[2].lower(), "application/octet-stream")


@dataclass(slots=True)
class Taken:
    """The names under which one try keeps what it keeps: nothing takes the place of what somebody else kept."""

    _whose: dict[str, object] = field(default_factory=dict)

    def name(self, wanted: str, whose: object) -> str:
        """As wanted; numbered, `page.2.png`, when somebody else has that name."""
        stem, dot, kind = wanted.rpartition(".") if "." in wanted else (wanted, "", "")
        ends = (f".{number}{dot}{kind}" for number in count(2))
        name = wanted
        while self._whose.setdefault(name, whose) != whose:
            end = next(ends)
            name = stem[: NAME_MAX - len(end)] + end
        return name
