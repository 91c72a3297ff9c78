"""Writes a recording, as a folder or as one file that holds the same."""

import io
import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue
from typing_extensions import override

from droidherd.domain.ports import Box, Frame, Match, Recalled
from droidherd.tapes.recording import COPY, FILE, FORMAT, Part, Verdicts
from droidherd.vision.pixels import encode_png

FRAMES_MAX = 1_000
LINES_MAX = 100_000


@dataclass(slots=True)
class Tape:
    """Writes a recording. Every line is on the disk before the next thing happens."""

    folder: Path
    where: str = ""
    """The step that is at work."""
    muted: int = 0
    """While above nothing, nothing is written: a handler is at work."""
    _frames: int = 0
    _lines: int = 0
    _names: dict[int, str] = field(default_factory=dict)
    _trees: dict[str, str] = field(default_factory=dict)

    def begin(
        self, flow: str, params: Mapping[str, JsonValue], flow_hash: str = "", *, by_person: bool = False
    ) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / FILE).unlink(missing_ok=True)
        self._line({"run": FORMAT, "flow": flow, "hash": flow_hash, "params": dict(params), "by_person": by_person})

    def look(self, frame: Frame) -> None:
        """A frame that was seen before is kept once; more than so many are not kept at all."""
        if self.muted:
            return
        checksum = zlib.crc32(frame.rgba)
        name = self._names.get(checksum) or self._picture(checksum, ".png", lambda: encode_png(frame))
        if name:
            self._line({"look": name})

    def copy(self, jpeg: bytes, sought: Verdicts) -> None:
        """A frame of which there is only this, and what was found on it when it was whole."""
        checksum = zlib.crc32(jpeg)
        name = self._names.get(checksum) or self._picture(checksum, COPY, lambda: jpeg)
        if name:
            self._line({"look": name, "sought": [_verdict(what, match) for what, match in sought.items()]})

    def _picture(self, checksum: int, suffix: str, encode: Callable[[], bytes]) -> str:
        if self._frames >= FRAMES_MAX:
            return ""
        self._frames += 1
        name = self._names[checksum] = f"{self._frames:04d}{suffix}"
        self._write(name, encode())
        return name

    def tree(self, dump: str) -> None:
        """Kept once, as frames are."""
        if self.muted:
            return
        name = self._trees.get(dump)
        if name is None and len(self._trees) < FRAMES_MAX:
            name = self._trees[dump] = f"{len(self._trees) + 1:04d}.xml"
            self._write(name, dump.encode())
        if name is not None:
            self._line({"tree": name})

    def act(self, kind: str, effect: str = "", /, **args: JsonValue) -> None:  # noqa: ARG002 - the shape of a pad
        if not self.muted:
            self._line({"act": kind, **args, "step": self.where})

    def answer(self, step: str, choice: str) -> None:
        """What a person chose where this step of the stage at work asked."""
        self._line({"answer": choice, "step": f"{self.where.partition(' ')[0]} {step}"})

    def forget(self) -> None:
        """The last act was not meant: what was seen after it is what was seen before the next one."""
        if self.muted:
            return
        path = self.folder / FILE
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        last = max((number for number, line in enumerate(lines) if '"act":' in line), default=None)
        if last is not None:
            path.write_text("".join(lines[:last] + lines[last + 1 :]), encoding="utf-8")

    def recalled(self, recorded: Mapping[str, Recalled]) -> None:
        """It begins with the run: nothing was done before."""

    def marked(self, effect: str, value: str) -> None:
        """It is read again."""

    def broke_off(self, handler: str) -> None:
        """The end says so."""

    def end(self, how: str) -> None:
        self._line({"end": how})

    def _line(self, content: Mapping[str, JsonValue]) -> None:
        self._lines += 1
        if self._lines <= LINES_MAX:
            self._append(json.dumps(content, ensure_ascii=False) + "\n")

    def _write(self, name: str, content: bytes) -> None:
        (self.folder / name).write_bytes(content)

    def _append(self, line: str) -> None:
        with (self.folder / FILE).open("a", encoding="utf-8") as file:
            file.write(line)


@dataclass(slots=True)
class PackedTape(Tape):
    """Writes the same folder into one file, in memory: whoever keeps it has one thing to keep."""

    folder: Path = Path()
    _text: list[str] = field(default_factory=list)
    _files: dict[str, bytes] = field(default_factory=dict)

    @override
    def begin(
        self, flow: str, params: Mapping[str, JsonValue], flow_hash: str = "", *, by_person: bool = False
    ) -> None:
        self._line({"run": FORMAT, "flow": flow, "hash": flow_hash, "params": dict(params), "by_person": by_person})

    def part(self, part: Part) -> None:
        self._line(part.line())

    def content(self) -> bytes:
        """Pictures are small already, and in what is not compressed everything can be searched for."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as file:
            file.writestr(FILE, "".join(self._text))
            for name, content in self._files.items():
                file.writestr(name, content)
        return packed.getvalue()

    @override
    def _write(self, name: str, content: bytes) -> None:
        self._files[name] = content

    @override
    def _append(self, line: str) -> None:
        self._text.append(line)


def _verdict(what: str, match: Match) -> dict[str, JsonValue]:
    def corners(box: Box | None) -> list[JsonValue]:
        return [box.x, box.y, box.width, box.height] if box else []

    return {
        "what": what,
        "found": match.found,
        "at": corners(match.box),
        "score": round(match.score, 4),
        "next": round(match.runner_up, 4),
        "differs": corners(match.differs),
        "text": match.text,
    }
