"""`droidherd logs`: what the processes of a house said, merged or one by one."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from droidherd.cli.errors import CliError
from droidherd.cli.layout import Layout

POLL_S = 0.2
TAIL_BYTES = 262_144

Line = tuple[str, str]
"""Which process, and what it said."""


def names(layout: Layout) -> list[str]:
    return sorted(path.stem for path in layout.logs.glob("*.log"))


def choose(layout: Layout, wanted: Sequence[str]) -> list[Path]:
    known = names(layout)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise CliError(f"no log of {', '.join(unknown)}", remedy=f"there are: {', '.join(known) or 'none yet'}", code=2)
    return [layout.logs / f"{name}.log" for name in (wanted or known)]


def last(paths: Sequence[Path], count: int) -> Iterator[Line]:
    """The last lines of each."""
    for path in paths:
        for text in _tail(path, count):
            yield path.stem, text


def follow(paths: Sequence[Path], stop: Callable[[], bool]) -> Iterator[Line]:
    """What is said from now on. A log that became shorter was rotated: it is read from its start."""
    places = {path: path.stat().st_size if path.exists() else 0 for path in paths}
    rests = dict.fromkeys(paths, b"")
    while not stop():
        for path in paths:
            content = _since(path, places)
            *whole, rests[path] = (rests[path] + content).split(b"\n")
            for line in whole:
                yield path.stem, line.decode(errors="replace")
        time.sleep(POLL_S)


def _since(path: Path, places: dict[Path, int]) -> bytes:
    try:
        size = path.stat().st_size
        if size < places[path]:
            places[path] = 0
        if size == places[path]:
            return b""
        with path.open("rb") as file:
            file.seek(places[path])
            content = file.read(TAIL_BYTES)
    except FileNotFoundError:
        return b""
    places[path] += len(content)
    return content


def _tail(path: Path, count: int) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - TAIL_BYTES))
            content = file.read()
    except FileNotFoundError:
        return []
    return content.decode(errors="replace").splitlines()[-count:] if count else []
