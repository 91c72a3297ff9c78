"""Frames as arrays, and arrays as files."""

import struct
from pathlib import Path
from typing import Any, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from droidherd.domain.errors import FlowError, InvalidFrameError
from droidherd.domain.ports import Frame
from droidherd.files.regular import IMAGE_BYTES_MAX, read_regular

Pixels: TypeAlias = NDArray[np.uint8]
OPAQUE = 250
"""What is less solid than that, of 255, does not count."""
_ALPHA = 4
SIDE_MAX, PIXELS_MAX = 16_384, 40_000_000
"""Of an image that is decoded."""
_PNG, _PNG_HEAD = b"\x89PNG\r\n\x1a\n", struct.Struct(">8sI4sII")
_PNG_CHUNK, _PNG_CHECKSUM_BYTES, _PNG_CHUNKS_MAX = struct.Struct(">I4s"), 4, 100_000
_JPEG, _MARKER = b"\xff\xd8\xff", 0xFF
_JPEG_FRAME = struct.Struct(">BHBHH")
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_SEGMENTS_MAX = 1_000
_JPEG_SCAN, _JPEG_SCANS_MAX = b"\xff\xda", 100
"""Each scan of a progressive file is one more pass over the whole picture."""

# One emulator, one thread: OpenCV's own pool would let a hundred emulators fight for the same cores.
cv2.setNumThreads(1)


def of_frame(frame: Frame) -> Pixels:
    """The frame's own memory as height x width x RGBA: nothing is copied."""
    if len(frame.rgba) != frame.width * frame.height * 4 or not frame.rgba:
        raise InvalidFrameError(f"{len(frame.rgba)} bytes are not {frame.width}x{frame.height} RGBA")
    return np.frombuffer(frame.rgba, np.uint8).reshape(frame.height, frame.width, 4)


def encode_png(frame: Frame) -> bytes:
    """The frame as a PNG file: quick rather than small, since it is made while an emulator waits."""
    picture = cv2.cvtColor(of_frame(frame), cv2.COLOR_RGBA2BGR)
    good, content = cv2.imencode(".png", picture, [cv2.IMWRITE_PNG_COMPRESSION, 1])
    if not good:
        raise InvalidFrameError("the frame could not be written as PNG")
    return content.tobytes()


def encode_jpeg(frame: Frame, quality: int = 80) -> bytes:
    """The frame as a JPEG file: for people to look at, never to find anything on."""
    picture = cv2.cvtColor(of_frame(frame), cv2.COLOR_RGBA2BGR)
    good, content = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not good:
        raise InvalidFrameError("the frame could not be written as JPEG")
    return content.tobytes()


class UndecodableError(ValueError):
    """What is wrong with the bytes of an image file."""


def image_size(content: bytes | memoryview) -> tuple[int, int]:
    """Width and height as a PNG or JPEG file announces them. UndecodableError: it is neither."""
    head = bytes(content[: _PNG_HEAD.size])
    if head.startswith(_PNG) and len(head) == _PNG_HEAD.size:
        _, _, kind, width, height = _PNG_HEAD.unpack(head)
        if kind == b"IHDR":
            return width, height
    if head.startswith(_JPEG):
        return _jpeg_size(content)
    raise UndecodableError("is not an image")


def _jpeg_size(content: bytes | memoryview) -> tuple[int, int]:
    """From the one segment that names it: sizes of JPEG stand behind whatever a camera wrote there first."""
    at = len(_JPEG) - 1
    for _ in range(_JPEG_SEGMENTS_MAX):
        if len(content) - at <= _JPEG_FRAME.size or content[at] != _MARKER:
            break
        marker, size, _, height, width = _JPEG_FRAME.unpack_from(content, at + 1)
        if marker in _JPEG_FRAMES:
            return width, height
        at += 2 + size
    raise UndecodableError("cannot be decoded: a JPEG without a size")


