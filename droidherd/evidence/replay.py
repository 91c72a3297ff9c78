"""Makes a recording of a trace: from where on a replay can begin, with which frames, and what it hides.

Frames are those that stand in the frame buffer anyway: the last ones of the emulator, as JPEG. So a recording mostly
begins in the middle, behind the last act from which on every act's frame is there. There a replay takes the stage up
like a try that goes on where another one ended.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pydantic import JsonValue

from droidherd.contracts.tasks import MASK
from droidherd.domain.ports import Frame, Match, Recalled
from droidherd.evidence.frame_buffer import BufferedFrame
from droidherd.evidence.recording import PackedRecordingWriter, RecordedPart
from droidherd.evidence.trace import FRAMES_BYTES, LOOKS_MAX, ActNote, LookNote, Noted, Trace, TreeNote

Masked: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class AvailableFrames:
    """The frames that are at hand: copies out of the frame buffer, and the one seen last as it was."""

    shots: Sequence[BufferedFrame]
    trace: Trace

    def copy(self, at_s: float) -> BufferedFrame | None:
        return next((shot for shot in self.shots if shot.taken_at_s <= at_s <= shot.last_at_s), None)

    def whole(self, at_s: float) -> Frame | None:
        """When the screen was the same then."""
        last = self.trace.last
        if last is None:
            return None
        copy = self.copy(last.taken_at_s)
        same = at_s == last.taken_at_s or (copy is not None and copy is self.copy(at_s))
        return last if same else None

    def size(self, at_s: float) -> int:
        """Bytes, about; 0: it is not at hand, or nobody knows any more what was found on it."""
        if self.whole(at_s) is not None:
            return 1
        searches = self.trace.searches
        known = len(searches) < LOOKS_MAX or searches[0].at_s < at_s
        copy = self.copy(at_s)
        return len(copy.content) if copy is not None and known else 0

    def results_at(self, at_s: float) -> dict[str, Match]:
        """What was searched on a frame. What was found here and not there under one name tells nothing."""
        here = [(one.what, one.match) for one in self.trace.searches if one.at_s == at_s]
        return {what: match for what, match in here if all(other == match for name, other in here if name == what)}


def pack(frames: AvailableFrames, part: RecordedPart, writer: PackedRecordingWriter, masked: Masked) -> None:
    """Write down what can be replayed, from where on it can. `part` says of which stage; `writer` has begun."""
    begin = None if part.refused else beginning(frames)
    if begin is None:
        why = part.refused or "of what it saw last no frame is left from which a replay could begin"
        writer.part(replace(part, refused=masked(why)))
        return
    trace = frames.trace
    notes = trace.notes[begin:]
    before = {one.effect: Recalled.DONE for one in trace.notes[:begin] if isinstance(one, ActNote)}
    behind = {**trace.behind, **before}
    marks = {effect: masked(value) for effect, value in trace.marks.items() if effect in behind}
    missing = sum(isinstance(one, LookNote) and not frames.size(one.at_s) for one in notes)
    writer.part(replace(part, behind=behind, marks=marks, missing=missing))
    for note in notes:
        _write(note, frames, part.stage, writer, masked)


def _write(note: Noted, frames: AvailableFrames, stage: str, writer: PackedRecordingWriter, masked: Masked) -> None:
    match note:
        case LookNote(at_s):
            whole, copy = frames.whole(at_s), frames.copy(at_s)
            if whole is not None:
                writer.look(whole)
            elif copy is not None and frames.size(at_s):
                found = {masked(what): _masked_match(match, masked) for what, match in frames.results_at(at_s).items()}
                writer.copy(copy.content, found)
        case TreeNote(dump):
            writer.tree(masked(dump or ""))
        case ActNote(effect, kind, args) if kind:
            writer.where = f"{stage} {effect}".strip()
            writer.act(kind, **{name: mask_texts(value, masked) for name, value in args.items()})
        case _:
            pass


def _masked_match(match: Match, masked: Masked) -> Match:
    return replace(match, text=masked(match.text))


def mask_texts(value: JsonValue, masked: Masked) -> JsonValue:
    """Every text in it masked, and each number that is a secret as a whole."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, list):
        return [mask_texts(one, masked) for one in value]
    if isinstance(value, dict):
        return {name: mask_texts(one, masked) for name, one in value.items()}
    if isinstance(value, int | float) and masked(str(value)) == MASK:
        return MASK
    return value


def beginning(frames: AvailableFrames) -> int | None:
    """The first note from which on a replay sees what decided each act; None: there is none.

    What decides an act is the last look before it. Of looks before that one frames may be missing: a wait that sees
    fewer of them ends as it did. It begins with the stage, or right behind an act of a step: there a stage can be
    taken up again. Behind a handler it cannot, since that looks by itself what is done.
    """
    trace = frames.trace
    notes, begin, end = trace.notes, None, len(trace.notes)
    budget = FRAMES_BYTES
    for start in _starts(notes):
        budget -= _cost_between(notes[start:end], frames, budget)
        if budget < 0:
            return begin
        if start == 0 and not trace.torn:
            return 0
        if start and _resumes(notes, start - 1):
            begin = start
        end = start - 1
    return begin


def _starts(notes: Sequence[Noted]) -> Iterator[int]:
    """Behind each act, the last first; then the very beginning."""
    yield from (number + 1 for number in range(len(notes) - 1, -1, -1) if isinstance(notes[number], ActNote))
    yield 0


def _resumes(notes: Sequence[Noted], number: int) -> bool:
    act = notes[number]
    if not isinstance(act, ActNote) or not act.effect[:1].isdecimal() or act.kind == "call":
        return False
    return not any(isinstance(one, ActNote) and one.effect == act.effect for one in notes[number + 1 :])


def _cost_between(between: Sequence[Noted], frames: AvailableFrames, budget: int) -> int:
    """What the frames between two acts cost; more than the budget when the one that decides is not at hand."""
    looks = [one.at_s for one in between if isinstance(one, LookNote)]
    unknown = any(isinstance(one, TreeNote) and one.dump is None for one in between)
    if unknown or (looks and not frames.size(looks[-1])):
        return budget + 1
    copies = {id(copy): len(copy.content) for at_s in looks if (copy := frames.copy(at_s)) is not None}
    return sum(copies.values())
