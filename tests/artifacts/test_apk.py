"""What an APK says about itself, and what is refused."""

import contextlib
import io
import struct
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from droidherd.artifacts import apk
from droidherd.artifacts.apk import Apk, BadApkError, read_apk
from droidherd.virtual.tinyapk import tiny_apk

REFERENCE = 0x01
NAME = "com.example.u"


def zipped(manifest: bytes, name: str = apk.MANIFEST) -> io.BytesIO:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, manifest)
    return content


def chunk(kind: int, head: int, body: bytes) -> bytes:
    return apk.CHUNK.pack(kind, head, apk.CHUNK.size + len(body)) + body


def utf8_manifest(
    attributes: list[tuple[int, int, int]], root: str = "manifest", package: str = "com.example.u"
) -> bytes:
    """A manifest as today's build tools write it: texts in UTF-8; `attributes` are (name, type, data)."""
    texts = ["versionCode", "versionName", "versionCodeMajor", "package", "split", root, package, "2.5-ß", "x" * 200]
    encoded = b""
    offsets: list[int] = []
    for text in texts:
        offsets.append(len(encoded))
        raw = text.encode()
        sizes = b"".join(
            bytes([size]) if size < 0x80 else bytes([0x80 | size >> 8, size & 0xFF]) for size in (len(text), len(raw))
        )
        encoded += sizes + raw + b"\0"
    head = apk.CHUNK.size + apk.POOL.size
    table = struct.pack(f"<{len(offsets)}I", *offsets)
    pool = apk.POOL.pack(len(texts), 0, apk.UTF8, head + len(table), 0) + table + encoded
    ids = struct.pack("<III", apk.VERSION_CODE, apk.VERSION_NAME, apk.VERSION_CODE_MAJOR)
    element = apk.ELEMENT.pack(
        apk.NOTHING, 5, apk.ELEMENT.size, apk.ATTRIBUTE.size, len(attributes), 0, 0, 0
    ) + b"".join(
        apk.ATTRIBUTE.pack(apk.NOTHING, name, apk.NOTHING, 8, 0, kind, data) for name, kind, data in attributes
    )
    start = chunk(apk.START_ELEMENT, 16, struct.pack("<II", 1, apk.NOTHING) + element)
    return chunk(apk.XML, 8, chunk(apk.STRING_POOL, head, pool) + chunk(apk.RESOURCE_MAP, 8, ids) + start)


PACKAGE = (3, apk.TYPE_STRING, 6)


def test_a_tiny_apk_is_read_as_it_was_made() -> None:
    apk = io.BytesIO(tiny_apk("com.example.tiny", 42, "4.2-beta ü", b"x" * 1000))
    assert Apk("com.example.tiny", 42, "4.2-beta ü") == read_apk(apk)


def test_the_same_tiny_apk_is_the_same_bytes() -> None:
    assert tiny_apk("a.b", 1) == tiny_apk("a.b", 1) != tiny_apk("a.b", 1, payload=b"x")


def test_a_manifest_in_utf8_with_a_large_version_is_read() -> None:
    facts = [(0, apk.TYPE_HEXADECIMAL, 7), (1, apk.TYPE_STRING, 7), (2, apk.TYPE_DECIMAL, 2), PACKAGE]
    assert Apk("com.example.u", (2 << 32) + 7, "2.5-ß") == read_apk(zipped(utf8_manifest(facts)))


def test_a_version_name_that_is_a_resource_is_not_known() -> None:
    assert Apk("com.example.u", 0, "") == read_apk(zipped(utf8_manifest([(1, REFERENCE, 0x7F01_0001), PACKAGE])))


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (io.BytesIO(b""), "not a zip file"),
        (io.BytesIO(b"<html>404</html>"), "not a zip file"),
        (zipped(b"x", "classes.dex"), "no item named 'AndroidManifest.xml'"),
        (zipped(b'<manifest package="a.b"/>'), "binary form"),
        (zipped(utf8_manifest([PACKAGE], root="application")), "begins with <application>"),
        (zipped(utf8_manifest([])), "names no package"),
        (zipped(utf8_manifest([PACKAGE], package="nodots")), "names no package"),
        (zipped(utf8_manifest([PACKAGE, (4, apk.TYPE_STRING, 7)])), "only a part of an app"),
        (zipped(chunk(apk.XML, 8, b"")), "is empty"),
        (zipped(utf8_manifest([PACKAGE])[:-3]), "broken"),
        (zipped(bytes(5 << 20)), "larger than"),
    ],
)
def test_what_cannot_be_installed_by_itself_is_refused_with_a_reason(file: io.BytesIO, why: str) -> None:
    with pytest.raises(BadApkError, match=why):
        read_apk(file)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_broken_manifest_is_refused_and_nothing_else_happens(data: st.DataObject) -> None:
    whole = bytearray(utf8_manifest([PACKAGE, (0, apk.TYPE_DECIMAL, 1)]))
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadApkError):
        assert read_apk(zipped(bytes(whole))).package
