"""Which camera an emulator is seen with: probed once per boot, kept, and replaced when it breaks."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from droidherd import telemetry
from droidherd.adb.cameras import Camera, FramebufferCamera, PngCamera, RawCamera
from droidherd.adb.client import AdbClient
from droidherd.adb.wire import Interrupt
from droidherd.domain.errors import DroidherdError, InvalidFrameError, NotSentError, UnknownOutcomeError
from droidherd.domain.ports import Frame
from droidherd.vision.pixels import decode_png, difference

log = logging.getLogger(__name__)

PROBE_S = 10.0
SHOT_S = 5.0
FAILURES_BORNE = 1
"""In a row: emulators drop a frame now and then."""
ALIKE = 1.0
"""Mean levels per channel by which a frame may differ from the reference."""
RESTLESS = 1.5
"""On a screen that moves: so many times what the reference differs from itself a moment later."""
ROUNDS = 3
EMULATORS_MAX = 1_000

UNSEEN = (InvalidFrameError, NotSentError, UnknownOutcomeError)
"""What cameras raise. Anything else comes from whoever interrupted them, and is not for us."""

Difference = Callable[[Frame, Frame], float]


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of one camera in a probe."""

    name: str
    seconds: float = 0.0
    why_not: str = ""
    """Empty: it shows what is on the screen."""
    again: bool = False
    """The screen moved meanwhile: not the last word."""

    def __str__(self) -> str:
        return f"{self.name}: {self.why_not}" if self.why_not else f"{self.name} {self.seconds * 1000:.0f} ms"


@dataclass(frozen=True, slots=True)
class Sitting:
    """One probe: where, until when, and who may end it."""

    serial: str
    until_s: float
    interrupt: Interrupt | None = None

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.until_s

    def shot(self, camera: Camera) -> Frame:
        left_s = max(0.1, min(SHOT_S, self.until_s - time.monotonic()))
        return camera.take(self.serial, left_s, self.interrupt)


