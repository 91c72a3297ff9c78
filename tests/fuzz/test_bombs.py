"""A few bytes that stand for gigabytes, or for minutes, are refused or read at no more than their own cost."""

import base64
import gzip
import io
import json
import struct
import zipfile
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from activities.errors import translate, unclassified
from droidherd.adb import parse
from droidherd.adb.picture import RawPicture
from droidherd.adb.wire import WireError
from droidherd.artifacts import apk
from droidherd.artifacts.apk import Apk, BadApkError, read_apk
from droidherd.domain import columns
from droidherd.domain.dispatch.state import DispatcherState
from droidherd.domain.errors import BadParametersError, CommandFailedError, FlowError, InfrastructureError
from droidherd.evidence import recording
from droidherd.testing import replay
from droidherd.virtual.tinyapk import tiny_apk
from droidherd.vision import tree
from droidherd.vision.pixels import UndecodableError, decode_image, read_image
from tests.fuzz import driver
from tests.fuzz.parsers import Parser, frames_of, wired

MEMORY_BYTES = 100 << 20


def costs_little(read: object) -> None:
    """Within three seconds of processor time and so much memory, whatever it says."""
    assert callable(read)
    outcome = driver.Outcome("bomb")
    with driver.limits(MEMORY_BYTES):
        driver.feed(Parser("bomb", lambda _: read(), list, (Exception,)), b"", outcome)
    assert [] == [str(one) for one in outcome.findings]


def test_the_limit_is_one():
    with pytest.raises(AssertionError, match="MemoryError"):
        costs_little(lambda: _no_answer(bytearray(MEMORY_BYTES * 2)))


def _no_answer(_: bytearray) -> None:
    raise AssertionError


def refused_cheaply(read: object, error: type[Exception], match: str = ".") -> None:
    costs_little(read)
    assert callable(read)
    with pytest.raises(error, match=match):
        read()


# --- archives --------------------------------------------------------------------------------------------------------


def packed(manifest: bytes, how: int = zipfile.ZIP_DEFLATED) -> io.BytesIO:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", how) as archive:
        archive.writestr(apk.MANIFEST, manifest)
    return content


def pool_of_one_text(count: int, size: int) -> bytes:
    """So many texts, all of them the same one."""
    head = apk.CHUNK.size + apk.POOL.size
    table = bytes(4 * count)
    text = struct.pack("<H", size) + b"a\0" * size
    body = apk.POOL.pack(count, 0, 0, head + len(table), 0) + table + text
    return apk.CHUNK.pack(apk.STRING_POOL, head, apk.CHUNK.size + len(body)) + body


def test_an_apk_whose_texts_all_point_to_one_long_text_costs_little():
    inside = pool_of_one_text(100_000, 0x7FFF)
    bomb = packed(apk.CHUNK.pack(apk.XML, apk.CHUNK.size, apk.CHUNK.size + len(inside)) + inside)
    assert len(bomb.getvalue()) < 1_500
    refused_cheaply(lambda: read_apk(bomb), BadApkError)


def test_a_manifest_that_unpacks_to_gigabytes_is_not_unpacked():
    bomb = packed(bytes(300 << 20))
    refused_cheaply(lambda: read_apk(bomb), BadApkError, "larger than")


def test_a_manifest_packed_as_no_android_packs_is_refused():
    refused_cheaply(lambda: read_apk(packed(b"x" * 100, zipfile.ZIP_LZMA)), BadApkError, "packed in a way")


def test_an_archive_with_a_list_of_a_million_files_is_refused():
    entry = struct.pack("<4s6H3I5H2I", b"PK\x01\x02", *[0] * 16)
    many = entry * 70_000
    last = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, len(many), 0, 0)
    refused_cheaply(lambda: read_apk(io.BytesIO(many + last)), BadApkError, "more than 65535 files")
    long = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, 900 << 20, 0, 0)
    refused_cheaply(lambda: read_apk(io.BytesIO(many + long)), BadApkError, "list of files")


def test_an_ordinary_apk_is_still_read():
    assert Apk("com.example.tiny", 3, "1") == read_apk(io.BytesIO(tiny_apk("com.example.tiny", 3, "1", b"x" * 100_000)))


def test_a_recording_with_folders_below_folders_is_refused(tmp_path: Path):
    file = tmp_path / f"1{recording.PACKED}"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/" * 30_000 + "x", b"")
        archive.writestr(recording.FILE, b"{}")
    refused_cheaply(lambda: recording.read(file), BadParametersError, "no recording holds")


