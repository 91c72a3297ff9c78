"""What an emulator keeps over a restart: small JSON files, each replaced whole."""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from pydantic import JsonValue

FILE_MAX_BYTES = 16 << 20


class BrokenStateError(Exception):
    """What an emulator kept cannot be read."""


@contextmanager
def readable(folder: Path) -> Generator[None]:
    """Within, an emulator reads what it kept: what makes no sense there is an error that names the folder."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        what = f"what the emulator kept cannot be read: {type(problem).__name__}: {str(problem)[:200]!r}"
        raise BrokenStateError(f"{folder}: {what}. Remove the folder: the emulator then begins anew") from problem


class VirtualStore:
    """One folder. A file is either the old one or the new one, also after a kill in between."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def load(self, name: str) -> dict[str, JsonValue]:
        """What was saved last, or nothing."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            return {}
        if path.stat().st_size > FILE_MAX_BYTES:
            raise ValueError(f"{path.name} has more than {FILE_MAX_BYTES} bytes")
        loaded: JsonValue = json.loads(path.read_text("utf-8"))
        if not isinstance(loaded, dict):
            raise TypeError(f"{path.name} holds no object")
        return loaded

    def save(self, name: str, content: object) -> None:
        path = self.folder / f"{name}.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(content), "utf-8")
        os.replace(fresh, path)  # noqa: PTH105 - Path.replace is the same call; this one is known to be atomic
