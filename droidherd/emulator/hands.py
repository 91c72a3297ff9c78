"""Hands on one emulator: every act guarded, fenced and journaled there, in one round trip."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from droidherd.adb import parse
from droidherd.adb.client import AdbClient
from droidherd.adb.quote import is_plain
from droidherd.adb.shell import ShellResult
from droidherd.adb.wire import CallInterrupt
from droidherd.domain.errors import CommandFailedError, LateError, NotSentError, UnknownOutcomeError
from droidherd.domain.ports import NO_RECORDER, Acted, Recalled, StageRecorder
from droidherd.emulator import acts, lines
from droidherd.emulator.coordinates import DISPLAY_LINE, CoordinateMap, Display, default_display
from droidherd.emulator.eyes import raise_lost
from droidherd.emulator.lines import ShellReply
from droidherd.emulator.token import Token

ACT_S = 10.0
"""How long one act may take, beside what it takes by itself."""
CLEAR_S = 60.0
MESSAGE_LIMIT = 500


def _ignore(_: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class LeaseHandle:
    """Whose hands these are."""

    serial: str
    key: str
    """Of the task's run and attempt: the name of the journal."""
    token: Token
    stage: int
    """Its number in the plan; effects are named inside a stage."""
    fresh: bool = False
    """When the emulator was seized there was no journal yet."""
    begun: bool | None = None
    """Whether a step of the stage stands in the journal. None: the journal may begin anew amid the stage."""
    before_act: Callable[[str], None] = _ignore
    """Called with the name of each effect, before its intent is written."""


class EmulatorHands:
    """`Hands` by shell lines. `deadline_uptime` is asked before each act until when acts are allowed."""

    def __init__(
        self,
        adb: AdbClient,
        handle: LeaseHandle,
        deadline_uptime: Callable[[], int],
        *,
        interrupt: CallInterrupt | None = None,
        recorder: StageRecorder = NO_RECORDER,
    ) -> None:
        """On an emulator that `handle.token` has seized. Something long is given a pulse by `interrupt`."""
        self._adb = adb
        self._handle = handle
        self._fresh = handle.fresh
        self._begun = handle.begun
        self._marked: dict[str, str] = {}
        self._deadline_uptime = deadline_uptime
        self.act_s = ACT_S
        """How long one act may take."""
        self._interrupt = interrupt
        self._recorder = recorder
        self.coordinates = CoordinateMap(self._display)
        """For the eyes that go with these hands."""

    def tap(self, effect: str, x: int, y: int) -> Acted:
        act = acts.tap(*self.coordinates.to_display(x, y))
        return self._act_on_record("tap", effect, act, x=x, y=y)

    def swipe(self, effect: str, start: tuple[int, int], end: tuple[int, int], duration_s: float) -> Acted:
        places = self.coordinates.to_display(*start), self.coordinates.to_display(*end)
        act = acts.swipe(*places, duration_s)
        return self._act_on_record("swipe", effect, act, duration_s, start=list(start), end=list(end))

    def type_text(self, effect: str, text: str) -> Acted:
        takes_s = 0.0 if is_plain(text) else acts.TYPING_S
        return self._act_on_record("type", effect, acts.type_text(text), takes_s, text=text)

    def key(self, effect: str, key: str) -> Acted:
        return self._act_on_record("key", effect, acts.key(key), stirs=True, key=key)

    def start_app(self, effect: str, app: str) -> Acted:
        return self._act_on_record("start_app", effect, acts.start_app(app), stirs=True, app=app)

    def stop_app(self, effect: str, app: str) -> Acted:
        return self._act_on_record("stop_app", effect, acts.stop_app(app), stirs=True, app=app)

    def clear_app(self, effect: str, app: str) -> Acted:
        return self._act_on_record("clear_app", effect, acts.clear_app(app), CLEAR_S, stirs=True, app=app)

    def mark(self, effect: str, value: str = "") -> Acted:
        acted = self._act(effect, acts.NOTHING, value=value)
        if acted is Acted.DONE:
            self._marked[effect] = value
        self._recorder.marked(effect, value)
        return acted

    def marked(self, effect: str) -> str | None:
        value = self._marked.get(effect)
        if value is not None:
            self._recorder.marked(effect, value)
        return value

    def settle(self, effect: str) -> None:
        self._write(lines.settle(self._entry(effect)))

    def forget(self, effect: str) -> None:
        self._recorder.forget()
        self._write(lines.forget(self._entry(effect)))

    def recall(self) -> Mapping[str, Recalled]:
        # Only at the beginning can the journal be known to be empty.
        recorded, self._fresh = ({} if self._fresh else self._read_journal()), False
        self._recorder.recalled(recorded)
        return recorded

    def _read_journal(self) -> dict[str, Recalled]:
        serial, handle = self._handle.serial, self._handle
        line = lines.recall(self._entry("recall"), handle.stage)
        result = self._adb.shell(serial, line, self.act_s, interrupt=self._interrupt)
        answer = ShellReply.of(result, serial)
        if answer.word != "recalled":
            answer.refuse(serial)
        if result.rc:
            raise UnknownOutcomeError(f"the journal cannot be read: {answer.error_output}", to=serial)
        self._marked |= values(answer.output, handle.stage)
        return read_journal(answer.output, handle.stage)

    def run_effect(self, effect: str, act: str, takes_s: float = 0.0) -> Acted:
        """One effect, in the emulator's own words. `takes_s`: what it may take by itself."""
        try:
            return self._act(effect, act, takes_s)
        finally:
            self.coordinates.stir()

    def _act_on_record(
        self, kind: str, effect: str, act: str, takes_s: float = 0.0, *, stirs: bool = False, **args: Any
    ) -> Acted:
        """An act that surely was not sent is not on record. `stirs`: it may turn or resize the display."""
        self._recorder.act(kind, effect, **args)
        try:
            return self._act(effect, act, takes_s)
        except (NotSentError, LateError):
            self._recorder.forget()
            raise
        finally:
            if stirs:
                self.coordinates.stir()

    def _act(self, effect: str, act: str, takes_s: float = 0.0, value: str = "") -> Acted:
        """`value`: is kept with it."""
        self._handle.before_act(effect)
        answer = self._say(lines.effect(self._entry(effect), act, value=lines.word_of(value)), self.act_s + takes_s)
        match answer.word, answer.rest:
            case "acted", (rc,):
                acted = Acted.DONE
            case "again", ("done", rc, *kept):
                acted = Acted.AGAIN
                self._marked[effect] = self._read_kept(effect, "".join(kept))
            case "again", ("settled",):
                self._note_begun(effect)
                return Acted.AGAIN
            case _:
                answer.refuse(self._handle.serial)
        self._note_begun(effect)
        if rc != "0":
            # Never the act itself: it may carry a password.
            what = f"effect {effect} failed: {answer.output}" if answer.output else f"effect {effect} had failed before"
            raise CommandFailedError(what[:MESSAGE_LIMIT], rc=_number(rc), to=self._handle.serial)
        return acted

    @property
    def serial(self) -> str:
        """Of the emulator."""
        return self._handle.serial

    def ask(self, question: str, takes_s: float = 0.0) -> ShellResult:
        """Ask the emulator something while the token stands; what it says is not touched."""
        serial = self._handle.serial
        line = lines.ask(self._handle.token, question)
        result = self._adb.shell(serial, line, self.act_s + takes_s, interrupt=self._interrupt)
        first, _, out = result.out.partition(b"\n")
        if first.rstrip(b"\r") != b"dh:asked":
            ShellReply.of(result, serial).refuse(serial)
        return ShellResult(result.rc, out, result.err)

    def is_quiet(self, task: str, *, last_look: bool) -> bool:
        """Whether no line of this task is still at work here. At the last look, what is not is an error."""
        answer = self._say(lines.quiet(self._handle.token, task), self.act_s)
        if answer.word != "quiet" and (last_look or answer.word != "running"):
            answer.refuse(self._handle.serial)
        return answer.word == "quiet"

    def run_unjournaled(self, act: str) -> None:
        """Do what belongs to droidherd alone and may be repeated: without the journal."""
        answer = self._say(lines.guard(self._handle.token, act), self.act_s)
        if answer.word != "acted":
            answer.refuse(self._handle.serial)

    def _display(self) -> Display | None:
        """Asked under the token: at an address that leads elsewhere now, nothing is looked at for long."""
        with raise_lost():
            return default_display(self.ask(DISPLAY_LINE).text)

    def _read_kept(self, effect: str, word: str) -> str:
        value = lines.value_of(word)
        if value is None:
            raise UnknownOutcomeError(f"what was kept with effect {effect} broke off", to=self._handle.serial)
        return value

    def _note_begun(self, effect: str) -> None:
        if self._begun is not None and _is_of_step(effect):
            self._begun = True

    def _entry(self, effect: str) -> lines.JournalEntry:
        handle, begun = self._handle, bool(self._begun) and _is_of_step(effect)
        return lines.JournalEntry(handle.key, f"{handle.stage}/{effect}", handle.token, self._deadline_uptime(), begun)

    def _write(self, line: str) -> None:
        answer = self._say(line, self.act_s)
        if answer.word != "written":
            answer.refuse(self._handle.serial)

    def _say(self, line: str, deadline_s: float) -> ShellReply:
        serial = self._handle.serial
        return ShellReply.of(self._adb.shell(serial, line, deadline_s, interrupt=self._interrupt), serial)


