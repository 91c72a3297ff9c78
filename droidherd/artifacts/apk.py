"""What an APK says about itself. Read from its binary manifest, so that nobody has to tell us what a file holds."""

import re
import struct
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from droidherd.domain.errors import FinalError
from droidherd.domain.zipfiles import UNREADABLE, open_zip, read_member
from droidherd.files.regular import open_regular

MANIFEST = "AndroidManifest.xml"
MANIFEST_LIMIT_BYTES = 4 << 20
STRINGS_LIMIT = 100_000
STRING_LIMIT_BYTES = 4_096
"""Of one text: many may point to the same place, and 100,000 times 32 kB would be gigabytes."""
ATTRIBUTES_LIMIT = 100
PACKAGE = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)+")

XML, STRING_POOL, RESOURCE_MAP, START_ELEMENT = 0x0003, 0x0001, 0x0180, 0x0102
UTF8 = 1 << 8
NOTHING = 0xFFFF_FFFF
TYPE_STRING, TYPE_DECIMAL, TYPE_HEXADECIMAL = 0x03, 0x10, 0x11
VERSION_CODE, VERSION_NAME, VERSION_CODE_MAJOR = 0x0101_021B, 0x0101_021C, 0x0101_0576
CHUNK = struct.Struct("<HHI")
POOL = struct.Struct("<IIIII")
ELEMENT = struct.Struct("<IIHHHHHH")
ATTRIBUTE = struct.Struct("<IIIHBBI")


class BadApkError(FinalError):
    """The file is no APK, or not one that can be installed by itself."""


@dataclass(frozen=True, slots=True)
class Apk:
    package: str
    version_code: int
    version_name: str = ""
    """Empty when it is a reference to a resource."""


def read_apk(file: Path | BinaryIO) -> Apk:
    """Package and version. BadApkError says why not."""
    try:
        with (
            open_regular(file) if isinstance(file, Path) else nullcontext(file) as opened,
            open_zip(opened) as archive,
        ):
            content = read_member(archive, MANIFEST, MANIFEST_LIMIT_BYTES)
        facts = _root_element(content)
    except UNREADABLE as error:
        raise BadApkError(f"is not an APK: {error}", to=_name(file)) from error
    if "split" in facts:
        raise BadApkError("is only a part of an app", to=_name(file), remedy="install a whole, universal APK")
    package = str(facts.get("package", ""))
    if not PACKAGE.fullmatch(package):
        raise BadApkError("its manifest names no package", to=_name(file))
    code = _number(facts.get(VERSION_CODE_MAJOR)) << 32 | _number(facts.get(VERSION_CODE))
    name = facts.get(VERSION_NAME, "")
    return Apk(package, code, name if isinstance(name, str) else "")


class StringPool:
    """The texts of a manifest, each read when it is asked for: a file needs a handful of its thousands."""

    def __init__(self, chunk: bytes) -> None:
        """The pool's chunk as it stands in the file."""
        count, _, flags, self._start, _ = POOL.unpack_from(chunk, CHUNK.size)
        if count > STRINGS_LIMIT:
            raise ValueError("its manifest holds too many texts")
        self._offsets = struct.unpack_from(f"<{count}I", chunk, CHUNK.size + POOL.size)
        self._chunk = chunk
        self._read = _utf8 if flags & UTF8 else _utf16

    def __getitem__(self, number: int) -> str:
        return self._read(self._chunk, self._start + self._offsets[number])


def _root_element(content: bytes) -> dict[str | int, str | int]:
    """The attributes of the first element, by resource id where they have one, else by name."""
    kind, at, end = CHUNK.unpack_from(content)
    if kind != XML:
        raise ValueError("its manifest is not in Android's binary form")
    strings: StringPool | None = None
    ids: tuple[int, ...] = ()
    while at < min(end, len(content)):
        kind, head, size = CHUNK.unpack_from(content, at)
        chunk = content[at : at + size]
        if not CHUNK.size <= head <= size == len(chunk):
            raise ValueError("its manifest is broken")
        if kind == STRING_POOL:
            strings = StringPool(chunk)
        elif kind == RESOURCE_MAP:
            ids = struct.unpack_from(f"<{min((size - head) // 4, STRINGS_LIMIT)}I", chunk, head)
        elif kind == START_ELEMENT and strings is not None:
            return _attributes(chunk, head, strings, ids)
        at += size
    raise ValueError("its manifest is empty")


def _attributes(chunk: bytes, head: int, strings: StringPool, ids: tuple[int, ...]) -> dict[str | int, str | int]:
    _, name, first, width, count, *_ = ELEMENT.unpack_from(chunk, head)
    if count > ATTRIBUTES_LIMIT:
        raise ValueError(f"its manifest begins with {count} attributes")
    if strings[name] != "manifest":
        raise ValueError(f"its manifest begins with <{strings[name][:40]}>")
    found: dict[str | int, str | int] = {}
    for number in range(count):
        _, name, raw, _, _, kind, data = ATTRIBUTE.unpack_from(chunk, head + first + number * width)
        key = ids[name] if name < len(ids) and ids[name] else strings[name]
        if kind == TYPE_STRING:
            found[key] = strings[data if data != NOTHING else raw]
        elif kind in {TYPE_DECIMAL, TYPE_HEXADECIMAL}:
            found[key] = data
    return found


def _utf8(chunk: bytes, at: int) -> str:
    """Two lengths, in characters and in bytes; each of one byte, or of two when its first bit is set."""
    at += 2 if chunk[at] & 0x80 else 1
    size, at = chunk[at], at + 1
    if size & 0x80:
        size, at = (size & 0x7F) << 8 | chunk[at], at + 1
    return _piece(chunk, at, size).decode("utf-8", "replace")


def _utf16(chunk: bytes, at: int) -> str:
    (size,) = struct.unpack_from("<H", chunk, at)
    at += 2
    if size & 0x8000:
        (low,) = struct.unpack_from("<H", chunk, at)
        size, at = (size & 0x7FFF) << 16 | low, at + 2
    return _piece(chunk, at, 2 * size).decode("utf-16-le", "replace")


def _piece(chunk: bytes, at: int, size: int) -> bytes:
    if size > STRING_LIMIT_BYTES:
        raise ValueError(f"its manifest names something with a text of {size} bytes")
    return chunk[at : at + size]


def _number(value: str | int | None) -> int:
    return value if isinstance(value, int) else 0


def _name(file: Path | BinaryIO) -> str:
    return file.name if isinstance(file, Path) else "APK"
