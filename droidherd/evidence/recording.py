"""A recorded run as a folder: `run.jsonl`, a line for each look and each act, and the frames beside it.

A run of one's own keeps its frames as PNG. What a task leaves is the same folder in one file, of one stage, or of the
end of one: `Part`. Its frames are copies that lost detail, so what was searched on them stands beside them, with what
became of it.
"""

import io
import json
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path

import cv2
from pydantic import JsonValue
from typing_extensions import override

from droidherd.domain.errors import BadParametersError
from droidherd.domain.ports import Box, Frame, Match, Recalled
from droidherd.domain.zipfiles import UNREADABLE, open_zip
from droidherd.files.regular import open_regular
from droidherd.vision.pixels import UndecodableError, decode_image, encode_png

FILE = "run.jsonl"
FORMAT = 1
RUN_MAX = 16 << 20
"""Bytes of `run.jsonl`: as values they take twenty times as much."""
FRAMES_MAX = 1_000
LINES_MAX = 100_000
COMPLETED = "completed"
"""The end of a run that did."""
COPY = ".jpg"
"""How the name of a frame ends that lost detail."""
PACKED = ".run.zip"
"""How the name of a recording ends that a task leaves."""
PACKED_MAX = 64 << 20
"""Bytes of such a file, unpacked, and of any file in a recording."""
PACKED_AS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
SearchResults = Mapping[str, Match]
"""What was searched for, and what was found."""


@dataclass(frozen=True, slots=True)
class RecordedAct:
    """What was done to the emulator."""

    kind: str
    args: Mapping[str, JsonValue]
    step: str = ""
    """Where in the flow: `collect 2`."""

    def __str__(self) -> str:
        """For people: `tap 640, 306`."""
        return f"{self.kind} {', '.join(str(value) for value in self.args.values())}".strip()


@dataclass(frozen=True, slots=True)
class RecordedLook:
    """What was seen."""

    frame: str
    """The name of its file."""
    searched: SearchResults = field(default_factory=dict, hash=False)
    """On a copy that lost detail: what was found on the frame itself."""

    @property
    def is_copy(self) -> bool:
        return self.frame.endswith(COPY)


@dataclass(frozen=True, slots=True)
class RecordedTree:
    """The elements of the screen that was seen last, as `uiautomator dump` writes them."""

    file: str


Moment = RecordedLook | RecordedTree | RecordedAct


