"""What one attempt of a stage saw and did, noted while it runs: looks, searches, acts. Within limits, the oldest go.

Of a stage that ends well nothing but these notes is ever made. One that ends badly is shown from them (`folder`), and
made into a recording that can be replayed (`replay`). No frame is kept here but the last one that was searched.
"""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic import JsonValue

from droidherd.domain.ports import Frame, Match, Recalled

LOOKS_MAX = 60
ROWS_MAX = 60
NOTES_MAX = 400
FRAMES_BYTES = 6_000_000
"""Of frames that evidence or a recording holds."""
TREES_CHARS = 500_000
"""Of screen elements a trace holds on to; the oldest go first."""


@dataclass(frozen=True, slots=True)
class Search:
    """One thing that was searched for, once."""

    at_s: float
    path: str
    what: str
    match: Match


@dataclass(frozen=True, slots=True)
class SearchRow:
    """One thing that was searched on one look after the other, each time with the same outcome."""

    last: Search
    """The last time."""
    since_s: float
    looks: int = 1

    def goes_on(self, one: Search) -> bool:
        return self._outcome(self.last) == self._outcome(one)

    def _outcome(self, one: Search) -> tuple[str, str, bool, str]:
        """What was read where nothing was found is another thing each time, and so are scores."""
        return one.path, one.what, one.match.found, one.match.text if one.match.found else ""


@dataclass(frozen=True, slots=True)
class LookNote:
    """A look."""

    at_s: float


@dataclass(slots=True)
class TreeNote:
    """The elements of the screen; None: they were let go."""

    dump: str | None


@dataclass(frozen=True, slots=True)
class ActNote:
    """An act. What is written down on the emulator alone, for a later try, has no kind."""

    effect: str
    kind: str = ""
    args: Mapping[str, JsonValue] = field(default_factory=dict)


Noted: TypeAlias = LookNote | TreeNote | ActNote


@dataclass(slots=True)
class Trace:
    """Of one attempt. Implements `StageRecorder`; `seen` is told of every look and of everything that was searched."""

    searches: deque[Search] = field(default_factory=lambda: deque(maxlen=LOOKS_MAX))
    rows: deque[SearchRow] = field(default_factory=lambda: deque(maxlen=ROWS_MAX))
    """For people: a wait of a hundred looks is one row for each thing it searched."""
    last: Frame | None = None
    """The frame that was searched last."""
    path: str = ""
    """Of the step that looked last."""
    began_s: float = field(default_factory=time.monotonic)
    notes: list[Noted] = field(default_factory=list)
    torn: bool = False
    """Notes were let go."""
    behind: dict[str, Recalled] = field(default_factory=dict)
    """What was done before the first note that is left."""
    marks: dict[str, str] = field(default_factory=dict)
    handler: str = ""
    """The one that did not come to its end."""
    muted: int = 0
    _looks_s: tuple[float, float] = (0.0, 0.0)
    """When something was searched last, and on the look before that."""
    _chars: int = 0

    # --- looks, and what was searched on them -----------------------------------------------------------------

    def seen(self, path: str, what: str, frame: Frame, match: Match | None) -> None:
        self.path = path or self.path
        if match is not None:
            self.last = frame
            self.searches.append(Search(frame.taken_at_s, path, what, match))
            self._add_row(self.searches[-1])
        elif self.last is None:
            self.last = frame

    def _add_row(self, one: Search) -> None:
        """Into the row of the look before this one, or of this one, when it came out the same; else as a row."""
        if one.at_s != self._looks_s[0]:
            self._looks_s = one.at_s, self._looks_s[0]
        for number, row in enumerate(self.rows):
            if row.last.at_s in self._looks_s and row.goes_on(one):
                self.rows[number] = SearchRow(one, row.since_s, row.looks + (row.last.at_s != one.at_s))
                return
        self.rows.append(SearchRow(one, one.at_s))

    # --- everything in its order, as `StageRecorder` ----------------------------------------------------------

    def look(self, frame: Frame) -> None:
        if not self.muted:
            self._note(LookNote(frame.taken_at_s))

    def tree(self, dump: str) -> None:
        if self.muted:
            return
        self._note(TreeNote(dump))
        self._chars += len(dump)
        held = (one for one in self.notes if isinstance(one, TreeNote) and one.dump is not None)
        while self._chars > TREES_CHARS and (oldest := next(held, None)) is not None:
            self._chars -= len(oldest.dump or "")
            oldest.dump = None

    def act(self, kind: str, effect: str = "", /, **args: JsonValue) -> None:
        if not self.muted:
            self._note(ActNote(effect, kind, args))

    def forget(self) -> None:
        if self.muted:
            return
        last = next((one for one in reversed(self.notes) if isinstance(one, ActNote) and one.kind), None)
        if last is not None:
            self.notes.remove(last)

    def recalled(self, recorded: Mapping[str, Recalled]) -> None:
        if not self.notes and not self.torn:
            self.behind = dict(recorded)

    def marked(self, effect: str, value: str) -> None:
        """Told twice: when it is written, and when it is read."""
        self.marks[effect] = value
        if effect not in self.behind and not any(
            isinstance(one, ActNote) and one.effect == effect for one in self.notes
        ):
            self._note(ActNote(effect))

    def broke_off(self, handler: str) -> None:
        self.handler = handler

    def _note(self, note: Noted) -> None:
        self.notes.append(note)
        if len(self.notes) > NOTES_MAX:
            first = self.notes.pop(0)
            self.torn = True
            if isinstance(first, ActNote):
                self.behind[first.effect] = Recalled.DONE
            elif isinstance(first, TreeNote):
                self._chars -= len(first.dump or "")
