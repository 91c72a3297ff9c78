"""Hands on one emulator: every act guarded, fenced and journaled there, in one round trip."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from droidherd.adb import display
from droidherd.adb.client import AdbClient
from droidherd.adb.display import Display
from droidherd.adb.model import ShellResult
from droidherd.adb.quote import is_plain
from droidherd.adb.wire import Interrupt
from droidherd.domain.errors import CommandFailedError, UnknownOutcomeError
from droidherd.domain.ports import Acted, Eyes, Recalled
from droidherd.emulator import acts, lines, marks
from droidherd.emulator.aim import Aim, AimedEyes
from droidherd.emulator.answer import Answer
from droidherd.emulator.eyes import lost
from droidherd.emulator.keyboard import TYPING_S
from droidherd.emulator.token import Token

ACT_S = 10.0
"""How long one act may take, beside what it takes by itself."""
CLEAR_S = 60.0
MESSAGE_LIMIT = 500


@dataclass(frozen=True, slots=True)
class Grip:
    """Whose hands these are."""

    serial: str
    key: str
    """Of the task's run and attempt: the name of the journal."""
    token: Token
    stage: int
    """Its number in the plan; effects are named inside a stage."""
    fresh: bool = False
    """When the emulator was seized there was no journal yet."""


class EmulatorHands:
    """`Hands` by shell lines. `deadline_uptime` is asked before each act until when acts are allowed."""

    def __init__(
        self,
        adb: AdbClient,
        grip: Grip,
        deadline_uptime: Callable[[], int],
        *,
        act_s: float = ACT_S,
        interrupt: Interrupt | None = None,
    ) -> None:
        """On an emulator that `grip.token` has seized. Something long is given a pulse by `interrupt`."""
        self._adb = adb
        self._grip = grip
        self._fresh = grip.fresh
        self._marked: dict[str, str] = {}
        self._deadline_uptime = deadline_uptime
        self._act_s = act_s
        self._interrupt = interrupt
        self._aim = Aim(self._display)

    def aimed(self, eyes: Eyes) -> Eyes:
        """The same eyes; what is touched from now on is what they saw last."""
        return AimedEyes(eyes, self._aim)

    def tap(self, effect: str, x: int, y: int) -> Acted:
        return self._act(effect, acts.tap(*self._aim.at(x, y)))

    def swipe(self, effect: str, start: tuple[int, int], end: tuple[int, int], duration_s: float) -> Acted:
        places = self._aim.at(*start), self._aim.at(*end)
        return self._act(effect, acts.swipe(*places, duration_s), duration_s)

    def type_text(self, effect: str, text: str) -> Acted:
        return self._act(effect, acts.type_text(text), 0.0 if is_plain(text) else TYPING_S)

    def key(self, effect: str, key: str) -> Acted:
        return self.carry_out(effect, acts.key(key))

    def start_app(self, effect: str, app: str) -> Acted:
        return self.carry_out(effect, acts.start_app(app))

    def stop_app(self, effect: str, app: str) -> Acted:
        return self.carry_out(effect, acts.stop_app(app))

    def clear_app(self, effect: str, app: str) -> Acted:
        return self.carry_out(effect, acts.clear_app(app), CLEAR_S)

    def mark(self, effect: str, value: str = "") -> Acted:
        acted = self._act(effect, acts.NOTHING, value=value)
        if acted is Acted.DONE:
            self._marked[effect] = value
        return acted

    def marked(self, effect: str) -> str | None:
        return self._marked.get(effect)

    def settle(self, effect: str) -> None:
        self._write(lines.settle(self._entry(effect)))

    def forget(self, effect: str) -> None:
        self._write(lines.forget(self._entry(effect)))

    def recall(self) -> Mapping[str, Recalled]:
        serial, grip = self._grip.serial, self._grip
        if self._fresh:
            self._fresh = False  # true of the beginning alone
            return {}
        line = lines.recall(self._entry("recall"), grip.stage)
        result = self._shell(line, self._act_s)
        answer = Answer.of(result, serial)
        if answer.word != "recalled":
            answer.refuse(serial)
        if result.rc:
            raise UnknownOutcomeError(f"the journal cannot be read: {answer.error_output}", to=serial)
        self._marked |= values(answer.output, grip.stage)
        return recalled(answer.output, grip.stage)

    def carry_out(self, effect: str, act: str, takes_s: float = 0.0) -> Acted:
        """One effect, in the emulator's own words. `takes_s`: what it may take by itself."""
        try:
            return self._act(effect, act, takes_s)
        finally:
            self._aim.stir()

    def _act(self, effect: str, act: str, takes_s: float = 0.0, value: str = "") -> Acted:
        """`value`: is kept with it."""
        answer = self._say(lines.effect(self._entry(effect), act, value=marks.word_of(value)), self._act_s + takes_s)
        match answer.word, answer.rest:
            case "acted", (rc,):
                acted = Acted.DONE
            case "again", ("done", rc, *kept):
                acted = Acted.AGAIN
                self._marked[effect] = self._kept(effect, "".join(kept))
            case "again", ("settled",):
                return Acted.AGAIN
            case _:
                answer.refuse(self._grip.serial)
        if rc != "0":
            # Never the act itself: it may carry a password.
            what = f"effect {effect} failed: {answer.output}" if answer.output else f"effect {effect} had failed before"
            raise CommandFailedError(what[:MESSAGE_LIMIT], rc=_number(rc), to=self._grip.serial)
        return acted

    def ask(self, question: str, takes_s: float = 0.0) -> ShellResult:
        """Ask the emulator something while the token stands; what it says is not touched."""
        serial = self._grip.serial
        result = self._shell(lines.asked(self._grip.token, question), self._act_s + takes_s)
        first, _, out = result.out.partition(b"\n")
        if first.rstrip(b"\r") != b"dh:asked":
            Answer.of(result, serial).refuse(serial)
        return ShellResult(result.rc, out, result.err)

    def is_quiet(self, task: str, *, last_look: bool) -> bool:
        """Whether no line of this task is still at work here. At the last look, what is not is an error."""
        answer = self._say(lines.quiet(self._grip.token, task), self._act_s)
        if answer.word != "quiet" and (last_look or answer.word != "running"):
            answer.refuse(self._grip.serial)
        return answer.word == "quiet"

    def tidy(self, act: str) -> None:
        """Do what belongs to droidherd alone and may be repeated: without the journal."""
        answer = self._say(lines.guarded(self._grip.token, act), self._act_s)
        if answer.word != "acted":
            answer.refuse(self._grip.serial)

    def _display(self) -> Display | None:
        """Asked under the token: at an address that leads elsewhere now, nothing is looked at for long."""
        with lost():
            return display.default(self.ask(display.DISPLAY_LINE).text)

    def _kept(self, effect: str, word: str) -> str:
        value = marks.value_of(word)
        if value is None:
            raise UnknownOutcomeError(f"what was kept with effect {effect} broke off", to=self._grip.serial)
        return value

    def _entry(self, effect: str) -> lines.Entry:
        grip = self._grip
        return lines.Entry(grip.key, f"{grip.stage}/{effect}", grip.token, self._deadline_uptime())

    def _write(self, line: str) -> None:
        answer = self._say(line, self._act_s)
        if answer.word != "written":
            answer.refuse(self._grip.serial)

    def _say(self, line: str, deadline_s: float) -> Answer:
        return Answer.of(self._shell(line, deadline_s), self._grip.serial)

    def _shell(self, line: str, deadline_s: float) -> ShellResult:
        serial = self._grip.serial
        return self._adb.shell(serial, line, deadline_s, interrupt=self._interrupt)


def recalled(journal: str, stage: int) -> dict[str, Recalled]:
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
        value = marks.value_of(rest.partition(" ")[2])
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
    if word == "done" and rc.isdecimal() and marks.value_of(kept) is not None:
        return Recalled.FAILED if int(rc) else Recalled.DONE
    return Recalled.DONE if words == "settled" else Recalled.UNKNOWN


def _number(rc: str) -> int:
    if not rc.isdigit():
        raise UnknownOutcomeError(f"the journal holds {rc!r} where a return code belongs")
    return int(rc)
