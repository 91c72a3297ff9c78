"""An emulator in memory that keeps the protocol: one app, one journal, and a place to pull the plug at every call.

The journal behaves as on a real emulator: intent, act, result, each on its own, so that a death can fall between.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from droidherd.contracts.screen_map import ScreenMap
from droidherd.domain.errors import AbandonedError, CommandFailedError, FencedError, UnknownOutcomeError
from droidherd.domain.ports import Acted, Box, Frame, Match, Recalled
from droidherd.flows.model.geometry import Area, box_in
from droidherd.flows.model.screens import parse_screen_map
from droidherd.flows.model.targets import Target, TextQuery
from droidherd.flows.run.context import StageContext, Tempo
from droidherd.flows.run.finder import find_element
from droidherd.flows.run.look import Look
from droidherd.virtual import app, scenes
from droidherd.virtual.app import HerdState, Scene
from droidherd.virtual.commands.screen import ui_tree

WIDTH, HEIGHT = 1280, 720
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
"""When the clock stands at nothing."""


class PlugPulledError(BaseException):
    """The process is gone. Nothing in the product may catch this."""


class FakeClock:
    def __init__(self) -> None:
        self.time = 1000.0
        self.slept = 0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.slept += 1
        self.time += seconds

    def date(self) -> datetime:
        return NOON + timedelta(seconds=self.time)


class FakeLife:
    def __init__(self) -> None:
        self.beats = 0
        self.reason = ""
        self.abandoned = False

    def beat(self, progress: str = "") -> None:
        self.beats += 1
        if self.abandoned:
            raise AbandonedError("given up")

    def stopping(self) -> str:
        return self.reason


@dataclass
class Emulator:
    """What outlives every process: the app, the journal, and the witness's list of what was really done."""

    state: HerdState = field(default_factory=HerdState)
    journal: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    """What the journal keeps with its effects."""
    done: list[tuple[str, str]] = field(default_factory=list)


Points = Callable[[str], None]


def no_trouble(_: str) -> None:
    pass


class Trouble:
    """Runs `make` at the nth point that is passed, and never again."""

    def __init__(self, nth: int, make: Callable[[str], BaseException]) -> None:
        self._nth = nth
        self._make = make
        self.passed = 0
        self.struck = ""

    def __call__(self, point: str) -> None:
        self.passed += 1
        if self.passed == self._nth:
            self.struck = point
            raise self._make(point)


class FakeHands:
    def __init__(self, emulator: Emulator, stage: str = "", point: Points = no_trouble) -> None:
        self._emulator = emulator
        self._stage = stage
        self._point = point
        self.fenced = False
        self.failing: set[str] = set()

    def recall(self) -> Mapping[str, Recalled]:
        self._point("recall")
        words = {"begin": Recalled.UNKNOWN, "failed": Recalled.FAILED}
        mine = {k.partition("/")[2]: v for k, v in self._emulator.journal.items() if k.startswith(f"{self._stage}/")}
        return {name: words.get(word, Recalled.DONE) for name, word in mine.items() if word != "forgotten"}

    def tap(self, effect: str, x: int, y: int) -> Acted:
        return self._act(effect, f"tap {x} {y}", lambda state: scenes.tap(state, x, y))

    def swipe(self, effect: str, start: tuple[int, int], end: tuple[int, int], duration_s: float) -> Acted:
        return self._act(effect, f"swipe {start} {end} {duration_s:g}", lambda state: scenes.swipe(state, start, end))

    def type_text(self, effect: str, text: str) -> Acted:
        return self._act(effect, f"type {text}", lambda state: app.type_text(state, text))

    def key(self, effect: str, key: str) -> Acted:
        return self._act(effect, f"key {key}", lambda state: app.key(state, key.upper()))

    def start_app(self, effect: str, app: str) -> Acted:
        return self._act(effect, f"start {app}", scenes.start)

    def stop_app(self, effect: str, app: str) -> Acted:
        return self._act(effect, f"stop {app}", scenes.stop)

    def mark(self, effect: str, value: str = "") -> Acted:
        return self._act(effect, "mark", lambda state: state, value)

    def marked(self, effect: str) -> str | None:
        return self._emulator.values.get(f"{self._stage}/{effect}")

    def clear_app(self, effect: str, app: str) -> Acted:
        return self._act(effect, f"clear {app}", scenes.clear)

    def settle(self, effect: str) -> None:
        self._write(effect, "settled")

    def forget(self, effect: str) -> None:
        self._write(effect, "forgotten")

    def _write(self, effect: str, word: str) -> None:
        self._point(f"{word} {effect}")
        if self._emulator.journal.get(f"{self._stage}/{effect}") == "begin":
            self._emulator.journal[f"{self._stage}/{effect}"] = word
        self._point(f"{word} {effect} answered")

    def _act(self, effect: str, what: str, change: Callable[[HerdState], HerdState], value: str = "") -> Acted:
        if self.fenced:
            raise FencedError("another lease holds it")
        key, emulator = f"{self._stage}/{effect}", self._emulator
        self._point(f"{effect} sent")
        word = emulator.journal.get(key, "")
        if word == "begin":
            raise UnknownOutcomeError("the journal holds an intent without a result")
        if word in {"done", "settled"}:
            return Acted.AGAIN
        if word == "failed":
            raise CommandFailedError("it had failed before", rc=1)
        emulator.journal[key] = "begin"
        self._point(f"{effect} begun")
        if effect in self.failing:
            emulator.journal[key] = "failed"
            raise CommandFailedError("the emulator says no", rc=1)
        emulator.state = change(emulator.state)
        emulator.done.append((key, what))
        self._point(f"{effect} acted")
        emulator.journal[key] = "done"
        emulator.values[key] = value
        self._point(f"{effect} answered")
        return Acted.DONE


