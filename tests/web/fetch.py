"""Streams one address into an artifact store, in a process of its own, and says what that cost."""

import hashlib
import json
import sys
import threading
from pathlib import Path
from typing import Self

import psutil

from droidherd.artifacts.store import DirectoryStore
from droidherd.artifacts.writer import Writer
from droidherd.web.allow import AllowList
from droidherd.web.client import WebClient


class Peak:
    """The most memory this process held while it was looked at."""

    def __init__(self) -> None:
        self.bytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        process = psutil.Process()
        while not self._done.wait(0.02):
            self.bytes = max(self.bytes, process.memory_info().rss)


def main() -> None:
    origin, small, large, root = sys.argv[1:]
    store, digest = DirectoryStore(Path(root), writer=Writer()), hashlib.sha256()
    with WebClient(AllowList.of((origin,))) as web:
        fetch(web, store, f"{origin}{small}", hashlib.sha256())  # what any request needs is there now
        before = psutil.Process().memory_info().rss
        with Peak() as peak:
            size = fetch(web, store, f"{origin}{large}", digest)
    sys.stdout.write(json.dumps({"size": size, "sha256": digest.hexdigest(), "before": before, "peak": peak.bytes}))


def fetch(web: WebClient, store: DirectoryStore, url: str, digest: "hashlib._Hash") -> int:
    with web.get(url) as answer, store.stream("task-1", "file.bin", size_max=1 << 40) as out:
        for piece in answer.pieces():
            out.write(piece)
            digest.update(piece)
        return out.size


if __name__ == "__main__":
    main()
