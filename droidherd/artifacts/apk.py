"""What an APK says about itself. Read from its binary manifest, so that nobody has to tell us what a file holds."""

import re
import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from droidherd.domain.errors import FinalError

MANIFEST = "AndroidManifest.xml"
MANIFEST_LIMIT_BYTES = 4 << 20
STRINGS_LIMIT = 100_000
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

_UNREADABLE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, KeyError, IndexError, ValueError, RuntimeError,
)  # fmt: skip
"""What `zipfile` and `struct` raise over a file that is something else, or broken, or encrypted."""


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
        with zipfile.ZipFile(file) as archive, archive.open(MANIFEST) as manifest:
            content = manifest.read(MANIFEST_LIMIT_BYTES + 1)
        if len(content) > MANIFEST_LIMIT_BYTES:
            raise BadApkError(f"its manifest is larger than {MANIFEST_LIMIT_BYTES} bytes", to=_name(file))
        facts = _root_element(content)
    except _UNREADABLE as error:
        raise BadApkError(f"is not an APK: {error}", to=_name(file)) from error
    if "split" in facts:
        raise BadApkError("is only a part of an app", to=_name(file), remedy="install a whole, universal APK")
    package = str(facts.get("package", ""))
    if not PACKAGE.fullmatch(package):
        raise BadApkError("its manifest names no package", to=_name(file))
    code = _number(facts.get(VERSION_CODE_MAJOR)) << 32 | _number(facts.get(VERSION_CODE))
    name = facts.get(VERSION_NAME, "")
    return Apk(package, code, name if isinstance(name, str) else "")


def _root_element(content: bytes) -> dict[str | int, str | int]:
    """The attributes of the first element, by resource id where they have one, else by name."""
    kind, at, end = CHUNK.unpack_from(content)
    if kind != XML:
        raise ValueError("its manifest is not in Android's binary form")
    strings: list[str] = []
    ids: tuple[int, ...] = ()
    while at < min(end, len(content)):
        kind, head, size = CHUNK.unpack_from(content, at)
        chunk = content[at : at + size]
        if not CHUNK.size <= head <= size == len(chunk):
            raise ValueError("its manifest is broken")
        if kind == STRING_POOL:
            strings = _strings(chunk)
        elif kind == RESOURCE_MAP:
            ids = struct.unpack_from(f"<{(size - head) // 4}I", chunk, head)
        elif kind == START_ELEMENT:
            return _attributes(chunk, head, strings, ids)
        at += size
    raise ValueError("its manifest is empty")


def _attributes(chunk: bytes, head: int, strings: list[str], ids: tuple[int, ...]) -> dict[str | int, str | int]:
    _, name, first, width, count, *_ = ELEMENT.unpack_from(chunk, head)
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


def _strings(chunk: bytes) -> list[str]:
    count, _, flags, start, _ = POOL.unpack_from(chunk, CHUNK.size)
    if count > STRINGS_LIMIT:
        raise ValueError("its manifest holds too many texts")
    offsets = struct.unpack_from(f"<{count}I", chunk, CHUNK.size + POOL.size)
    read = _utf8 if flags & UTF8 else _utf16
    return [read(chunk, start + offset) for offset in offsets]


def _utf8(chunk: bytes, at: int) -> str:
    """Two lengths, in characters and in bytes; each of one byte, or of two when its first bit is set."""
    at += 2 if chunk[at] & 0x80 else 1
    size, at = chunk[at], at + 1
    if size & 0x80:
        size, at = (size & 0x7F) << 8 | chunk[at], at + 1
    return chunk[at : at + size].decode("utf-8", "replace")


def _utf16(chunk: bytes, at: int) -> str:
    (size,) = struct.unpack_from("<H", chunk, at)
    at += 2
    if size & 0x8000:
        (low,) = struct.unpack_from("<H", chunk, at)
        size, at = (size & 0x7FFF) << 16 | low, at + 2
    return chunk[at : at + 2 * size].decode("utf-16-le", "replace")


def _number(value: str | int | None) -> int:
    return value if isinstance(value, int) else 0


def _name(file: Path | BinaryIO) -> str:
    return file.name if isinstance(file, Path) else "APK"
