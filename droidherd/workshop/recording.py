"""A recorded run as a folder: `run.jsonl`, a line for each look and each act, and the frames as PNG beside it."""

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
from pydantic import JsonValue

from droidherd.domain.errors import BadParametersError
from droidherd.domain.ports import Frame
from droidherd.vision.pixels import encode_png

FILE = "run.jsonl"
FORMAT = 1
COMPLETED = "completed"
"""The end of a run that did."""
FRAMES_MAX = 1_000
LINES_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Act:
    """What was done to the emulator."""

    kind: str
    args: Mapping[str, JsonValue]
    step: str = ""
    """Where in the flow: `collect 2`."""

    def __str__(self) -> str:
        """For people: `tap 640, 306`."""
        return f"{self.kind} {', '.join(str(value) for value in self.args.values())}".strip()


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen."""

    frame: str
    """The name of its file."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The elements of the screen that was seen last, as `uiautomator dump` writes them."""

    file: str


Moment = Look | Tree | Act


@dataclass(frozen=True, slots=True)
class Recording:
    """A run that was read."""

    folder: Path
    flow: str
    params: Mapping[str, JsonValue]
    moments: tuple[Moment, ...]
    by_person: bool = False
    """What a person did, and no flow: it has no cleanup."""
    end: str = ""
    """`completed`, or the error it ended with; empty: it was cut off."""
    flow_hash: str = ""
    """Of the flow that was run, with its images; empty: a person was at work."""
    answers: Mapping[str, str] = field(default_factory=dict)
    """What people chose, by stage and step: `open 4`."""

    def acts(self) -> tuple[Act, ...]:
        return tuple(moment for moment in self.moments if isinstance(moment, Act))

    def frame(self, name: str) -> Frame:
        return read_frame(self.folder / name)

    def tree(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")


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
        name = self._names.get(checksum)
        if name is None and self._frames < FRAMES_MAX:
            self._frames += 1
            name = self._names[checksum] = f"{self._frames:04d}.png"
            (self.folder / name).write_bytes(encode_png(frame))
        if name is not None:
            self._line({"look": name})

    def tree(self, dump: str) -> None:
        """Kept once, as frames are."""
        if self.muted:
            return
        name = self._trees.get(dump)
        if name is None and len(self._trees) < FRAMES_MAX:
            name = self._trees[dump] = f"{len(self._trees) + 1:04d}.xml"
            (self.folder / name).write_text(dump, encoding="utf-8")
        if name is not None:
            self._line({"tree": name})

    def act(self, kind: str, **args: JsonValue) -> None:
        if not self.muted:
            self._line({"act": kind, **args, "step": self.where})

    def answer(self, step: str, choice: str) -> None:
        """What a person chose where this step of the stage at work asked."""
        self._line({"answer": choice, "step": f"{self.where.partition(' ')[0]} {step}"})

    def forget(self) -> None:
        """The last act was not meant: what was seen after it is what was seen before the next one."""
        path = self.folder / FILE
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        last = max((number for number, line in enumerate(lines) if '"act":' in line), default=None)
        if last is not None:
            path.write_text("".join(lines[:last] + lines[last + 1 :]), encoding="utf-8")

    def end(self, how: str) -> None:
        self._line({"end": how})

    def _line(self, content: Mapping[str, JsonValue]) -> None:
        self._lines += 1
        if self._lines <= LINES_MAX:
            with (self.folder / FILE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(content, ensure_ascii=False) + "\n")


def read(folder: Path) -> Recording:
    """BadParametersError says which line makes no sense."""
    path = folder / FILE
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        remedy = "name the folder that `droidherd flow run` or `record` wrote"
        raise BadParametersError(f"is no recorded run: {error.strerror}", to=str(folder), remedy=remedy) from error
    moments: list[Moment] = []
    head: dict[str, JsonValue] = {}
    answers: dict[str, str] = {}
    end = ""
    for number, line in enumerate(_parsed(path, lines), start=1):
        if "run" in line:
            head = line
        elif "look" in line:
            moments.append(Look(_inside(path, number, line["look"])))
        elif "tree" in line:
            moments.append(Tree(_inside(path, number, line["tree"])))
        elif "act" in line:
            args = {name: value for name, value in line.items() if name not in {"act", "step"}}
            moments.append(Act(str(line["act"]), args, str(line.get("step", ""))))
        elif "answer" in line:
            answers[str(line.get("step", ""))] = str(line["answer"])
        else:
            end = str(line.get("end", ""))
    params = head.get("params")
    return Recording(
        folder=folder,
        flow=str(head.get("flow", "")),
        params=params if isinstance(params, dict) else {},
        moments=tuple(moments),
        by_person=head.get("by_person") is True,
        end=end,
        flow_hash=str(head.get("hash", "")),
        answers=answers,
    )


def _parsed(path: Path, lines: list[str]) -> Iterator[dict[str, JsonValue]]:
    for number, line in enumerate(lines, start=1):
        try:
            value = json.loads(line)
        except ValueError as error:
            raise BadParametersError(f"line {number} is not JSON", to=str(path)) from error
        if not isinstance(value, dict):
            raise BadParametersError(f"line {number} is not a mapping", to=str(path))
        yield value


def _inside(path: Path, number: int, name: JsonValue) -> str:
    """A recording may come from somebody else."""
    if not isinstance(name, str) or Path(name).name != name:
        raise BadParametersError(f"line {number} names a file outside the folder", to=str(path))
    return name


def read_frame(path: Path) -> Frame:
    """A PNG file as a frame."""
    try:
        content = np.frombuffer(path.read_bytes(), np.uint8)
    except OSError as error:
        raise BadParametersError(f"cannot be read: {error.strerror}", to=str(path)) from error
    picture = cv2.imdecode(content, cv2.IMREAD_COLOR) if content.size else None
    if picture is None:
        raise BadParametersError("is no picture", to=str(path))
    rgba = cv2.cvtColor(picture, cv2.COLOR_BGR2RGBA)
    return Frame(rgba.shape[1], rgba.shape[0], rgba.tobytes(), 0.0)
