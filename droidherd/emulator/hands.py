"""Hands on one emulator: every act guarded, fenced and journaled there, in one round trip."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from droidherd.adb.client import AdbClient
from droidherd.adb.wire import Interrupt
from droidherd.domain.errors import CommandFailedError, UnknownOutcomeError
from droidherd.domain.ports import Acted, Recalled
from droidherd.emulator import acts, lines
from droidherd.emulator.answer import Answer
from droidherd.emulator.token import Token

ACT_S = 10.0
"""How long one act may take, beside what it takes by itself."""
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
        """On an emulator that `grip.token` has seized."""
        self._adb = adb
        self._grip = grip
        self._fresh = grip.fresh
        self._deadline_uptime = deadline_uptime
        self._act_s = act_s
        self._interrupt = interrupt

    def tap(self, effect: str, x: int, y: int) -> Acted:
        return self._act(effect, acts.tap(x, y))

    def swipe(self, effect: str, start: tuple[int, int], end: tuple[int, int], duration_s: float) -> Acted:
        return self._act(effect, acts.swipe(start, end, duration_s), duration_s)

    def type_text(self, effect: str, text: str) -> Acted:
        return self._act(effect, acts.type_text(text))

    def key(self, effect: str, key: str) -> Acted:
        return self._act(effect, acts.key(key))

    def start_app(self, effect: str, app: str) -> Acted:
        return self._act(effect, acts.start_app(app))

    def stop_app(self, effect: str, app: str) -> Acted:
        return self._act(effect, acts.stop_app(app))

    def mark(self, effect: str) -> Acted:
        return self._act(effect, acts.NOTHING)

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
        result = self._adb.shell(serial, line, self._act_s, interrupt=self._interrupt)
        answer = Answer.of(result, serial)
        if answer.word != "recalled":
            answer.refuse(serial)
        if result.rc:
            raise UnknownOutcomeError(f"the journal cannot be read: {answer.error_output}", to=serial)
        return recalled(answer.output, grip.stage)

    def _entry(self, effect: str) -> lines.Entry:
        grip = self._grip
        return lines.Entry(grip.key, f"{grip.stage}/{effect}", grip.token, self._deadline_uptime())

    def _act(self, effect: str, act: str, takes_s: float = 0.0) -> Acted:
        answer = self._say(lines.effect(self._entry(effect), act), self._act_s + takes_s)
        match answer.word, answer.rest:
            case "acted", (rc,):
                acted = Acted.DONE
            case "again", ("done", rc):
                acted = Acted.AGAIN
            case "again", ("settled",):
                return Acted.AGAIN
            case _:
                answer.refuse(self._grip.serial)
        if rc != "0":
            # Never the act itself: it may carry a password.
            what = f"effect {effect} failed: {answer.output}" if answer.output else f"effect {effect} had failed before"
            raise CommandFailedError(what[:MESSAGE_LIMIT], rc=_number(rc), to=self._grip.serial)
        return acted

    def _write(self, line: str) -> None:
        answer = self._say(line, self._act_s)
        if answer.word != "written":
            answer.refuse(self._grip.serial)

    def _say(self, line: str, deadline_s: float) -> Answer:
        serial = self._grip.serial
        return Answer.of(self._adb.shell(serial, line, deadline_s, interrupt=self._interrupt), serial)


def recalled(journal: str, stage: int) -> dict[str, Recalled]:
    """The last word about each effect of a stage. A line that broke off says no more than that something began."""
    found: dict[str, Recalled] = {}
    for line in journal.splitlines():
        name, _, words = line.partition(" ")
        number, _, effect = name.partition("/")
        if number != str(stage) or not effect or not words:
            continue
        found.pop(effect, None)
        if words != "forgotten":
            found[effect] = _meaning(words)
    return found


def _meaning(words: str) -> Recalled:
    word, _, rc = words.partition(" ")
    if words in {"settled", "done 0"}:
        return Recalled.DONE
    return Recalled.FAILED if word == "done" and rc.isdecimal() else Recalled.UNKNOWN


def _number(rc: str) -> int:
    if not rc.isdigit():
        raise UnknownOutcomeError(f"the journal holds {rc!r} where a return code belongs")
    return int(rc)
