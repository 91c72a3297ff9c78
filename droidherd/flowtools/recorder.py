"""A person at a live emulator: what they ask for is done there, and written down with what was to be seen."""

import re
import time
import zlib
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import ClassVar, Literal
from xml.sax.saxutils import escape

from pydantic import BaseModel, ConfigDict, Field

from droidherd.adb.client import AdbClient
from droidherd.contracts.tasks import MASK
from droidherd.domain.errors import BadParametersError, DroidherdError, InvalidFrameError
from droidherd.domain.ports import Box, Frame
from droidherd.emulator import eyes, lease
from droidherd.emulator.eyes import EmulatorEyes
from droidherd.emulator.hands import EmulatorHands, LeaseHandle
from droidherd.emulator.lease import Seized
from droidherd.emulator.token import Token
from droidherd.evidence.recording import RecordingWriter
from droidherd.flows.model.params import ACCOUNT
from droidherd.flowtools.elements import Element, elements
from droidherd.flowtools.rehearsal import ManualSession

STEPS_MAX = 190
"""Of one recording; a stage holds 200."""
HOLD_MAX_MS = 5_000
"""Less than the life of a guard."""
GUARD_S = 8.0
ELEMENTS_S = 8.0
SETTLE_S = 5.0
QUIET_S = 0.3
POLL_S = 0.1
LOOKS = 3

Kind = Literal["tap", "swipe", "type", "key", "start_app", "stop_app", "clear_app"]


