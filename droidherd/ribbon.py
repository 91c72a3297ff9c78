"""The ribbon: what a stage saw and did, noted while it runs, without any frame. Made into a recording when it is over.

Of a stage that ends well nothing but these notes is ever made. Frames are those that stand in the reel anyway: the
last ones of the emulator, as JPEG. So a recording mostly begins in the middle, behind the last act from which on
every act's frame is there. There a replay takes the stage up like a try that goes on where another one ended.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pydantic import JsonValue

from droidherd.domain.ports import Frame, Match, Recalled
from droidherd.emulator.reel import Shot
from droidherd.evidence import FRAMES_BYTES, LOOKS_MAX, Trail
from droidherd.tapes.recording import Part
from droidherd.tapes.tape import PackedTape

MOMENTS_MAX = 400
TREES_CHARS = 500_000
"""Of elements a ribbon holds on to; the oldest go first."""
Masked: TypeAlias = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Seen:
    """A look."""

    at_s: float


@dataclass(slots=True)
class Told:
    """The elements of the screen; None: they were let go."""

    dump: str | None


@dataclass(frozen=True, slots=True)
class Done:
    """An act. What is written down on the emulator alone, for a later try, has no kind."""

    effect: str
    kind: str = ""
    args: Mapping[str, JsonValue] = field(default_factory=dict)


Noted: TypeAlias = Seen | Told | Done


@dataclass(slots=True)
class Ribbon:
    """Of one try of one stage. Implements `taping.Pad`."""

    muted: int = 0
    handler: str = ""
    """The one that did not come to its end."""
    behind: dict[str, Recalled] = field(default_factory=dict)
    """What was done before the first note that is left."""
    marks: dict[str, str] = field(default_factory=dict)
    notes: list[Noted] = field(default_factory=list)
    torn: bool = False
    """Notes were let go."""
    _chars: int = 0

    def look(self, frame: Frame) -> None:
        if not self.muted:
            self._note(Seen(frame.taken_at_s))

    def tree(self, dump: str) -> None:
        if self.muted:
            return
        self._note(Told(dump))
        self._chars += len(dump)
        held = (one for one in self.notes if isinstance(one, Told) and one.dump is not None)
        while self._chars > TREES_CHARS and (oldest := next(held, None)) is not None:
            self._chars -= len(oldest.dump or "")
            oldest.dump = None

    def act(self, kind: str, effect: str = "", /, **args: JsonValue) -> None:
        if not self.muted:
            self._note(Done(effect, kind, args))

    def forget(self) -> None:
        if self.muted:
            return
        last = next((one for one in reversed(self.notes) if isinstance(one, Done) and one.kind), None)
        if last is not None:
            self.notes.remove(last)

    def recalled(self, recorded: Mapping[str, Recalled]) -> None:
        if not self.notes and not self.torn:
            self.behind = dict(recorded)

    def marked(self, effect: str, value: str) -> None:
        """Told twice: when it is written, and when it is read."""
        self.marks[effect] = value
        if effect not in self.behind and not any(isinstance(one, Done) and one.effect == effect for one in self.notes):
            self._note(Done(effect))

    def broke_off(self, handler: str) -> None:
        self.handler = handler

    def _note(self, note: Noted) -> None:
        self.notes.append(note)
        if len(self.notes) > MOMENTS_MAX:
            first = self.notes.pop(0)
            self.torn = True
            if isinstance(first, Done):
                self.behind[first.effect] = Recalled.DONE
            elif isinstance(first, Told):
                self._chars -= len(first.dump or "")


@dataclass(frozen=True, slots=True)
class Screens:
    """The frames that are at hand: copies out of the reel, and the one seen last as it was."""

    shots: Sequence[Shot]
    trail: Trail

    def copy(self, at_s: float) -> Shot | None:
        return next((shot for shot in self.shots if shot.taken_at_s <= at_s <= shot.last_at_s), None)

    def whole(self, at_s: float) -> Frame | None:
        """When the screen was the same then."""
        last = self.trail.last
        if last is None:
            return None
        copy = self.copy(last.taken_at_s)
        same = at_s == last.taken_at_s or (copy is not None and copy is self.copy(at_s))
        return last if same else None

    def size(self, at_s: float) -> int:
        """Bytes, about; 0: it is not at hand, or nobody knows any more what was found on it."""
        if self.whole(at_s) is not None:
            return 1
        sought = self.trail.sought
        known = len(sought) < LOOKS_MAX or sought[0].at_s < at_s
        copy = self.copy(at_s)
        return len(copy.content) if copy is not None and known else 0

    def found(self, at_s: float) -> dict[str, Match]:
        """What was sought on a frame. What was found here and not there under one name tells nothing."""
        here = [(one.what, one.match) for one in self.trail.sought if one.at_s == at_s]
        return {what: match for what, match in here if all(other == match for name, other in here if name == what)}


def packed(ribbon: Ribbon, screens: Screens, part: Part, tape: PackedTape, masked: Masked) -> None:
    """Write down what can be replayed, from where on it can. `part` says of which stage; `tape` has begun."""
    begin = None if part.refused else beginning(ribbon, screens)
    if begin is None:
        why = part.refused or "of what it saw last no frame is left from which a replay could begin"
        tape.part(replace(part, refused=masked(why)))
        return
    notes = ribbon.notes[begin:]
    before = {one.effect: Recalled.DONE for one in ribbon.notes[:begin] if isinstance(one, Done)}
    behind = {**ribbon.behind, **before}
    marks = {effect: masked(value) for effect, value in ribbon.marks.items() if effect in behind}
    missing = sum(isinstance(one, Seen) and not screens.size(one.at_s) for one in notes)
    tape.part(replace(part, behind=behind, marks=marks, missing=missing))
    for note in notes:
        _write(note, screens, part.stage, tape, masked)


def _write(note: Noted, screens: Screens, stage: str, tape: PackedTape, masked: Masked) -> None:
    match note:
        case Seen(at_s):
            whole, copy = screens.whole(at_s), screens.copy(at_s)
            if whole is not None:
                tape.look(whole)
            elif copy is not None and screens.size(at_s):
                found = {masked(what): _masked_match(match, masked) for what, match in screens.found(at_s).items()}
                tape.copy(copy.content, found)
        case Told(dump):
            tape.tree(masked(dump or ""))
        case Done(effect, kind, args) if kind:
            tape.where = f"{stage} {effect}".strip()
            tape.act(kind, **{name: hidden(value, masked) for name, value in args.items()})
        case _:
            pass


def _masked_match(match: Match, masked: Masked) -> Match:
    return replace(match, text=masked(match.text))


def hidden(value: JsonValue, masked: Masked) -> JsonValue:
    """Every text in it masked."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, list):
        return [hidden(one, masked) for one in value]
    if isinstance(value, dict):
        return {name: hidden(one, masked) for name, one in value.items()}
    return value


