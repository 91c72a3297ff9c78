"""A recorded run as a test: the flow sees the recorded frames, and what it does is held against what was done then.

Time is skipped, so a wait that fails takes no time. No Android is needed, and no emulator.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from droidherd.contracts.plan import Plan, TaskTiming
from droidherd.contracts.tasks import MASK
from droidherd.domain.errors import BadParametersError, CommandFailedError, DroidherdError, FinalError
from droidherd.domain.ports import Acted, Frame, Match, Recalled, Wanted
from droidherd.domain.task.things import State
from droidherd.evidence.recording import (
    COMPLETED,
    Moment,
    RecordedAct,
    RecordedLook,
    RecordedTree,
    Recording,
    SearchResults,
    read,
)
from droidherd.flows.catalogue import Catalogue, PlannedFlow
from droidherd.flows.model.geometry import Area
from droidherd.flows.model.params import ACCOUNT
from droidherd.flows.model.screens import parse_screen_map
from droidherd.flows.model.steps.handlers import CallStep
from droidherd.flows.model.targets import Target, describe
from droidherd.flows.run import interpreter
from droidherd.flows.run.context import StageContext
from droidherd.flows.run.finder import FlowFinder
from droidherd.flows.run.look import Look as Glance
from droidherd.flowtools.records import SOMEBODY

if TYPE_CHECKING:
    from droidherd.flows.run.doing import HandlerActs

NEAR = 0.02
"""Of the screen: by so much a tap may be off, since a person need not hit the middle."""
LOOKS_MAX = 100_000
FRAMES_KEPT = 8
UNJUDGED_MAX = 6
_REFUSED = re.compile(r"^(?:step )?[^ ]+: effect ([^ ]+) (?:failed: |had failed )")
"""How a run ends whose last act the emulator refused; older ones name the emulator instead of the step."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the flow goes another way than the recording."""

    step: str
    expected: str
    found: str

    def __str__(self) -> str:
        """One line for people."""
        return f"{self.step or 'the end'}: expected {self.expected}, found {self.found}"