def _check_png_chunks(content: bytes | memoryview) -> None:
    """OpenCV makes room for as many bytes as a chunk announces, and for each picture of an animation."""
    at = len(_PNG)
    for _ in range(_PNG_CHUNKS_MAX):
        if len(content) - at < _PNG_CHUNK.size:
            return
        size, kind = _PNG_CHUNK.unpack_from(content, at)
        if kind == b"IEND":
            return
        if kind == b"acTL":
            raise UndecodableError("is an animation: a still picture is needed")
        at += _PNG_CHUNK.size + size + _PNG_CHECKSUM_BYTES
        if at > len(content):
            raise UndecodableError("cannot be decoded: a PNG that ends in the middle")
    raise UndecodableError(f"cannot be decoded: a PNG of more than {_PNG_CHUNKS_MAX} chunks")


def decode_image(content: bytes | memoryview, how: int = cv2.IMREAD_COLOR) -> NDArray[Any]:
    """A PNG or JPEG file as OpenCV reads it, if it is no larger than a screen. UndecodableError: why not.

    OpenCV itself reads a dozen formats, and makes room for a thousand million pixels that a few bytes announce.
    """
    width, height = image_size(content)
    if not (0 < width <= SIDE_MAX and 0 < height <= SIDE_MAX and width * height <= PIXELS_MAX):
        raise UndecodableError(f"cannot be decoded: {width}x{height} pixels are not the size of a screen")
    if bytes(content[: len(_PNG)]) == _PNG:
        _check_png_chunks(content)
    elif bytes(content).count(_JPEG_SCAN) > _JPEG_SCANS_MAX:
        raise UndecodableError(f"cannot be decoded: a JPEG of more than {_JPEG_SCANS_MAX} scans")
    try:
        picture: Any = cv2.imdecode(np.frombuffer(content, np.uint8), how)
    except cv2.error as error:
        raise UndecodableError(f"cannot be decoded: {error.err}") from error
    if picture is None:
        raise UndecodableError("is not an image")
    return picture


def decode_png(content: memoryview) -> tuple[int, int, memoryview]:
    """Width, height and RGBA rows of a PNG file."""
    try:
        picture = decode_image(content)
    except UndecodableError as error:
        raise InvalidFrameError(f"a PNG that cannot be decoded: it {error}") from error
    rgba = np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGBA), np.uint8)
    return rgba.shape[1], rgba.shape[0], rgba.data.cast("B")


def difference(one: Frame, other: Frame) -> float:
    """Mean difference of two frames of one size, in levels per channel; colours only."""
    a, b = (cv2.cvtColor(of_frame(frame), cv2.COLOR_RGBA2RGB) for frame in (one, other))
    return float(cv2.norm(a, b, cv2.NORM_L1)) / a.size


def read_image(path: Path) -> tuple[Pixels, Pixels | None]:
    """An image file as height x width x RGB, and its mask where it has transparent pixels."""
    try:
        picture: Any = decode_image(read_regular(path, IMAGE_BYTES_MAX), cv2.IMREAD_UNCHANGED)
    except OSError as error:
        raise FlowError(f"cannot be read: {error.strerror}", to=path.name) from error
    except UndecodableError as error:
        raise FlowError(str(error), to=path.name, remedy="save it as PNG") from error
    if picture.dtype != np.uint8:
        raise FlowError("has more than 8 bits a channel", to=path.name, remedy="save it as an ordinary PNG")
    if picture.ndim == 2:  # noqa: PLR2004 - rows and columns only: no channels
        return np.asarray(cv2.cvtColor(picture, cv2.COLOR_GRAY2RGB), np.uint8), None
    if picture.shape[2] < _ALPHA:
        return np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), np.uint8), None
    mask = np.ascontiguousarray(picture[:, :, 3])
    rgb = np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGRA2RGB), np.uint8)
    return rgb, None if int(mask.min()) > OPAQUE else mask


def halve(grey: Pixels) -> Pixels:
    """Half as wide and high; an odd last row or column is left out."""
    size = (max(1, grey.shape[1] // 2), max(1, grey.shape[0] // 2))
    whole = grey[: size[1] * 2, : size[0] * 2]
    return np.asarray(cv2.resize(whole, size, interpolation=cv2.INTER_AREA), np.uint8)


def strongest(picture: Pixels) -> Pixels:
    """The largest of the three channels, pixel by pixel."""
    red, green, blue = cv2.split(picture)
    return np.asarray(cv2.max(cv2.max(red, green), blue), np.uint8)