@pytest.mark.parametrize("line", [b"[" * 200_000, b'{"a":' * 100_000, b"9" * 100_000], ids=["lists", "maps", "digits"])
def test_a_recorded_line_of_any_depth_is_refused(tmp_path: Path, line: bytes):
    (tmp_path / recording.FILE).write_bytes(line)
    refused_cheaply(lambda: recording.read(tmp_path), BadParametersError, "is not JSON")


def test_a_recorded_run_beyond_its_size_is_not_read(tmp_path: Path):
    with (tmp_path / recording.FILE).open("wb") as file:
        file.truncate(10 << 30)
    refused_cheaply(lambda: recording.read(tmp_path), BadParametersError, "has more than")


def test_a_history_that_unpacks_to_gigabytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(replay, "HISTORY_MAX_BYTES", 1 << 20)
    file = tmp_path / "a.json.gz"
    file.write_bytes(gzip.compress(bytes(200 << 20), 1))
    refused_cheaply(lambda: replay.read(file), replay.UnreadableHistoryError, "more than")


def test_a_snapshot_that_unpacks_to_gigabytes_is_refused():
    text = base64.b85encode(zlib.compress(bytes(400 << 20), 1)).decode()
    refused_cheaply(lambda: columns.load(text, DispatcherState), ValueError, "more than")


# --- pictures --------------------------------------------------------------------------------------------------------


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes((width + 1) * min(height, 64)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(30_000, 30_000), (16_000, 16_000), (0x7FFF_FFFF, 1), (1, 20_000)])
def test_a_picture_larger_than_a_screen_is_not_decoded(tmp_path: Path, size: tuple[int, int]):
    content = png(size[0] if size[0] < 1 << 20 else 8, size[1])
    if size[0] >= 1 << 20:
        content = content[:16] + struct.pack(">I", size[0]) + content[20:]
    refused_cheaply(lambda: decode_image(content), UndecodableError, "not the size of a screen")
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(FlowError, match="not the size of a screen"):
        read_image(tmp_path / "a.png")
    with pytest.raises(BadParametersError, match="is no picture"):
        recording.read_frame(tmp_path / "a.png")


def chunk(kind: bytes, inside: bytes, size: int | None = None) -> bytes:
    """With its checksum, and a length that may be a lie."""
    whole = len(inside) if size is None else size
    return struct.pack(">I", whole) + kind + inside + struct.pack(">I", zlib.crc32(kind + inside))


def png_of(*chunks: bytes) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 32, 24, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunks) + chunk(b"IEND", b"")


def test_a_png_whose_chunk_announces_gigabytes_costs_little():
    content = png_of(chunk(b"IDAT", zlib.compress(bytes(97 * 24)), 0xD3000000))
    refused_cheaply(lambda: decode_image(content), UndecodableError, "ends in the middle")


def test_a_png_of_a_thousand_pictures_is_refused():
    moves = [chunk(b"fcTL", struct.pack(">IIIIIHHBB", n, 32, 24, 0, 0, 1, 1, 0, 0)) for n in range(1_000)]
    still = chunk(b"IDAT", zlib.compress(bytes(97 * 24)))
    assert (24, 32, 3) == decode_image(png_of(still)).shape
    content = png_of(chunk(b"acTL", struct.pack(">II", 1_000, 0)), moves[0], still, *moves[1:])
    refused_cheaply(lambda: decode_image(content), UndecodableError, "is an animation")


def test_a_png_of_millions_of_chunks_costs_little():
    content = png_of(*[chunk(b"tEXt", b"")] * 200_000)
    refused_cheaply(lambda: decode_image(content), UndecodableError, "more than 100000 chunks")


def test_a_jpeg_of_a_thousand_passes_costs_little():
    good, encoded = cv2.imencode(".jpg", np.zeros((4_000, 4_000), np.uint8), [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])
    assert good
    plain = encoded.tobytes()
    at = plain.rindex(b"\xff\xda")
    assert (4_000, 4_000, 3) == decode_image(plain).shape
    content = plain[:at] + plain[at:-2] * 1_000 + plain[-2:]
    refused_cheaply(lambda: decode_image(content), UndecodableError, "more than 100 scans")


@pytest.mark.parametrize("head", [b"BM", b"GIF89a", b"II*\0", b"RIFF\0\0\0\0WEBP", b"P6\n9 9\n255\n", b"v/1\1"])
def test_formats_that_no_flow_uses_never_reach_their_decoders(head: bytes):
    refused_cheaply(lambda: decode_image(head + bytes(200)), UndecodableError, "is not an image")