@dataclass(frozen=True, slots=True)
class RecordedPart:
    """What a recording needs to begin in the middle of a run: one stage, behind what it had done before."""

    stage: str
    behind: Mapping[str, Recalled] = field(default_factory=dict)
    """By effect; empty: it begins with the stage."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """What was read off the screen before."""
    confirmed: Mapping[str, bool] = field(default_factory=dict)
    """What people said about acts whose outcome nobody knew."""
    lease: int = 0
    rounds: int = 0
    missing: int = 0
    """So many looks have no frame here."""
    refused: str = ""
    """Why it cannot be replayed."""

    @property
    def where(self) -> str:
        """For people."""
        done = [effect for effect in self.behind if effect[:1].isdecimal()]
        return f"{self.stage}, behind step {done[-1]}" if done else self.stage

    def line(self) -> dict[str, JsonValue]:
        return {
            "part": self.stage,
            "behind": {effect: str(state) for effect, state in self.behind.items()},
            "marks": dict(self.marks),
            "confirmed": dict(self.confirmed),
            "lease": self.lease,
            "rounds": self.rounds,
            "missing": self.missing,
            "refused": self.refused,
        }


@dataclass(frozen=True, slots=True)
class Recording:
    """A run that was read."""

    folder: Traversable
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
    part: RecordedPart | None = None
    """None: it is of the whole run."""

    def acts(self) -> tuple[RecordedAct, ...]:
        return tuple(moment for moment in self.moments if isinstance(moment, RecordedAct))

    def frame(self, name: str) -> Frame:
        return read_frame(self.folder / name)

    def tree(self, name: str) -> str:
        return _content(self.folder / name).decode("utf-8", "replace")


def read(place: Path) -> Recording:
    """A folder, one in a file, or the last one that a task left in its folder.

    BadParametersError says which line makes no sense.
    """
    folder = _unpack(place)
    try:
        lines = _content(folder / FILE, RUN_MAX).decode().split("\n", LINES_MAX)
    except (BadParametersError, UnicodeDecodeError) as error:
        remedy = "name the folder that `droidherd flow run` or `record` wrote, or that of a task's artifacts"
        raise BadParametersError(f"is no recorded run: {error}", to=str(place), remedy=remedy) from error
    moments: list[Moment] = []
    head: dict[str, JsonValue] = {}
    answers: dict[str, str] = {}
    own: dict[str, JsonValue] = {}
    end = ""
    part: RecordedPart | None = None
    for number, line in enumerate(_parse_lines(str(place), lines), start=1):
        if "run" in line:
            head = line
        elif "part" in line:
            part = _part(line)
        elif "look" in line:
            moments.append(
                RecordedLook(_inside(str(place), number, line["look"]), _search_results(line.get("searched")))
            )
        elif "tree" in line:
            moments.append(RecordedTree(_inside(str(place), number, line["tree"])))
        elif "act" in line:
            args = {name: value for name, value in line.items() if name not in {"act", "step"}}
            moments.append(RecordedAct(str(line["act"]), args, str(line.get("step", ""))))
        elif "account" in line:
            own["account"] = line["account"]
        elif "answer" in line:
            answers[str(line.get("step", ""))] = str(line["answer"])
        else:
            end = str(line.get("end", ""))
    params = head.get("params")
    return Recording(
        folder=folder,
        flow=str(head.get("flow", "")),
        params={**(params if isinstance(params, dict) else {}), **own},
        moments=tuple(moments),
        by_person=head.get("by_person") is True,
        end=end,
        flow_hash=str(head.get("hash", "")),
        answers=answers,
        part=part,
    )


def _unpack(place: Path) -> Traversable:
    if place.is_dir() and not (place / FILE).exists():
        place = max(place.glob(f"*{PACKED}"), key=_in_order, default=place)
    if not place.is_file():
        return place
    try:
        with open_regular(place) as file:
            content = file.read(PACKED_MAX + 1)
        packed = open_zip(io.BytesIO(content))
        packed.filename = str(place)  # errors name the recording by it
    except (*UNREADABLE, OSError) as error:
        raise BadParametersError(f"is no recorded run: {error}", to=str(place)) from error
    entries = packed.infolist()
    if len(content) > PACKED_MAX or sum(one.file_size for one in entries) > PACKED_MAX:
        raise BadParametersError(f"holds more than {PACKED_MAX} bytes", to=str(place))
    if any("/" in one.filename or one.compress_type not in PACKED_AS for one in entries):
        raise BadParametersError("holds what no recording holds: folders, or files packed in other ways", to=str(place))
    return zipfile.Path(packed)


def _content(path: Traversable, limit_bytes: int = PACKED_MAX) -> bytes:
    """Of a file in a recording. BadParametersError says why not."""
    try:
        with open_regular(path) if isinstance(path, Path) else path.open("rb") as file:
            content = file.read(limit_bytes + 1)
    except (*UNREADABLE, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not there, or broken"
        raise BadParametersError(f"cannot be read: {why}", to=path.name) from error
    if len(content) > limit_bytes:
        raise BadParametersError(f"has more than {limit_bytes} bytes", to=path.name)
    return content


def _in_order(path: Path) -> tuple[tuple[int, ...], str]:
    """Attempt, stage and try, as they stand before the name of a stage."""
    numbers = path.name.split("-", 3)[:3]
    return tuple(int(one) if one.isdecimal() else 0 for one in numbers), path.name


def _part(line: Mapping[str, JsonValue]) -> RecordedPart:
    def mapping(name: str) -> Mapping[str, JsonValue]:
        value = line.get(name)
        return value if isinstance(value, dict) else {}

    def number(name: str) -> int:
        value = line.get(name)
        return value if isinstance(value, int) else 0

    known = {str(state): state for state in Recalled}
    return RecordedPart(
        stage=str(line["part"]),
        behind={effect: known[str(state)] for effect, state in mapping("behind").items() if str(state) in known},
        marks={effect: str(value) for effect, value in mapping("marks").items()},
        confirmed={effect: value is True for effect, value in mapping("confirmed").items()},
        lease=number("lease"),
        rounds=number("rounds"),
        missing=number("missing"),
        refused=str(line.get("refused", "")),
    )


def _search_results(lines: JsonValue) -> SearchResults:
    """What makes no sense is passed over: it is judged anew."""
    found: dict[str, Match] = {}
    for one in lines if isinstance(lines, list) else ():
        if isinstance(one, dict) and (box := _box(one.get("at"))):
            score, runner_up = (_number(one.get(name)) for name in ("score", "next"))
            found[str(one.get("what", ""))] = Match(
                one.get("found") is True, box, score, runner_up, _box(one.get("differs")), text=str(one.get("text", ""))
            )
    return found


def _box(value: JsonValue) -> Box | None:
    sides: Sequence[int] = [one for one in value if isinstance(one, int)] if isinstance(value, list) else ()
    return Box(*sides) if len(sides) == 4 else None  # noqa: PLR2004 - x, y, width, height


def _number(value: JsonValue) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _parse_lines(path: str, lines: list[str]) -> Iterator[dict[str, JsonValue]]:
    if len(lines) > LINES_MAX:
        raise BadParametersError(f"has more than {LINES_MAX} lines", to=path)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadParametersError(f"line {number} is not JSON", to=path) from error
        if not isinstance(value, dict):
            raise BadParametersError(f"line {number} is not a mapping", to=path)
        yield value


def _inside(path: str, number: int, name: JsonValue) -> str:
    """A recording may come from somebody else."""
    if not isinstance(name, str) or Path(name).name != name:
        raise BadParametersError(f"line {number} names a file outside the folder", to=path)
    return name


def read_frame(path: Traversable) -> Frame:
    """A PNG or JPEG file as a frame."""
    try:
        picture = decode_image(_content(path))
    except UndecodableError as error:
        raise BadParametersError(f"is no picture: {error}", to=str(path)) from error
    rgba = cv2.cvtColor(picture, cv2.COLOR_BGR2RGBA)
    return Frame(rgba.shape[1], rgba.shape[0], rgba.tobytes(), 0.0)


# --- writing -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class RecordingWriter:
    """Writes a recording. Every line is on the disk before the next thing happens."""

    folder: Path
    where: str = ""
    """The step that is at work."""
    muted: int = 0
    """Above zero nothing is written: a handler is at work."""
    masked: Callable[[str], str] = str
    """Takes secrets out of what was typed, and of elements that show it."""
    _frames: int = 0
    _lines: int = 0
    _names: dict[int, str] = field(default_factory=dict)
    _trees: dict[str, str] = field(default_factory=dict)

    def masking(self, masked: Callable[[str], str]) -> "RecordingWriter":
        """The same one, for an attempt whose secrets `masked` knows."""
        self.masked = masked
        return self

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

    def copy(self, jpeg: bytes, searched: SearchResults) -> None:
        """A frame of which there is only this, and what was found on it when it was whole."""
        checksum = zlib.crc32(jpeg)
        name = self._names.get(checksum) or self._picture(checksum, COPY, lambda: jpeg)
        if name:
            self._line({"look": name, "searched": [_result_line(what, match) for what, match in searched.items()]})

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
        dump = self.masked(dump)
        name = self._trees.get(dump)
        if name is None and len(self._trees) < FRAMES_MAX:
            name = self._trees[dump] = f"{len(self._trees) + 1:04d}.xml"
            self._write(name, dump.encode())
        if name is not None:
            self._line({"tree": name})

    def act(self, kind: str, effect: str = "", /, **args: JsonValue) -> None:  # noqa: ARG002 - the port's shape
        if not self.muted:
            if kind == "type":
                args["text"] = self.masked(str(args["text"]))
            self._line({"act": kind, **args, "step": self.where})

    def acts_for(self, account: str) -> None:
        """What was typed is the account that the flow acts for."""
        self._line({"account": account})

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
class PackedRecordingWriter(RecordingWriter):
    """Writes the same folder into one file, in memory: whoever keeps it has one thing to keep."""

    folder: Path = Path()
    _text: list[str] = field(default_factory=list)
    _files: dict[str, bytes] = field(default_factory=dict)

    @override
    def begin(
        self, flow: str, params: Mapping[str, JsonValue], flow_hash: str = "", *, by_person: bool = False
    ) -> None:
        self._line({"run": FORMAT, "flow": flow, "hash": flow_hash, "params": dict(params), "by_person": by_person})

    def part(self, part: RecordedPart) -> None:
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


def _result_line(what: str, match: Match) -> dict[str, JsonValue]:
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
