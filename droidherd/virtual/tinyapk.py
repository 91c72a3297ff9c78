"""Tiny APKs: files with the manifest of an app and nothing to run. Only virtual emulators install them.

The manifest is in Android's binary form, so that what reads them reads real ones, too. There is no code in them and
no signature; a real Android refuses them.
"""

import io
import struct
import zipfile

from droidherd.artifacts.apk import (
    ATTRIBUTE,
    CHUNK,
    ELEMENT,
    MANIFEST,
    NOTHING,
    POOL,
    RESOURCE_MAP,
    START_ELEMENT,
    STRING_POOL,
    TYPE_DECIMAL,
    TYPE_STRING,
    VERSION_CODE,
    VERSION_NAME,
    XML,
)

_START_NAMESPACE, _END_NAMESPACE, _END_ELEMENT = 0x0100, 0x0101, 0x0103
_ANDROID = "http://schemas.android.com/apk/res/android"
_VALUE_BYTES = 8
_LONG_AGO = (1981, 1, 1, 1, 1, 2)


def tiny_apk(package: str, version_code: int = 1, version_name: str = "1.0", payload: bytes = b"") -> bytes:
    """The same arguments give the same bytes. `payload` makes it as large, and as different, as a test wants it."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(zipfile.ZipInfo(MANIFEST, _LONG_AGO), _manifest(package, version_code, version_name))
        archive.writestr(zipfile.ZipInfo("assets/payload", _LONG_AGO), payload)
    return content.getvalue()


def _manifest(package: str, version_code: int, version_name: str) -> bytes:
    strings = ["versionCode", "versionName", "package", "manifest", "android", _ANDROID, package, version_name]
    place = {text: number for number, text in enumerate(strings)}
    android, root = place[_ANDROID], place["manifest"]
    attributes = (
        ATTRIBUTE.pack(android, 0, NOTHING, _VALUE_BYTES, 0, TYPE_DECIMAL, version_code)
        + ATTRIBUTE.pack(android, 1, 7, _VALUE_BYTES, 0, TYPE_STRING, 7)
        + ATTRIBUTE.pack(NOTHING, 2, 6, _VALUE_BYTES, 0, TYPE_STRING, 6)
    )
    start = ELEMENT.pack(NOTHING, root, ELEMENT.size, ATTRIBUTE.size, 3, 0, 0, 0) + attributes
    namespace = struct.pack("<II", place["android"], android)
    chunks = (
        _pool(strings)
        + _chunk(RESOURCE_MAP, CHUNK.size, struct.pack("<II", VERSION_CODE, VERSION_NAME))
        + _node(_START_NAMESPACE, namespace)
        + _node(START_ELEMENT, start)
        + _node(_END_ELEMENT, struct.pack("<II", NOTHING, root))
        + _node(_END_NAMESPACE, namespace)
    )
    return _chunk(XML, CHUNK.size, chunks)


def _pool(strings: list[str]) -> bytes:
    offsets, texts = b"", b""
    for text in strings:
        offsets += struct.pack("<I", len(texts))
        texts += struct.pack("<H", len(text.encode("utf-16-le")) // 2) + text.encode("utf-16-le") + b"\0\0"
    texts += bytes(-len(texts) % 4)
    head = CHUNK.size + POOL.size
    return _chunk(STRING_POOL, head, POOL.pack(len(strings), 0, 0, head + len(offsets), 0) + offsets + texts)


def _node(kind: int, body: bytes) -> bytes:
    """With the line it stands in, and no comment."""
    return _chunk(kind, CHUNK.size + 8, struct.pack("<II", 1, NOTHING) + body)


def _chunk(kind: int, head: int, body: bytes) -> bytes:
    return CHUNK.pack(kind, head, CHUNK.size + len(body)) + body