@dataclass(frozen=True, slots=True)
class FlowReplay:
    differences: tuple[Difference, ...]
    acts: int
    """How many were made as recorded."""
    log: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What this replay cannot tell, for people."""

    @property
    def same(self) -> bool:
        return not self.differences


class DivergedError(FinalError):
    """The flow did something that was not recorded here."""


def replay(
    recording: Path | Recording, flow: Path | None = None, *, catalogue: Catalogue | None = None, name: str = ""
) -> FlowReplay:
    """Run a flow against a recording: that in the folder `flow`, or the one of a `name` in a catalogue.

    Default: the flow that was recorded, from the gallery.
    """
    recorded = recording if isinstance(recording, Recording) else read(recording)
    flows = catalogue or Catalogue([flow.resolve().parent] if flow else [])
    wanted = flow.resolve().name if flow else name or recorded.flow
    plan = flows.plan(wanted, recorded.params, account=account_of(recorded))
    player = Player(recorded)
    error = _run(_partly(plan, recorded), flows, player)
    differences = tuple(_differences(recorded, player, error))
    return FlowReplay(differences, player.made, tuple(player.log), tuple(_notes(recorded, player, plan)))


def account_of(recorded: Recording) -> str:
    """For whom it was: it stands among the parameters of a flow that acts for one."""
    return str(recorded.params.get(ACCOUNT, SOMEBODY))


def _partly(plan: Plan, recorded: Recording) -> Plan:
    """The stage that was recorded, if it was not the whole run."""
    part = recorded.part
    if part is None:
        return plan
    if part.refused:
        remedy = "see the page of its evidence; to get one of the whole run, run its flow: droidherd flow run"
        raise BadParametersError(f"cannot be replayed: {part.refused}", to=str(recorded.folder), remedy=remedy)
    stages = tuple(stage for stage in plan.stages if stage.name == part.stage)
    if not stages:
        raise BadParametersError(f"the flow has no stage {part.stage} any more", to=plan.flow)
    return plan.model_copy(update={"stages": stages})


def _notes(recorded: Recording, player: "Player", plan: Plan) -> Iterator[str]:
    part = recorded.part
    if part is None:
        return
    yield f"begins at {part.where}" + (": of what was before, no frames are left" if part.behind else "")
    if recorded.flow_hash and plan.flow_hash != recorded.flow_hash:
        yield "the flow is another one by now" + (": its steps may have other numbers than then" if part.behind else "")
    if part.missing:
        yield f"{part.missing} looks have no frame here"
    if judged := [*player.unjudged][:UNJUDGED_MAX]:
        yield f"searched on copies that lost detail, where nobody had searched it then: {', '.join(judged)}"


def compare(recorded: Recording, other: Recording) -> tuple[Difference, ...]:
    """What two recorded runs of a flow did differently."""
    size, part = _size(recorded), recorded.part
    skips_cleanup = recorded.by_person or part is not None
    left, more = recorded.acts(), tuple(act for act in other.acts() if not (skips_cleanup and _in_cleanup(act)))
    if part is not None:
        more = tuple(act for act in more if act.step.partition(" ")[0] == part.stage)
    for one, another in zip(left, more, strict=False):
        if not alike(one, another, size):
            return (Difference(another.step, str(one), str(another)),)
    if len(left) > len(more):
        return (Difference(left[len(more)].step, str(left[len(more)]), f"nothing; it ended: {other.end}"),)
    if len(more) > len(left):
        return (Difference(more[len(left)].step, "nothing more", str(more[len(left)])),)
    if recorded.end == other.end or _place(recorded.end) == _place(other.end) != "":
        return ()
    return (Difference("", recorded.end, other.end),)


def _place(end: str) -> str:
    """The step at which a run ended: addresses, scores and times differ from one to the other."""
    refused = _REFUSED.search(end)
    return f"step {refused[1]}" if refused else end.partition(":")[0]


def _in_cleanup(act: RecordedAct) -> bool:
    """Whether it was done in a cleanup."""
    return act.step.rpartition(" ")[2].startswith("c")


def alike(one: RecordedAct, other: RecordedAct, size: tuple[int, int]) -> bool:
    """The same act, at about the same place."""
    if one.kind != other.kind:
        return False
    if one.kind in {"tap", "swipe"}:
        near = NEAR * max(size)
        return all(abs(a - b) <= near for a, b in zip(_numbers(one), _numbers(other), strict=False))
    return dict(one.args) == dict(other.args)


def _numbers(act: RecordedAct) -> list[float]:
    flat: list[float] = []
    for value in act.args.values():
        flat += [float(str(part)) for part in value] if isinstance(value, list) else [float(str(value))]
    return flat


def _size(recorded: Recording) -> tuple[int, int]:
    look = next((one for one in recorded.moments if isinstance(one, RecordedLook)), None)
    frame = recorded.frame(look.frame) if look else None
    return (frame.width, frame.height) if frame else (1, 1)


def _run(plan: Plan, flows: Catalogue, player: "Player") -> DroidherdError | None:
    part = player.recorded.part
    planned = PlannedFlow(plan.flow, plan.flow_hash)
    finder = _Finder(FlowFinder(flows, planned), player)
    run = StageContext(
        hands=player,
        eyes=player,
        life=player,
        clock=player,
        finder=finder,
        keep=lambda _, __: None,
        note=player.log.append,
        things=player,
        payload=lambda name: flows.payload(planned, name),
        handlers=player.handlers(),
        secret=lambda _: MASK,
        screen_map=parse_screen_map(plan.screen_map),
        confirmed=part.confirmed if part else {},
        rounds=part.rounds if part else 0,
        lease=part.lease if part else 0,
    )
    error: DroidherdError | None = None
    for stage in plan.stages:
        player.stage = stage.name
        try:
            interpreter.run_stage(stage, replace(run, answers=_answers(player.recorded, stage.name)))
        except DroidherdError as stopped:
            error = stopped
            break
    if part is None and not player.recorded.by_person and (error is None or player.recorded.end not in {COMPLETED, ""}):
        player.stage = "cleanup"
        interpreter.run_cleanup(plan.cleanup, run, TaskTiming().cleanup_s)
    return error


def _answers(recorded: Recording, stage: str) -> dict[str, str]:
    there = f"{stage} "
    return {step.removeprefix(there): choice for step, choice in recorded.answers.items() if step.startswith(there)}


def _differences(recorded: Recording, player: "Player", error: DroidherdError | None) -> list[Difference]:
    if player.differences:
        return list(player.differences)
    left = player.ahead()
    if error is not None and recorded.end in {COMPLETED, ""}:
        expected = f"{left} (recorded at {left.step})" if left else "to complete"
        return [Difference(f"{player.stage} {player.step}".strip(), expected, str(error))]
    if left is not None:
        return [Difference(left.step, str(left), f"nothing: {error or 'the flow ended before it'}")]
    if error is None and recorded.end not in {COMPLETED, ""}:
        return [Difference("", recorded.end, COMPLETED)]
    if error is not None and error.to and _place(recorded.end) != error.to:
        return [Difference(f"{player.stage} {player.step}".strip(), recorded.end, str(error))]
    return []


@dataclass(slots=True)
class Player:
    """Eyes, hands and clock of a recording. Frames between two acts are seen in their order, the last one for ever."""

    recorded: Recording
    log: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    stage: str = ""
    step: str = ""
    made: int = 0
    _at: int = 0
    _time: float = 1_000.0
    _last: RecordedLook | None = None
    _looks: int = 0
    _elements: str = "<hierarchy></hierarchy>"
    _marks: dict[str, str] = field(default_factory=dict)
    _frames: dict[str, Frame] = field(default_factory=dict)
    _shown: tuple[Frame, SearchResults] | None = None
    """A copy that lost detail, and what was found on the frame itself."""
    unjudged: dict[str, None] = field(default_factory=dict)
    """What was searched on copies, where nobody had searched it then."""

    def __post_init__(self) -> None:
        if self.recorded.part is not None:
            self._marks.update(self.recorded.part.marks)

    # --- eyes

    def look(self) -> Frame:
        self._looks += 1
        if self._looks > LOOKS_MAX:
            raise DivergedError(f"looked more than {LOOKS_MAX} times", to=f"step {self.step}")
        moments = self.recorded.moments
        while isinstance(self._here(), RecordedTree):
            self._at += 1  # nobody asked for these elements this time
        if isinstance(one := self._here(), RecordedLook):
            self._at += 1
            self._last = one
        elif self._last is None:
            self._last = next((one for one in moments if isinstance(one, RecordedLook)), None)
        if self._last is None:
            raise DivergedError("nothing was recorded to look at", to=f"step {self.step}")
        frame = replace(self._frame(self._last.frame))  # each look is one of its own, whatever it shows
        if self._last.is_copy:
            self._shown = (frame, self._last.searched)
        return frame

    def recorded_match(self, frame: Frame, target: Target) -> Match | None:
        """What was found then, where only a copy is left to look at."""
        if self._shown is None or self._shown[0] is not frame:
            return None
        what = describe(target)
        found = self._shown[1].get(what)
        if found is None:
            self.doubt(frame, what)
        return found

    def doubt(self, frame: Frame, what: str) -> None:
        """It is searched on a copy, and nobody knows what was found there then."""
        if self._shown is not None and self._shown[0] is frame:
            self.unjudged[what] = None

    def _frame(self, name: str) -> Frame:
        if name not in self._frames:
            if len(self._frames) >= FRAMES_KEPT:
                self._frames.pop(next(iter(self._frames)))
            self._frames[name] = self.recorded.frame(name)
        return self._frames[name]

    def focus(self) -> str:
        return ""

    def tree(self) -> str:
        """Of the frame seen last, or of the last one whose elements were recorded."""
        if isinstance(one := self._here(), RecordedTree):
            self._at += 1
            self._elements = self.recorded.tree(one.file)
        return self._elements

    def _here(self) -> Moment | None:
        return self.recorded.moments[self._at] if self._at < len(self.recorded.moments) else None

    # --- hands

    def ahead(self) -> RecordedAct | None:
        """The recorded act that comes next."""
        return next((one for one in self.recorded.moments[self._at :] if isinstance(one, RecordedAct)), None)

    def act(self, kind: str, **args: JsonValue) -> Acted:
        """As it was recorded, or DivergedError."""
        found, expected = RecordedAct(kind, args), self.ahead()
        where = f"{self.stage} {self.step}".strip()
        if expected is None:
            self._differs(Difference(where, "nothing more", str(found)))
        elif not alike(expected, found, self._screen()):
            self._differs(Difference(where, f"{expected} (recorded at {expected.step})", str(found)))
        else:
            self._at = self.recorded.moments.index(expected, self._at) + 1
            self.made += 1
            self._as_it_ended()
        return Acted.DONE

    def _as_it_ended(self) -> None:
        """The emulator refused the last act of the run; what follows is its cleanup."""
        left, end, step = self.ahead(), self.recorded.end, f"step {self.step}"
        if _REFUSED.search(end) and _place(end) == step and (left is None or _in_cleanup(left)):
            raise CommandFailedError(end, rc=1, to=step)

    def _differs(self, difference: Difference) -> None:
        self.differences.append(difference)
        raise DivergedError(str(difference))

    def _screen(self) -> tuple[int, int]:
        return _size(self.recorded)

    def recall(self) -> Mapping[str, Recalled]:
        return self.recorded.part.behind if self.recorded.part else {}

    def tap(self, effect: str, x: int, y: int) -> Acted:
        self.step = effect
        return self.act("tap", x=x, y=y)

    def swipe(self, effect: str, start: tuple[int, int], end: tuple[int, int], duration_s: float) -> Acted:  # noqa: ARG002
        self.step = effect
        return self.act("swipe", start=list(start), end=list(end))

    def type_text(self, effect: str, text: str) -> Acted:
        self.step = effect
        return self.act("type", text=text)

    def key(self, effect: str, key: str) -> Acted:
        self.step = effect
        return self.act("key", key=key)

    def start_app(self, effect: str, app: str) -> Acted:
        self.step = effect
        return self.act("start_app", app=app)

    def stop_app(self, effect: str, app: str) -> Acted:
        self.step = effect
        return self.act("stop_app", app=app)

    def clear_app(self, effect: str, app: str) -> Acted:
        self.step = effect
        return self.act("clear_app", app=app)

    def mark(self, effect: str, value: str = "") -> Acted:
        self.step = effect
        self._marks.setdefault(effect, value)
        return Acted.DONE

    def marked(self, effect: str) -> str | None:
        return self._marks.get(effect)

    def settle(self, effect: str) -> None:
        self.step = effect

    def forget(self, effect: str) -> None:
        self.step = effect

    # --- things and handlers

    def make(self, effect: str, wanted: Wanted) -> Acted:
        self.step = effect
        return self.act("change", thing=wanted.thing, name=wanted.name, to=str(wanted.state))

    def read(self, thing: str, name: str) -> State:
        raise DivergedError(f"reads {thing} {name}, which is not recorded")

    def handlers(self) -> "_Handlers":
        return _Handlers(self)

    # --- life and clock

    def beat(self, progress: str = "") -> None:
        if any(char.isdigit() for char in progress):
            self.step = progress

    def stopping(self) -> str:
        return ""

    def now(self) -> float:
        return self._time

    def sleep(self, seconds: float) -> None:
        self._time += seconds

    def date(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._time)


@dataclass(frozen=True, slots=True)
class _Finder:
    """Seeks on what was recorded. What only a copy is left of says what was found then."""

    finder: FlowFinder
    player: Player

    def find(self, look: Glance, target: Target) -> Match:
        return self.player.recorded_match(look.frame, target) or self.finder.find(look, target)

    def words(self, look: Glance, area: Area | None) -> str:
        self.player.doubt(look.frame, "words to read")
        return self.finder.words(look, area)

    def moved(self, before: Frame, after: Frame, area: Area | None) -> float:
        return self.finder.moved(before, after, area)


@dataclass(frozen=True, slots=True)
class _Handlers:
    """What a handler does inside is not recorded: it counts as one act."""

    player: Player

    def run(self, args: CallStep, doing: "HandlerActs") -> None:  # noqa: ARG002 - the shape of the port
        self.player.act("call", by=args.by)