class FakeEyes:
    """Frames that carry their state in their first bytes; `FakeFinder` reads it back."""

    def __init__(self, emulator: Emulator, point: Points = no_trouble) -> None:
        self._emulator = emulator
        self._point = point
        self.seen: dict[bytes, HerdState] = {}
        self.looks = 0
        self.trees = 0
        self.troubles: list[BaseException] = []
        self.restless: list[BaseException] = []

    def look(self) -> Frame:
        self._point("look")
        self.looks += 1
        if self.troubles:
            raise self.troubles.pop(0)
        picture = repr(self._emulator.state).encode()
        self.seen[picture] = self._emulator.state
        return Frame(WIDTH, HEIGHT, picture, 0.0)

    def tree(self) -> str:
        self._point("tree")
        self.trees += 1
        if self.restless:
            raise self.restless.pop(0)
        return ui_tree(self._emulator.state, app.PACKAGE, (WIDTH, HEIGHT))

    def focus(self) -> str:
        return app.PACKAGE if self._emulator.state.scene is not Scene.LAUNCHER else app.LAUNCHER_PACKAGE


_SEEN: dict[str, Callable[[HerdState], bool]] = {
    "app_icon.png": lambda s: s.scene is Scene.LAUNCHER,
    "account_empty.png": lambda s: s.scene is Scene.SIGN_IN and not s.account,
    "password_empty.png": lambda s: s.scene is Scene.SIGN_IN and not s.password,
    "sign_in.png": lambda s: s.scene is Scene.SIGN_IN,
    "nothing_entered.png": lambda s: s.scene is Scene.SIGN_IN and bool(s.message),
    "captcha.png": lambda s: s.scene is Scene.CAPTCHA,
    "sign_out.png": lambda s: s.scene is Scene.HOME,
    "gift.png": lambda s: s.scene is Scene.HOME and not s.gift_taken,
    "gift_collected.png": lambda s: s.scene is Scene.HOME and s.gift_taken,
    "rewards.png": lambda s: s.scene is Scene.HOME,
    "ok.png": lambda s: s.scene is Scene.DIALOG,
    "back.png": lambda s: s.scene is Scene.LIST,
    "claim.png": lambda s: any(name.startswith("claim_") for name in scenes.regions(s)),
}
_PLACES = {
    "account_empty.png": "account", "password_empty.png": "password", "rewards.png": "list",
    "gift_collected.png": "gift", "nothing_entered.png": "sign_in",
}  # fmt: skip


class FakeFinder:
    def __init__(self, eyes: FakeEyes) -> None:
        self._eyes = eyes
        self.asked: list[tuple[str, float, Box | None]] = []
        self.place: tuple[int, int] | None = None
        """Where everything is found, if not where it is."""

    def find(self, look: Look, target: Target) -> Match:
        area = box_in(look.frame, target.area)
        if target.ui is not None:
            return find_element(look, target.ui, area)
        if target.text is not None:
            return self._find_words(look, target.text)
        image = target.image or target.feature or ""
        self.asked.append((image, target.likeness, area))
        image = image.rpartition("@/")[2]  # of a used flow
        state = self.state(look.frame)
        found = state.popup if image == "close.png" else not state.popup and _SEEN[image](state)
        places = scenes.regions(state)
        name = _PLACES.get(image, image.removesuffix(".png"))
        box = next((place for key, place in places.items() if key.startswith(name)), Box(0, 0, 10, 10))
        box = Box(*self.place, 0, 0) if self.place else box
        return Match(found=found, box=box, score=1.0 if found else 0.4, runner_up=0.3)

    def state(self, frame: Frame) -> HerdState:
        return self._eyes.seen[bytes(frame.rgba)]

    def words(self, look: Look, area: Area | None) -> str:
        """What the app says of itself; where, nobody asks."""
        return self.state(look.frame).message

    def moved(self, before: Frame, after: Frame, area: Area | None) -> float:
        return float(bytes(before.rgba) != bytes(after.rgba))

    def _find_words(self, look: Look, wanted: str | TextQuery) -> Match:
        output = self.words(look, None)
        found = wanted in output if isinstance(wanted, str) else re.search(wanted.matches, output) is not None
        return Match(found=found, box=Box(0, 0, 10, 10), score=float(found), runner_up=0.0, text=output)


@dataclass
class Bench:
    """One try of a stage: new eyes and hands on the same emulator."""

    emulator: Emulator = field(default_factory=Emulator)
    stage: str = "main"
    point: Points = no_trouble
    clock: FakeClock = field(default_factory=FakeClock)
    life: FakeLife = field(default_factory=FakeLife)
    notes: list[str] = field(default_factory=list)
    kept: dict[str, Frame] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.hands = FakeHands(self.emulator, self.stage, self.point)
        self.eyes = FakeEyes(self.emulator, self.point)
        self.finder = FakeFinder(self.eyes)

    def run(
        self,
        tempo: Tempo | None = None,
        confirmed: Mapping[str, bool] | None = None,
        *,
        answers: Mapping[str, str] | None = None,
        standing: Mapping[str, str] | None = None,
        rounds: int = 0,
        screen_map: ScreenMap | None = None,
        lease: int = 1,
    ) -> StageContext:
        return StageContext(
            hands=self.hands,
            eyes=self.eyes,
            life=self.life,
            clock=self.clock,
            finder=self.finder,
            keep=self.kept.__setitem__,
            note=self.notes.append,
            tempo=tempo or Tempo(),
            confirmed=confirmed or {},
            answers={**(answers or {}), **(standing or {})},
            standing=frozenset(standing or ()),
            rounds=rounds,
            screen_map=parse_screen_map(screen_map),
            lease=lease,
        )
