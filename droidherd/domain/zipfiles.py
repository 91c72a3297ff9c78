"""Archives that come from elsewhere, opened so that a few bytes cannot unpack to gigabytes."""

import os
import struct
import zipfile
import zlib
from typing import BinaryIO

FILES_LIMIT = 65_535
"""So many as the last record of an archive can count."""
DIRECTORY_LIMIT_BYTES = 8 << 20
"""Of the list of files: Python takes many times as much to keep it."""
_LAST_RECORD = struct.Struct("<4s4H2IH")
_COMMENT_LIMIT_BYTES = 0xFFFF
_ZIP64_BYTES = 20
_ENTRY, _ZIP64, _LAST = b"PK\x01\x02", b"PK\x06\x07", b"PK\x05\x06"

UNREADABLE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, KeyError, IndexError, ValueError, RuntimeError,
)  # fmt: skip
"""What `zipfile` and `struct` raise over a file that is something else, or broken, or encrypted."""


def open_zip(file: BinaryIO) -> zipfile.ZipFile:
    """An archive whose list of files can be kept. One of `UNREADABLE`: it cannot, or this is no archive."""
    size = file.seek(0, os.SEEK_END)
    start = file.seek(max(0, size - _LAST_RECORD.size - _COMMENT_LIMIT_BYTES - _ZIP64_BYTES))
    tail = file.read()
    at = tail.rfind(_LAST)
    if at < 0 or len(tail) - at < _LAST_RECORD.size:
        raise zipfile.BadZipFile("it is not a zip file")
    if tail[max(0, at - _ZIP64_BYTES) : at].startswith(_ZIP64):
        raise zipfile.BadZipFile("it is in the form for more than 4 GB")
    # `zipfile` reads the whole list, whatever its length, and does not believe the count beside it.
    length = int(_LAST_RECORD.unpack_from(tail, at)[5])
    if length > min(DIRECTORY_LIMIT_BYTES, start + at):
        raise zipfile.BadZipFile(f"its list of files has {length} bytes")
    file.seek(start + at - length)
    if file.read(length).count(_ENTRY) > FILES_LIMIT:
        raise zipfile.BadZipFile(f"it holds more than {FILES_LIMIT} files")
    file.seek(0)
    return zipfile.ZipFile(file)


def read_member(archive: zipfile.ZipFile, name: str, limit_bytes: int) -> bytes:
    """One file of an archive. BadZipFile: it is larger than the limit, or packed in a way that few can read."""
    entry = archive.getinfo(name)
    if entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED} or entry.header_offset < 0:
        raise zipfile.BadZipFile(f"{name} is packed in a way that is not known")
    with archive.open(entry) as member:
        content = member.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise zipfile.BadZipFile(f"{name} is larger than {limit_bytes} bytes")
    return content