class RecordedAction(BaseModel):
    """What a person wants to be done."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    x: int = Field(default=0, ge=0, le=20_000)
    y: int = Field(default=0, ge=0, le=20_000)
    to_x: int = Field(default=0, ge=0, le=20_000)
    to_y: int = Field(default=0, ge=0, le=20_000)
    hold_ms: int = Field(default=0, ge=0, le=HOLD_MAX_MS)
    """Of a tap: the finger stays down for so long."""
    text: str = Field(default="", max_length=1_000)
    param: str = Field(default="", max_length=48)
    """The text becomes the default of this parameter; that of `account` is the account the flow acts for."""
    secret: str = Field(default="", max_length=48)
    """The text is this credential: it is typed, and stands nowhere."""
    key: str = Field(default="", max_length=40)
    app: str = Field(default="", max_length=200)


_OUTPUT = re.compile(r'\b(text|content-desc)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class View:
    """The screen at one moment."""

    frame: Frame
    elements: tuple[Element, ...] = ()
    dump: str = ""

    @property
    def boxes(self) -> tuple[Box, ...]:
        return tuple(one.box for one in self.elements)


@dataclass(frozen=True, slots=True)
class Episode:
    """One act, and the screen before and after it."""

    action: RecordedAction
    before: View
    after: View


@dataclass(slots=True)
class Recorder:
    """At one emulator, in a manual session. One call at a time."""

    adb: AdbClient
    address: str
    session: ManualSession
    tape: RecordingWriter
    episodes: list[Episode] = field(default_factory=list)
    _count: int = 0
    _seen: tuple[int, View] | None = None
    _dumps: bool = True
    _secrets: set[str] = field(default_factory=set)
    _hands: EmulatorHands = field(init=False)
    _eyes: EmulatorEyes = field(init=False)

    def __post_init__(self) -> None:
        """The emulator is taken now; a task that comes takes it over, and the next act is refused."""
        token = Token(self.session.lease, self.session.stage, self.session.attempt)
        journal = f"recording.{token}"
        seized = lease.seize(self.adb, self.address, token, journal=journal)
        handle = LeaseHandle(self.address, journal, token, self.session.stage, fresh=True)
        self._hands = EmulatorHands(self.adb, handle, _deadline(seized))
        self._eyes = EmulatorEyes(self.adb, self.address)

    def look(self) -> Frame:
        """A bad frame now and then is borne."""
        for _ in range(LOOKS - 1):
            with suppress(InvalidFrameError):
                return self._eyes.look()
            time.sleep(POLL_S)
        return self._eyes.look()

    def do(self, action: RecordedAction) -> Episode:
        """Do it, wait until the screen is at rest, and write it down."""
        if len(self.episodes) >= STEPS_MAX:
            remedy = "finish, and record the rest as another flow"
            raise BadParametersError(f"{STEPS_MAX} steps were recorded", remedy=remedy)
        before = self._view(self.look())
        self.tape.where = f"recorded {len(self.episodes) + 1}"
        self._saw(before)
        self._write(action)
        self._act(action)
        after = self._view(self._wait_until_still())
        self._saw(after)
        self.episodes.append(Episode(action, before, after))
        return self.episodes[-1]

    def _saw(self, view: View) -> None:
        self.tape.look(view.frame)
        if view.dump:
            self.tape.tree(view.dump)

    def forget(self) -> None:
        """The last step never was, for the flow; on the emulator it stays done."""
        self.episodes.pop()
        self.tape.forget()

    def _write(self, action: RecordedAction) -> None:
        match action.kind:
            case "tap" if not action.hold_ms:
                self.tape.act("tap", x=action.x, y=action.y)
            case "tap":
                self.tape.act("swipe", start=[action.x, action.y], end=[action.x, action.y])
            case "swipe":
                self.tape.act("swipe", start=[action.x, action.y], end=[action.to_x, action.to_y])
            case "type":
                if action.param == ACCOUNT:
                    self.tape.acts_for(action.text)
                self.tape.act("type", text=MASK if action.secret else action.text)
            case "key":
                self.tape.act("key", key=action.key)
            case _:
                self.tape.act(action.kind, app=action.app)

    def _act(self, action: RecordedAction) -> None:
        self._count += 1
        effect, hands = str(self._count), self._hands
        match action.kind:
            case "tap" if not action.hold_ms:
                hands.tap(effect, action.x, action.y)
            case "tap":
                hands.swipe(effect, (action.x, action.y), (action.x, action.y), action.hold_ms / 1000)
            case "swipe":
                hands.swipe(effect, (action.x, action.y), (action.to_x, action.to_y), 0.3)
            case "type":
                if action.secret:
                    self._secrets.add(action.text)
                hands.type_text(effect, action.text)
            case "key":
                hands.key(effect, action.key)
            case "start_app":
                hands.start_app(effect, action.app)
            case "stop_app":
                hands.stop_app(effect, action.app)
            case "clear_app":
                hands.clear_app(effect, action.app)

    def _wait_until_still(self) -> Frame:
        """The first frame that stays for a moment, or what is there when that takes too long."""
        until = time.monotonic() + SETTLE_S
        frame, since = self.look(), time.monotonic()
        while time.monotonic() < until:
            time.sleep(POLL_S)
            again = self.look()
            if _sum(again) != _sum(frame):
                frame, since = again, time.monotonic()
            elif time.monotonic() - since >= QUIET_S:
                break
        return frame

    def _view(self, frame: Frame) -> View:
        """With its elements, which are asked for once per screen."""
        checksum = _sum(frame)
        if self._seen is None or self._seen[0] != checksum:
            dump = self._dump()
            self._seen = checksum, View(frame, elements(dump), dump)
        return self._seen[1]

    def _dump(self) -> str:
        """Games have none, and an emulator that cannot say it once is not asked again."""
        if not self._dumps:
            return ""
        try:
            return without(self._secrets, eyes.dump_tree(self.adb, self.address, ELEMENTS_S))
        except DroidherdError:
            self._dumps = False
            return ""


def without(secrets: Collection[str], dump: str) -> str:
    """A field may show what was typed into it, and images are named after what elements say."""

    def masked(words: re.Match[str]) -> str:
        value = words[2]
        for secret in secrets:
            value = value.replace(escape(secret, {'"': "&quot;"}), MASK)
        return f'{words[1]}="{value}"'

    return _OUTPUT.sub(masked, dump) if secrets else dump


def _deadline(seized: Seized) -> Callable[[], int]:
    return lambda: seized.clock.deadline(time.monotonic() + GUARD_S)


def _sum(frame: Frame) -> int:
    return zlib.crc32(frame.rgba)