def _is_of_step(effect: str) -> bool:
    """Not of a cleanup, nor of navigation."""
    return effect[:1].isdecimal()


def read_journal(journal: str, stage: int) -> dict[str, Recalled]:
    """The last word about each effect of a stage. A line that broke off says no more than that something began."""
    found: dict[str, Recalled] = {}
    for effect, words in _lines(journal, stage):
        found.pop(effect, None)
        if words != "forgotten":
            found[effect] = _meaning(words)
    return found


def values(journal: str, stage: int) -> dict[str, str]:
    """What is kept with the effects of a stage."""
    found: dict[str, str] = {}
    for effect, words in _lines(journal, stage):
        word, _, rest = words.partition(" ")
        value = lines.value_of(rest.partition(" ")[2])
        if word == "done" and value is not None:
            found[effect] = value
    return found


def _lines(journal: str, stage: int) -> Iterator[tuple[str, str]]:
    for line in journal.splitlines():
        name, _, words = line.partition(" ")
        number, _, effect = name.partition("/")
        if number == str(stage) and effect and words:
            yield effect, words


def _meaning(words: str) -> Recalled:
    word, _, rest = words.partition(" ")
    rc, _, kept = rest.partition(" ")
    code = parse.number(rc)
    if word == "done" and code is not None and lines.value_of(kept) is not None:
        return Recalled.FAILED if code else Recalled.DONE
    return Recalled.DONE if words == "settled" else Recalled.UNKNOWN


def _number(rc: str) -> int:
    code = parse.number(rc)
    if code is None:
        raise UnknownOutcomeError(f"the journal holds {rc!r} where a return code belongs")
    return code
