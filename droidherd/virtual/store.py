"""What an emulator keeps over a restart: small JSON files, each replaced whole."""

import json
import os
from pathlib import Path

from pydantic import JsonValue


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
        loaded: dict[str, JsonValue] = json.loads(path.read_text("utf-8"))
        return loaded

    def save(self, name: str, content: object) -> None:
        path = self.folder / f"{name}.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(content), "utf-8")
        os.replace(fresh, path)  # noqa: PTH105 - Path.replace is the same call; this one is known to be atomic