@dataclass(slots=True)
class Place:
    """How one emulator is seen."""

    ranking: list[Camera]
    judged: tuple[Judged, ...] = ()
    failures: int = 0
    turn: int = 0
    """Whose turn it is in `ranking`; not the first one's while that one is under suspicion."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def camera(self) -> Camera:
        return self.ranking[self.turn % len(self.ranking)]

    @property
    def why(self) -> str:
        return "; ".join(str(one) for one in self.judged) or "not probed"


class Cameras:
    """The cameras of one process, and how each emulator is seen. For several threads."""

    def __init__(self, cameras: Sequence[Camera], compare: Difference = difference) -> None:
        """In the order of preference when nothing is known. The one named `png` is the reference, else the first."""
        self._cameras = tuple(cameras)
        self._compare = compare
        self._reference = next((one for one in cameras if one.name == "png"), cameras[0])
        self._places: dict[str, Place] = {}
        self._lock = threading.Lock()

    @classmethod
    def all_of(cls, adb: AdbClient) -> "Cameras":
        """Every way there is."""
        return cls((RawCamera(adb), PngCamera(adb, decode_png), FramebufferCamera(adb)))

    @classmethod
    def raw_of(cls, adb: AdbClient) -> "Cameras":
        """The quickest one alone, without a probe."""
        return cls((RawCamera(adb),))

    def known(self, emulator_id: str) -> Place | None:
        return self._places.get(emulator_id)

    # --- the choice -------------------------------------------------------------------------------------------

    def forget(self, emulator_id: str) -> None:
        """It booted: what was found out before says nothing any more. The next frame is taken after a probe."""
        with self._lock:
            self._places.pop(emulator_id, None)

    def probe(
        self, emulator_id: str, serial: str, deadline_s: float = PROBE_S, interrupt: Interrupt | None = None
    ) -> Place:
        """Try every camera against the reference, and keep those that show the same, quickest first.

        InvalidFrameError when none of them shows anything.
        """
        sitting = Sitting(serial, time.monotonic() + deadline_s, interrupt)
        judged = tuple(self._judged(sitting)) if len(self._cameras) > 1 else ()
        good = sorted((one for one in judged if not one.why_not), key=lambda one: one.seconds)
        by_name = {one.name: one for one in self._cameras}
        ranking = [by_name[one.name] for one in good] if judged else [*self._cameras]
        if not ranking:
            told = "; ".join(str(one) for one in judged)
            raise InvalidFrameError(f"no camera shows anything: {told}", to=emulator_id)
        place = Place(ranking, judged)
        self._keep(emulator_id, place)
        log.info("%s is seen with %s (%s)", emulator_id, place.camera.name, place.why)
        return place

    def _keep(self, emulator_id: str, place: Place) -> None:
        with self._lock:
            self._places.pop(emulator_id, None)
            while len(self._places) >= EMULATORS_MAX:
                self._places.pop(next(iter(self._places)))
            self._places[emulator_id] = place
        self._show()

    def _show(self) -> None:
        names = [place.ranking[0].name for place in list(self._places.values())]
        for camera in self._cameras:
            telemetry.metrics.cameras.labels(camera=camera.name).set(names.count(camera.name))

    def _judged(self, sitting: Sitting) -> list[Judged]:
        """Each camera's frame, held against the reference's right before and right after it."""
        before = self._first_reference(sitting)
        found: list[Judged] = []
        for camera in self._cameras:
            verdict = Judged(camera.name, why_not="no time was left to try it")
            for _ in range(ROUNDS):
                if sitting.over:
                    break
                verdict, before = self._tried(camera, sitting, before)
                if not verdict.again:
                    break
            found.append(verdict)
        return found

    def _first_reference(self, sitting: Sitting) -> Frame | None:
        try:
            return sitting.shot(self._reference)
        except UNSEEN:
            return None

    def _tried(self, camera: Camera, sitting: Sitting, before: Frame | None) -> tuple[Judged, Frame | None]:
        began_s = time.monotonic()
        try:
            frame = sitting.shot(camera)
        except UNSEEN as error:
            return Judged(camera.name, why_not=error.what), before
        seconds = time.monotonic() - began_s
        if camera is self._reference or before is None:
            # Without a reference the first that shows anything becomes it: lossless ones stand in front.
            return Judged(camera.name, seconds), frame
        try:
            after = sitting.shot(self._reference)
        except UNSEEN:
            after = before
        return self._compared(Judged(camera.name, seconds), frame, before, after), after

    def _compared(self, judged: Judged, frame: Frame, before: Frame, after: Frame) -> Judged:
        size = (frame.width, frame.height)
        if (before.width, before.height) != (after.width, after.height):
            return replace(judged, why_not="the screen was turned meanwhile", again=True)
        if size != (after.width, after.height):
            return replace(judged, why_not=f"{size[0]}x{size[1]} instead of {after.width}x{after.height}")
        moved = self._compare(before, after)
        off = min(self._compare(frame, before), self._compare(frame, after))
        most = max(ALIKE, RESTLESS * moved)
        if off <= most:
            return judged
        why = f"differs from the reference by {off:.1f} levels, {most:.1f} are borne"
        return replace(judged, why_not=why, again=moved > ALIKE)

    # --- taking frames ----------------------------------------------------------------------------------------

    def take(self, emulator_id: str, serial: str, deadline_s: float, interrupt: Interrupt | None = None) -> Frame:
        """A frame by the emulator's own camera. One that was never probed is probed now.

        Two failures in a row put the next camera in its place; it is out for good once it fails where that one does
        not.
        """
        place = self.known(emulator_id) or self._place(emulator_id, serial, deadline_s, interrupt)
        camera, sitting = place.camera, Sitting(serial, time.monotonic() + deadline_s, interrupt)
        try:
            frame = self._taken(camera, serial, deadline_s, interrupt)
        except (InvalidFrameError, UnknownOutcomeError):
            self._count_failure(emulator_id, place)
            raise
        with place.lock:
            place.failures = 0
            suspects = place.ranking[: place.turn]
        if suspects:
            self._settle(emulator_id, sitting, place, suspects)
        return frame

    def _count_failure(self, emulator_id: str, place: Place) -> None:
        """Once all have failed in turn, those that the probe left out get another chance: with the next frame."""
        with place.lock:
            place.failures += 1
            if place.failures <= FAILURES_BORNE:
                return
            place.failures, place.turn = 0, (place.turn + 1) % len(place.ranking)
            none_is_left = place.turn == 0 and len(place.ranking) < len(self._cameras)
        if none_is_left:
            self.forget(emulator_id)

    def glimpse(self, emulator_id: str, serial: str, deadline_s: float) -> Frame:
        """For onlookers: one capture by the camera that is known, else by the first. It changes nothing."""
        place = self.known(emulator_id)
        return self._taken(place.camera if place else self._cameras[0], serial, deadline_s, None)

    def _place(self, emulator_id: str, serial: str, deadline_s: float, interrupt: Interrupt | None) -> Place:
        if len(self._cameras) > 1:
            return self.probe(emulator_id, serial, min(PROBE_S, deadline_s), interrupt)
        place = Place([*self._cameras])
        self._keep(emulator_id, place)
        return place

    def _taken(self, camera: Camera, serial: str, deadline_s: float, interrupt: Interrupt | None) -> Frame:
        """Counted; and never older than the question."""
        asked_s, outcome = time.monotonic(), "ok"
        try:
            frame = camera.take(serial, deadline_s, interrupt)
            if frame.taken_at_s < asked_s:
                stale_s = asked_s - frame.taken_at_s
                raise InvalidFrameError(f"stale: taken {stale_s:.1f} s before it was asked for", to=serial)
        except DroidherdError as error:
            outcome = type(error).__name__
            raise
        else:
            return frame
        finally:
            telemetry.metrics.frames.labels(camera=camera.name, outcome=outcome).inc()

    def _settle(self, emulator_id: str, sitting: Sitting, place: Place, suspects: list[Camera]) -> None:
        """Another camera sees something now: find out whether the first is broken, or there was nothing to be seen.

        In what is left of the time in which a frame was asked for; when nothing is, with the next frame.
        """
        for camera in suspects:
            left_s = min(SHOT_S, sitting.until_s - time.monotonic())
            if left_s <= 0:
                return
            try:
                self._taken(camera, sitting.serial, left_s, sitting.interrupt)
            except UNSEEN as error:
                log.warning("%s is not seen with %s any more: %s", emulator_id, camera.name, error)
                with place.lock:
                    place.ranking = [one for one in place.ranking if one is not camera]
            else:
                break
        with place.lock:
            place.turn = 0
        self._show()