def test_a_screen_that_is_announced_takes_memory_only_as_it_comes():
    def read() -> None:
        with wired(frames_of((1, struct.pack("<4I", 6_000, 6_000, 1, 0) + bytes(1_000)))) as wire:
            RawPicture().read(wire)

    refused_cheaply(read, WireError)
    head = struct.pack("<4I", 6_000, 6_000, 1, 0)
    whole = struct.pack("<BI", 1, 144_000_016) + head + bytes(1_000)

    def read_one_frame() -> None:
        with wired(whole) as wire:
            RawPicture().read(wire)

    refused_cheaply(read_one_frame, WireError)


# --- what Android's tools print --------------------------------------------------------------------------------------

NINES = "9" * 5_000
TABLES = (
    parse.properties, parse.settings, parse.window_size, parse.density, parse.focus, parse.resumed_activity,
    parse.uptime_s, parse.packages, parse.installed_packages, parse.storage, parse.log_lines,
)  # fmt: skip
TEXTS = {
    "lines": "\n" * 90_000,
    "one value of many lines": "a=b\n" + "\n" * 90_000,
    "slashes": "topResumedActivity=ActivityRecord{1 u0 " + "/" * 1_000_000,
    "lines of slashes": ("topResumedActivity=ActivityRecord{1 u0 a/" + "/" * 1_900 + "\n") * 500,
    "windows": "mCurrentFocus=Window{1 u0 a" * 40_000,
    "lines of windows": ("mCurrentFocus=Window{1 u0 a paused=x" * 55 + "\n") * 500,
    "spaces": "01-01 00:00:00.000 1 1 I tag" + " " * 1_000_000,
    "lines of spaces": ("01-01 00:00:00.000 1 1 I " + " x" * 1_500 + "\n") * 800,
    "digits": f" {NINES} {NINES} {NINES} 9% ",
    "numbers of a log": f"01-01 00:00:00.000 {NINES} {NINES} I a: b",
    "numbers": " 1 1 1" * 200_000,
    "equals": "package:" + "=a" * 500_000,
}


@pytest.mark.parametrize("name", TEXTS)
def test_no_table_of_android_takes_longer_than_its_text(name: str):
    for read in TABLES:
        costs_little(lambda read=read: read(TEXTS[name]))


def test_what_is_longer_than_any_answer_of_android_is_refused():
    for read in TABLES:
        refused_cheaply(
            lambda read=read: read("x" * (parse.TEXT_MAX + 1)), InfrastructureError, "more than any command"
        )
        refused_cheaply(lambda read=read: read("x\n" * (parse.LINES_MAX + 1)), InfrastructureError, "more than any")


NODE = '<node text="a" bounds="[0,0][1,1]">'
SCREENS = {
    "attributes": "<hierarchy><node " + "a='b' " * 900_000 + "/></hierarchy>",
    "names": "<hierarchy><node " + " ".join(f"a{n}='b'" for n in range(300_000)) + "/></hierarchy>",
    "depth": "<hierarchy>" + NODE * 200_000 + "</hierarchy>",
    "open tags": "<hierarchy>" + "<node " * 1_000_000,
    "open values": "<hierarchy>" + '<node a="' * 800_000,
    "blanks": "<hierarchy><node" + " " * 4_000_000,
    "entities": "<!DOCTYPE x [<!ENTITY a 'bb'>]><hierarchy>" + NODE.replace("a", "&a;" * 100) * 8_000 + "</hierarchy>",
    "characters": f'<hierarchy><node text="{"&#x41;" * 1_000_000}"/></hierarchy>',
}


@pytest.mark.parametrize("name", SCREENS)
def test_no_dump_of_elements_takes_more_than_its_text(name: str):
    costs_little(lambda: (tree.is_tree(SCREENS[name]), tree.parse(SCREENS[name])))


def test_a_dump_gives_so_many_elements_and_no_more():
    assert tree.NODES_MAX == len(tree.parse(SCREENS["depth"]))
    assert () == tree.parse(SCREENS["names"])
    assert not tree.is_tree("<hierarchy>" + "x" * tree.TREE_MAX + "</hierarchy>")


def test_an_error_that_quotes_megabytes_travels_as_a_few_lines():
    text = "x" * (30 << 20)
    error = CommandFailedError(f"it printed: {text} and went on", rc=1, to=text, remedy=text)
    error.locate("collect 1")
    failure = translate(error)
    assert len(str(failure)) < 20_000
    assert len(json.dumps([str(one) for one in failure.details])) < 30_000
    assert error.what.startswith("collect 1: it printed: x")
    assert error.what.endswith("and went on")
    assert len(str(unclassified(ValueError(text)))) < 20_000
