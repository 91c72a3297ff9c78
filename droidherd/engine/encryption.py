"""The keys that encrypt what droidherd keeps in Temporal: from a file or a variable, never in a log or an error.

The first key encrypts, every key decrypts.
"""

import base64
import os
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Self

from droidherd.domain import ids
from droidherd.domain.errors import BadParametersError
from droidherd.files.regular import open_regular
from droidherd.settings import Settings

KEY_BYTES = 32
KEYS_MAX = 64
FILE_MAX = 16_384
NO_SECRETS: Mapping[str, bytes] = MappingProxyType({})
_REMEDY = "each entry is an id and 32 bytes in base64, as in: k1 $(openssl rand -base64 32)"


@dataclass(frozen=True, slots=True)
class EncryptionKeys:
    """The keys of a process."""

    active: str = ""
    """The id of the key that encrypts. Empty: what is written stays plain."""
    secrets: Mapping[str, bytes] = field(default_factory=lambda: NO_SECRETS, repr=False)
    """Every key that decrypts, by id."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """From a variable or a file. Raises BadParametersError, which never holds a key."""
        group, file = settings.encryption, settings.encryption_file
        if group.keys and group.keys_file:
            raise BadParametersError("keys and keys_file are both set", to="encryption.keys", remedy="set one of them")
        if group.keys:
            found = parse(re.split(r"[,\n]", group.keys), "encryption.keys")
        elif file is not None:
            found = parse(read_private(file).splitlines(), str(file))
        else:
            return cls()
        return cls(next(iter(found)) if group.write else "", found)


def make_key_file(path: Path) -> None:
    """A file with one new key, for this user alone. One that exists stays as it is."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"k1 {base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}\n")
        file.flush()
        os.fsync(file.fileno())
    keep_name(path)


def keep_name(path: Path) -> None:
    """Have the folder of a file on the disk, too: its name was made or replaced, and must outlive a power cut."""
    if sys.platform == "win32":  # folders cannot be opened there
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_private(path: Path) -> str:
    """What stands in a file that only its owner may read. Raises BadParametersError."""
    where, remedy = str(path), f"chmod 600 {path}"
    try:
        with open_regular(path) as file:
            mode, content = os.fstat(file.fileno()).st_mode, file.read(FILE_MAX + 1)
    except OSError as error:
        raise BadParametersError(
            f"the file with encryption keys cannot be read: {error.strerror}", to=where, remedy="see docs/security.md"
        ) from None
    if sys.platform != "win32" and mode & 0o077:
        raise BadParametersError(
            f"others may read this file with keys (mode {mode & 0o777:04o})", to=where, remedy=remedy
        )
    if len(content) > FILE_MAX:
        raise BadParametersError(f"is larger than {FILE_MAX} bytes", to=where, remedy=_REMEDY)
    return content.decode("utf-8", "surrogateescape")


def parse(lines: Sequence[str], where: str) -> dict[str, bytes]:
    """Id → key, in their order. Errors name the entry by its number: its text may be a key."""
    found: dict[str, bytes] = {}
    entries = [line.split() for line in lines if line.strip() and not line.strip().startswith("#")]
    for number, words in enumerate(entries, 1):
        problem = _problem(words, found)
        if problem:
            raise BadParametersError(f"entry {number} {problem}", to=where, remedy=_REMEDY)
        found[words[0]] = base64.b64decode(words[1], validate=True)
    if not found:
        raise BadParametersError("has no key", to=where, remedy=_REMEDY)
    if len(found) > KEYS_MAX:
        raise BadParametersError(f"has more than {KEYS_MAX} keys", to=where, remedy="remove the oldest")
    return found


def _problem(words: Sequence[str], known: Mapping[str, bytes]) -> str:
    if len(words) != 2:  # noqa: PLR2004 (an id and a key)
        return "is not an id and a key, with a space between"
    if not ids.is_id(words[0]):
        return f"has no id: it {ids.RULES[ids.PATTERN]}"
    if words[0] in known:
        return "has the id of an earlier one"
    try:
        size = len(base64.b64decode(words[1], validate=True))
    except ValueError:
        return "has a key that is not base64"
    return "" if size == KEY_BYTES else f"has a key of {size} bytes"
