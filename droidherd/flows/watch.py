"""Looking and waiting: every poll beats, every wait ends, and standing still is noticed."""

import zlib

from droidherd.domain.errors import (
    InvalidFrameError,
    NotSentError,
    ScreenNotReachedError,
    StageTimeoutError,
    StuckError,
    UnknownOutcomeError,
)
from droidherd.domain.ports import Box, Frame, Match
from droidherd.flows.duration import format_duration
from droidherd.flows.model import Area, Sight, Tap
from droidherd.flows.run import StageRun, StopAskedError

PAUSE_SLICE_S = 1.0


class Watch:
    """The eyes of one run of a stage, with its deadlines."""

    def __init__(self, run: StageRun, limit_s: float) -> None:
        """The stage's total time begins now."""
        self._run = run
        self._limit_s = limit_s
        self._deadline = run.clock.now() + limit_s
        self._moved_at = run.clock.now()
        self._checksum = 0
        self.last: Frame | None = None
        """The frame seen last: evidence."""

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
        """One valid frame. A few bad ones in a row are borne: emulators drop one now and then."""
        tempo = self._run.tempo
        for attempt in range(tempo.looks_max):
            self._beat(path)
            try:
                frame = self._run.eyes.look()
            except (InvalidFrameError, NotSentError, UnknownOutcomeError) as error:
                if attempt + 1 == tempo.looks_max:
                    raise
                self._run.note(f"{path}: no frame: {error}")
                self.rest(tempo.retry_s * 2**attempt, path)
                continue
            self._seen(frame, path)
            return frame
        raise InvalidFrameError("no look is allowed", remedy="raise looks_max")

    def size(self, path: str) -> tuple[int, int]:
        """The screen's width and height."""
        frame = self.last or self.look(path)
        return frame.width, frame.height

    def find(self, frame: Frame, image: str, sight: Sight | Tap, path: str = "") -> Match:
        """Where an image is on a frame."""
        area = _area_in(frame, sight.area)
        match = self._run.finder.find(frame, image, threshold=sight.threshold, area=area)
        self._run.seen(path, image, frame, match)
        return match

    def wait_for(self, sight: Sight | Tap, within_s: float, path: str, *, stoppable: bool = True) -> Match:
        """The match that ends the wait, or ScreenNotReachedError with what was seen instead."""
        match, holds = self.poll(sight, within_s, path, stoppable=stoppable)
        if not holds:
            raise _not_reached(sight, within_s, path, match)
        return match

    def poll(self, sight: Sight | Tap, within_s: float, path: str, *, stoppable: bool = True) -> tuple[Match, bool]:
        """Look until it holds or the time is up: the last match, and whether it holds. Looks at least once."""
        clock, end = self._run.clock, self._run.clock.now() + within_s
        image, wanted = _wanted(sight)
        while True:
            match = self.find(self.look(path), image, sight, path)
            if match.found == wanted:
                return match, True
            left = end - clock.now()
            if left <= 0:
                return match, False
            if stoppable:
                self.boundary(path)
            self._judge_progress(path)
            self.rest(min(self._run.tempo.poll_s, left), path)

    def pause(self, seconds: float, path: str, *, stoppable: bool = True) -> None:
        """Do nothing for a while, but keep beating."""
        end = self._run.clock.now() + seconds
        while (left := end - self._run.clock.now()) > 0:
            self.boundary(path, stoppable=stoppable)
            self.rest(min(PAUSE_SLICE_S, left), path)

    def rest(self, seconds: float, path: str) -> None:
        """Sleep, but not beyond the end of the stage."""
        left = self._deadline - self._run.clock.now()
        self._run.clock.sleep(max(0.0, min(seconds, left)))
        self._beat(path)

    def _beat(self, path: str) -> None:
        self._run.life.beat(path)
        if self._run.clock.now() >= self._deadline:
            raise StageTimeoutError(f"not done within {format_duration(self._limit_s)}", to=f"step {path}")

    def _seen(self, frame: Frame, path: str) -> None:
        self.last = frame
        self._run.seen(path, "", frame, None)
        checksum = zlib.crc32(frame.rgba)
        if checksum != self._checksum:
            self._checksum = checksum
            self.advance()

    def _judge_progress(self, path: str) -> None:
        still_s = self._run.clock.now() - self._moved_at
        if still_s >= self._run.tempo.progress_s:
            raise StuckError(f"nothing moved for {format_duration(round(still_s))}", to=f"step {path}")


def _wanted(sight: Sight | Tap) -> tuple[str, bool]:
    """The image to look for, and whether it should be there."""
    gone = sight.gone if isinstance(sight, Sight) else None
    return (sight.image, True) if sight.image is not None else (gone or "", False)


def _area_in(frame: Frame, area: Area | None) -> Box | None:
    if area is None:
        return None
    left, right = (round(part * frame.width / 100) for part in (area[0], area[2]))
    top, bottom = (round(part * frame.height / 100) for part in (area[1], area[3]))
    return Box(left, top, right - left, bottom - top)


def _not_reached(sight: Sight | Tap, within_s: float, path: str, match: Match) -> ScreenNotReachedError:
    image, wanted = _wanted(sight)
    time, box = format_duration(within_s), match.box
    what = f"{image} did not appear within {time}" if wanted else f"{image} did not go away within {time}"
    best = f"best match {match.score:.2f} of {sight.threshold:.2f} at {box.x},{box.y}"
    return ScreenNotReachedError(f"{what}: {best}", to=f"step {path}", remedy="see the last frame in the artifacts")
