"""Looking and waiting: every poll beats, every wait ends, and standing still is noticed."""

import zlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from droidherd.domain.errors import (
    ClickLoopError,
    FlowError,
    InvalidFrameError,
    NotSentError,
    RestlessError,
    ScreenNotReachedError,
    StageTimeoutError,
    StuckError,
    UnknownOutcomeError,
)
from droidherd.domain.ports import Box, Frame, Match
from droidherd.flows.model.scalars import format_duration
from droidherd.flows.model.steps.screen import VALUE_MAX, ReadStep, WaitStep, value_in
from droidherd.flows.model.targets import ScreenCondition, Target, describe
from droidherd.flows.run import clicks
from droidherd.flows.run.context import StageContext, StopAskedError
from droidherd.flows.run.judging import Judgement, complaint, elsewhere, judge_target
from droidherd.flows.run.look import Look

SLEEP_SLICE_S = 1.0
T = TypeVar("T")


class ScreenWatch:
    """The eyes of one run of a stage, with its deadlines."""

    def __init__(self, run: StageContext, limit_s: float) -> None:
        """The stage's total time begins now."""
        self._run = run
        self._limit_s = limit_s
        self._deadline = run.clock.now() + limit_s
        self._moved_at = run.clock.now()
        self._checksum = 0
        self.last: Frame | None = None
        """The frame seen last: evidence."""
        self.dismiss: Callable[[Look, str], bool] = _nothing_comes_between
        """Deals with what came between, if something is there on this look; True: look again."""
        self._between_s = 0.0
        """How long all that took."""
        guards = run.screen_map.guards
        self._stuck_s = guards.stuck or run.tempo.progress_s
        self._clicks = clicks.ClickGuard(guards.taps, guards.of, guards.changed)
        self._judged: Frame | None = None

    def let_go(self) -> None:
        """Of the frames: whoever runs a stage stands in a ring with what it runs, and is not cleared away at once."""
        self.last = self._judged = None

    def advance(self) -> None:
        """A step was done or a frame changed: the progress deadline begins anew."""
        self._moved_at = self._run.clock.now()

    def boundary(self, path: str, *, stoppable: bool = True) -> None:
        """Between two steps: beat, and stop here when asked to."""
        self._beat(path)
        reason = self._run.life.stopping() if stoppable else ""
        if reason:
            raise StopAskedError(reason)

    def look(self, path: str) -> Frame:
        """One valid frame."""
        frame = self._borne(self._run.eyes.look, path)
        self._note_seen(frame, path)
        return frame

    def _borne(self, ask: Callable[[], T], path: str) -> T:
        """Ask the eyes. A few bad answers in a row are borne: emulators drop one now and then."""
        tempo = self._run.tempo
        for attempt in range(tempo.looks_max):
            self._beat(path)
            try:
                return ask()
            except (InvalidFrameError, NotSentError, UnknownOutcomeError) as error:
                if attempt + 1 == tempo.looks_max:
                    raise
                self._run.note(f"{path}: no frame: {error}")
                self.rest(tempo.retry_s * 2**attempt, path)
        raise InvalidFrameError("no look is allowed", remedy="raise looks_max")

    def clear(self, path: str) -> Look:
        """One look with nothing on it that came between, for any number of checks."""
        look = self._glance(path)
        while True:
            began = self._run.clock.now()
            if not self.dismiss(look, path):
                return look
            look = self._glance(path)
            self._between_s += self._run.clock.now() - began

    def looks(self, within_s: float, path: str, *, stoppable: bool = True) -> Iterator[Look]:
        """One clear look after the other until the time is up, and at least one. What comes between takes no time."""
        clock = self._run.clock
        end = clock.now() - self._between_s + within_s
        while True:
            yield self.clear(path)
            left = end + self._between_s - clock.now()
            if left <= 0:
                return
            if stoppable:
                self.boundary(path)
            self._judge_progress(path)
            self.rest(min(self._run.tempo.poll_s, left), path)

    def holds(self, look: Look, condition: Target, path: str) -> tuple[Match, bool]:
        """Whether it is to be seen on this look, and the match that says so. What cannot be told now is not."""
        try:
            one = self.judge(look, condition, path)
        except RestlessError as error:
            self._run.note(f"{path}: {error}")
            return Match(found=False, box=Box(0, 0, 0, 0), score=0.0, runner_up=0.0), False
        return one.match, one.holds

    def screen(self, name: str) -> ScreenCondition:
        """What a screen is recognised by."""
        found = self._run.screen_map.screens.get(name)
        if found is None:
            raise FlowError(f"there is no screen {name}", remedy="declare it under screens")
        return found

    def check_tap(self, target: str, place: tuple[int, int], path: str) -> None:
        """Before a tap: whether it is one too many. What nobody looked at since the last tap tells nothing."""
        frame = self.last
        if frame is None or frame is self._judged:
            return
        self._judged = frame
        where = (place[0] / max(1, frame.width), place[1] / max(1, frame.height))
        if found := self._clicks.judge(clicks.MadeTap(target, where, clicks.look_of(frame))):
            remedy = "see the last frame in the artifacts; if so many taps are meant, raise guards: {taps: ...}"
            raise ClickLoopError(f"taps {found}", to=f"step {path}", remedy=remedy)

    def came_true(self) -> None:
        """What an act was to bring about is to be seen: if a tap did it, it got somewhere."""
        if self.last is not None:
            self._clicks.came_true(clicks.look_of(self.last))

    def size(self, path: str) -> tuple[int, int]:
        """The screen's width and height."""
        frame = self.last or self.look(path)
        return frame.width, frame.height

    def judge(self, look: Look, condition: Target, path: str) -> Judgement:
        """Whether it holds on this look."""
        return judge_target(condition, lambda target: self._find(look, target, path), self.screen)

    def wait_for(self, condition: Target, within_s: float, path: str, *, stoppable: bool = True) -> Match:
        """The match that ends the wait, or ScreenNotReachedError with what was seen instead."""
        one = self._poll(condition, within_s, path, stoppable=stoppable)
        if not one.holds:
            time = format_duration(within_s) if within_s else "its turns"  # only a loop's `until` has no time
            what = complaint(one, time)
            raise ScreenNotReachedError(what, to=f"step {path}", remedy="see the last frame in the artifacts")
        return one.match

    def poll(self, condition: Target, within_s: float, path: str, *, stoppable: bool = True) -> tuple[Match, bool]:
        """Look until it holds or the time is up: the last match, and whether it holds. Looks at least once."""
        one = self._poll(condition, within_s, path, stoppable=stoppable)
        return one.match, one.holds

    def wait_until_stable(self, args: WaitStep, path: str, *, stoppable: bool = True) -> None:
        """Until nothing moved for so long. What creeps slowly moves too: frames are compared with the first one."""
        clock, tempo, stable_s = self._run.clock, self._run.tempo, args.stable or 0.0
        end = clock.now() + args.within
        first = self.clear(path).frame
        since_s, moved = clock.now(), 0.0
        while True:
            asked_s = clock.now()
            if asked_s >= end:
                what = f"did not stand still for {format_duration(stable_s)} within {format_duration(args.within)}"
                raise ScreenNotReachedError(f"the screen {what}: {moved:.1%} moved at last", to=f"step {path}")
            if stoppable:
                self.boundary(path)
            self.rest(min(tempo.poll_s, end - asked_s, max(0.01, since_s + stable_s - asked_s)), path)
            asked_s, frame = clock.now(), self.clear(path).frame
            share = self._run.finder.moved(first, frame, args.area)
            if share * 100 > args.moves:
                first, since_s, moved = frame, clock.now(), share
            elif asked_s - since_s >= stable_s:
                return

    def sleep(self, seconds: float, path: str, *, stoppable: bool = True) -> None:
        """Do nothing for a while, but keep beating."""
        end = self._run.clock.now() + seconds
        while (left := end - self._run.clock.now()) > 0:
            self.boundary(path, stoppable=stoppable)
            self.rest(min(SLEEP_SLICE_S, left), path)

    def rest(self, seconds: float, path: str) -> None:
        """Sleep, but not beyond the end of the stage."""
        left = self._deadline - self._run.clock.now()
        self._run.clock.sleep(max(0.0, min(seconds, left)))
        self._beat(path)

    def read(self, args: ReadStep, path: str, *, stoppable: bool = True) -> str:
        """What can be read, or ScreenNotReachedError."""

        def attempt(look: Look) -> tuple[tuple[str, str], bool]:
            words, there = self._read_off(args, look, path)
            value = value_in(words, args.match)
            return (there, value), bool(value)

        (there, value), good = self._until(attempt, args.within, path, stoppable=stoppable)
        if good and len(value) <= VALUE_MAX:
            return value
        what = f"{args.into} could not be read within {format_duration(args.within)}: {there}"
        if good:
            what = f"{args.into} is longer than {VALUE_MAX} characters: {value[:80]!r}"
        raise ScreenNotReachedError(what, to=f"step {path}", remedy="say with match and area what is meant")

    def _read_off(self, args: ReadStep, look: Look, path: str) -> tuple[str, str]:
        """The words, and what to say where they will not do."""
        if args.text is not None:
            words = self._run.finder.words(look, args.text.area)
        else:
            match = self._find(look, Target(ui=args.ui), path)
            if not match.found:
                return "", elsewhere(match)
            words = match.text
        return words, f"{words[:80]!r} is there"

    def _poll(self, condition: Target, within_s: float, path: str, *, stoppable: bool) -> Judgement:
        def attempt(look: Look) -> tuple[Judgement, bool]:
            one = self.judge(look, condition, path)
            return one, one.holds

        return self._until(attempt, within_s, path, stoppable=stoppable)[0]

    def _glance(self, path: str) -> Look:
        return Look(self.look(path), lambda: self._tree(path))

    def _until(
        self, attempt: Callable[[Look], tuple[T, bool]], within_s: float, path: str, *, stoppable: bool
    ) -> tuple[T, bool]:
        """What the first good attempt said, or the last one.

        Elements that cannot be told are neither there nor gone: another look may tell, and the last one has to.
        """
        last: tuple[T, bool] | RestlessError = RestlessError("nobody looked", to=f"step {path}")
        for look in self.looks(within_s, path, stoppable=stoppable):
            try:
                last = attempt(look)
            except RestlessError as error:
                self._run.note(f"{path}: {error}")
                last = error
            else:
                if last[1]:
                    return last
        if isinstance(last, RestlessError):
            raise last
        return last

    def _find(self, look: Look, target: Target, path: str) -> Match:
        match = self._run.finder.find(look, target)
        self._run.seen(path, describe(target), look.frame, match)
        return match

    def _tree(self, path: str) -> str:
        tree = self._borne(self._run.eyes.tree, path)
        self._beat(path)  # it costs a second or more on a real emulator
        return tree

    def _beat(self, path: str) -> None:
        self._run.life.beat(path)
        if self._run.clock.now() >= self._deadline:
            raise StageTimeoutError(f"not done within {format_duration(self._limit_s)}", to=f"step {path}")

    def _note_seen(self, frame: Frame, path: str) -> None:
        self.last = frame
        self._run.seen(path, "", frame, None)
        checksum = zlib.crc32(frame.rgba)
        if checksum != self._checksum:
            self._checksum = checksum
            self.advance()

    def _judge_progress(self, path: str) -> None:
        stable_s = self._run.clock.now() - self._moved_at
        if stable_s >= self._stuck_s:
            raise StuckError(f"nothing moved for {format_duration(round(stable_s))}", to=f"step {path}")


def _nothing_comes_between(look: Look, path: str) -> bool:  # noqa: ARG001 -- the shape of a dismissal
    return False