def beginning(ribbon: Ribbon, screens: Screens) -> int | None:
    """The first note from which on a replay sees what decided each act; None: there is none.

    What decides an act is the last look before it. Of looks before that one frames may be missing: a wait that sees
    fewer of them ends as it did. It begins with the stage, or right behind an act of a step: there a stage can be
    taken up again. Behind a handler it cannot, since that looks by itself what is done.
    """
    notes, begin, end = ribbon.notes, None, len(ribbon.notes)
    budget = FRAMES_BYTES
    for start in _starts(notes):
        budget -= _decided(notes[start:end], screens, budget)
        if budget < 0:
            return begin
        if start == 0 and not ribbon.torn:
            return 0
        if start and _resumes(notes, start - 1):
            begin = start
        end = start - 1
    return begin


def _starts(notes: Sequence[Noted]) -> Iterator[int]:
    """Behind each act, the last first; then the very beginning."""
    yield from (number + 1 for number in range(len(notes) - 1, -1, -1) if isinstance(notes[number], Done))
    yield 0


def _resumes(notes: Sequence[Noted], number: int) -> bool:
    act = notes[number]
    if not isinstance(act, Done) or not act.effect[:1].isdecimal() or act.kind == "handle":
        return False
    return not any(isinstance(one, Done) and one.effect == act.effect for one in notes[number + 1 :])


def _decided(between: Sequence[Noted], screens: Screens, budget: int) -> int:
    """What the frames between two acts cost; more than the budget when the one that decides is not at hand."""
    looks = [one.at_s for one in between if isinstance(one, Seen)]
    unknown = any(isinstance(one, Told) and one.dump is None for one in between)
    if unknown or (looks and not screens.size(looks[-1])):
        return budget + 1
    copies = {id(copy): len(copy.content) for at_s in looks if (copy := screens.copy(at_s)) is not None}
    return sum(copies.values())
