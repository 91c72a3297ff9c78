"""Changes the file with encryption keys: whole, in one step, one command at a time. None is lost but one that is named.

Lines that are no keys stay where they are.
"""

import base64
import os
import secrets
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from droidherd.cli.local.lock import try_lock
from droidherd.domain import ids
from droidherd.domain.errors import BadParametersError
from droidherd.engine.encryption import FILE_MAX, KEY_BYTES, KEYS_MAX, keep_name, parse, read_private

LOCK_S = 5.0
POLL_S = 0.05
AGAIN = "`droidherd key list` shows the keys"


def list_keys(path: Path) -> list[str]:
    """Their ids; the first one encrypts. Raises BadParametersError, as everything here."""
    return list(_keys(_lines(path), path))


def add_key(path: Path, name: str = "", *, last: bool = False) -> str:
    """Make a key, and return its id. It encrypts from the next start on; `last`: it only decrypts, until it is used."""

    def change(lines: list[str]) -> str:
        known = _keys(lines, path)
        made = name or _free(known)
        if not ids.is_id(made):
            raise BadParametersError(f"{made!r} is no id: it {ids.RULES[ids.PATTERN]}", to=str(path))
        if made in known:
            raise BadParametersError(f"there is a key {made} already", to=str(path), remedy=f"{AGAIN}; choose another")
        if len(known) >= KEYS_MAX:
            raise BadParametersError(f"has {KEYS_MAX} keys", to=str(path), remedy="remove the oldest first")
        at = len(lines) if last else _place(lines, next(iter(known)))
        lines.insert(at, f"{made} {base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}")
        return made

    return _change(path, change)


def use_key(path: Path, name: str) -> str:
    """Have this one encrypt from the next start on. All the others still decrypt."""

    def change(lines: list[str]) -> str:
        line = lines.pop(_known_place(lines, name, path))
        rest = _keys(lines, path, some=False)
        lines.insert(_place(lines, next(iter(rest))) if rest else len(lines), line)
        return name

    return _change(path, change)


def remove_key(path: Path, name: str) -> str:
    """Never the one that encrypts."""

    def change(lines: list[str]) -> str:
        at = _known_place(lines, name, path)
        if name == next(iter(_keys(lines, path))):
            remedy = "add another one first (`droidherd key add`), or let another one encrypt (`droidherd key use ID`)"
            raise BadParametersError(f"{name} is the key that encrypts", to=str(path), remedy=remedy)
        del lines[at]
        return name

    return _change(path, change)


def _change(path: Path, change: Callable[[list[str]], str]) -> str:
    real = path.resolve()  # a link stays one
    with _alone(real):
        lines = _lines(real)
        done = change(lines)
        content = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
        if len(content) > FILE_MAX:
            raise BadParametersError(f"would be larger than {FILE_MAX} bytes", to=str(path), remedy="remove the oldest")
        parse(lines, str(path))
        _replace(real, content)
    return done


def _replace(path: Path, content: bytes) -> None:
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        _keep_owner(path, file.fileno())
        os.fsync(file.fileno())
    new.replace(path)
    keep_name(path)


def _keep_owner(path: Path, new: int) -> None:
    """Whoever runs the instance has to read it, also when root changed it."""
    if sys.platform == "win32" or not path.exists():
        return
    old, mine = path.stat(), os.fstat(new)
    if (old.st_uid, old.st_gid) == (mine.st_uid, mine.st_gid):
        return
    try:
        os.fchown(new, old.st_uid, old.st_gid)
    except PermissionError as error:
        remedy = f"run this command as the owner of {path}"
        raise BadParametersError("belongs to another user", to=str(path), remedy=remedy) from error


@contextmanager
def _alone(path: Path) -> Generator[None]:
    until = time.monotonic() + LOCK_S
    with path.with_name(f"{path.name}.lock").open("a+b") as file:
        while not try_lock(file):
            if time.monotonic() > until:
                raise BadParametersError("another command changes it", to=str(path), remedy="try again in a moment")
            time.sleep(POLL_S)
        yield


def _lines(path: Path) -> list[str]:
    return read_private(path).splitlines()


def _keys(lines: list[str], path: Path, *, some: bool = True) -> dict[str, bytes]:
    return parse(lines, str(path)) if some or any(map(_id, lines)) else {}


def _id(line: str) -> str:
    """Of the key in a line; empty: there is none."""
    words = line.split()
    return words[0] if words and not words[0].startswith("#") else ""


def _place(lines: list[str], name: str) -> int:
    return next(at for at, line in enumerate(lines) if _id(line) == name)


def _known_place(lines: list[str], name: str, path: Path) -> int:
    known = _keys(lines, path)
    if name not in known:
        raise BadParametersError(f"has no key {name!r}; there are: {', '.join(known)}", to=str(path), remedy=AGAIN)
    return _place(lines, name)


def _free(known: dict[str, bytes]) -> str:
    """k1, k2, …: behind the greatest of them, so that the id of one that was removed does not come back at once."""
    numbers = [int(name[1:]) for name in known if name[:1] == "k" and name[1:].isdecimal()]
    return f"k{max(numbers, default=0) + 1}"
