"""Which camera an emulator is seen with: probed once per boot, kept, and replaced when it breaks."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from droidherd import telemetry
from droidherd.adb.cameras import Camera, RawCamera, every_camera
from droidherd.adb.client import AdbClient
from droidherd.adb.wire import CallInterrupt
from droidherd.domain.errors import DroidherdError, InvalidFrameError, NotSentError, UnknownOutcomeError
from droidherd.domain.ports import Frame
from droidherd.processes import pidfile
from droidherd.vision.pixels import decode_png, difference

log = logging.getLogger(__name__)

PROBE_S = 10.0
SHOT_S = 5.0
FRESH_S = 1.0
"""A frame of the probe this old is handed to nobody: what is seen is acted on."""
FAILURES_BORNE = 1
"""In a row: emulators drop a frame now and then."""
ALIKE = 1.0
"""Mean levels per channel by which a frame may differ from the reference."""
RESTLESS = 1.5
"""On a screen that moves: so many times what the reference differs from itself a moment later."""
ROUNDS = 3
EMULATORS_MAX = 1_000
FILE = "cameras.json"
"""In the data folder: how each emulator is seen. A worker that starts takes no emulator's time to find that out."""
_RANKINGS = TypeAdapter(dict[str, list[str]])

UNSEEN = (InvalidFrameError, NotSentError, UnknownOutcomeError)
"""What cameras raise. Anything else comes from whoever interrupted them, and is not for us."""

Difference = Callable[[Frame, Frame], float]


@dataclass(frozen=True, slots=True)
class CameraCheck:
    """What became of one camera in a probe."""

    name: str
    seconds: float = 0.0
    why_not: str = ""
    """Empty: it shows what is on the screen."""
    again: bool = False
    """The screen moved meanwhile, or a frame was dropped: not the last word."""

    def __str__(self) -> str:
        return f"{self.name}: {self.why_not}" if self.why_not else f"{self.name} {self.seconds * 1000:.0f} ms"


@dataclass(frozen=True, slots=True)
class FrameRequest:
    """Where frames are taken, until when, and who may end it."""

    serial: str
    until_s: float
    interrupt: CallInterrupt | None = None

    @property
    def left_s(self) -> float:
        return self.until_s - time.monotonic()

    def half(self) -> "FrameRequest":
        """The first half of what is left."""
        return replace(self, until_s=_in(self.left_s / 2))

    def shot(self, camera: Camera, most_s: float = SHOT_S, *, counted: bool = False) -> Frame:
        """Never older than the question. `counted`: in the metrics, as a frame that somebody needed."""
        asked_s, left_s = time.monotonic(), min(most_s, self.left_s)
        outcome = "ok"
        try:
            if left_s <= 0:
                raise NotSentError("no time was left to try it", to=self.serial)
            frame = camera.take(self.serial, left_s, self.interrupt)
            if frame.taken_at_s < asked_s:
                stale_s = asked_s - frame.taken_at_s
                raise InvalidFrameError(f"stale: taken {stale_s:.1f} s before it was asked for", to=self.serial)
        except DroidherdError as error:
            outcome = type(error).__name__
            raise
        else:
            return frame
        finally:
            if counted:
                telemetry.metrics.frames.labels(camera=camera.name, outcome=outcome).inc()


@dataclass(slots=True)
class ProbedFrames:
    """What a probe has seen so far: the newest frame of each camera, and which one the others are held against."""

    reference: Camera | None = None
    frames: dict[str, Frame] = field(default_factory=dict)


@dataclass(slots=True)
class CameraChoice:
    """How one emulator is seen."""

    ranking: list[Camera]
    judged: tuple[CameraCheck, ...] = ()
    failures: int = 0
    turn: int = 0
    """Whose turn it is in `ranking`; not the first one's while that one is under suspicion."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def camera(self) -> Camera:
        return self.ranking[self.turn % len(self.ranking)]

    @property
    def why(self) -> str:
        return "; ".join(str(one) for one in self.judged) or "not probed by this worker"


class Cameras:
    """The cameras of one process, and how each emulator is seen. For several threads."""

    def __init__(
        self, cameras: Sequence[Camera], compare: Difference = difference, *, folder: Path | None = None
    ) -> None:
        """In the order of preference when nothing is known. The one named `png` is the reference, else the first.

        `folder`: where choices are kept for the next worker. A boot gate has them made anew, whoever made them.
        """
        self._cameras = tuple(cameras)
        self._compare = compare
        self._reference = next((one for one in cameras if one.name == "png"), cameras[0])
        self._file = folder / FILE if folder is not None else None
        self._choices = self._kept_choices()
        self._lock = threading.Lock()

    @classmethod
    def all_of(cls, adb: AdbClient, folder: Path | None = None) -> "Cameras":
        """Every way there is."""
        return cls(every_camera(adb, decode_png), folder=folder)

    @classmethod
    def raw_of(cls, adb: AdbClient) -> "Cameras":
        """The quickest one alone, without a probe."""
        return cls((RawCamera(adb),))

    def choice_for(self, emulator_id: str) -> CameraChoice | None:
        return self._choices.get(emulator_id)

    # --- the choice -------------------------------------------------------------------------------------------

    def forget(self, emulator_id: str) -> None:
        """It booted: what was found out before says nothing any more. The next frame is taken after a probe."""
        with self._lock:
            self._choices.pop(emulator_id, None)
            self._save()

    def probe(
        self, emulator_id: str, serial: str, deadline_s: float = PROBE_S, interrupt: CallInterrupt | None = None
    ) -> CameraChoice:
        """Try every camera against the reference, and keep those that show the same, quickest first.

        InvalidFrameError when none of them shows anything.
        """
        return self._probe(emulator_id, FrameRequest(serial, _in(deadline_s), interrupt))[0]

    def _probe(self, emulator_id: str, request: FrameRequest) -> tuple[CameraChoice, Camera, Frame]:
        """With the newest frame that may be believed, and by whom it is."""
        seen = ProbedFrames()
        judged = self._check_all(request, seen)
        by_name = {one.name: one for one in self._cameras}
        good = sorted((one for one in judged if not one.why_not), key=lambda one: one.seconds)
        if not good:
            reasons = "; ".join(str(one) for one in judged)
            raise InvalidFrameError(f"no camera shows anything: {reasons}", to=emulator_id)
        choice = CameraChoice([by_name[one.name] for one in good], judged)
        self._keep(emulator_id, choice)
        log.info("%s is seen with %s (%s)", emulator_id, choice.camera.name, choice.why)
        newest = max(choice.ranking, key=lambda one: seen.frames[one.name].taken_at_s)
        return choice, newest, seen.frames[newest.name]

    def _keep(self, emulator_id: str, choice: CameraChoice) -> None:
        with self._lock:
            self._choices.pop(emulator_id, None)
            while len(self._choices) >= EMULATORS_MAX:
                self._choices.pop(next(iter(self._choices)))
            self._choices[emulator_id] = choice
            self._save()
        self._show()

    def _save(self) -> None:
        """Under the lock. What cannot be kept is found out again."""
        if self._file is None:
            return
        rankings = {name: [camera.name for camera in choice.ranking] for name, choice in self._choices.items()}
        try:
            pidfile.write_json(self._file, rankings)
        except OSError as error:
            log.warning("how emulators are seen was not kept for the next worker: %s", error)

    def _kept_choices(self) -> dict[str, CameraChoice]:
        """Of the worker before. Cameras that there are no more count for nothing."""
        if self._file is None:
            return {}
        try:
            rankings = _RANKINGS.validate_json(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError) as error:
            log.warning("%s is not followed, every emulator's cameras are tried again: %s", self._file, error)
            return {}
        by_name = {one.name: one for one in self._cameras}
        known = {name: [by_name[one] for one in names if one in by_name] for name, names in rankings.items()}
        return {name: CameraChoice(ranking) for name, ranking in known.items() if ranking}

    def _show(self) -> None:
        names = [choice.ranking[0].name for choice in list(self._choices.values())]
        for camera in self._cameras:
            telemetry.metrics.cameras.labels(camera=camera.name).set(names.count(camera.name))

    def _check_all(self, request: FrameRequest, seen: ProbedFrames) -> tuple[CameraCheck, ...]:
        """The reference first, then each camera's frame held against the reference's right before and right after it.

        Each gets half of what is left: the first ones, which are slow where a host is busy, enough of it, and whatever
        they do something remains for the others and for the frame that all this is for.
        """
        found: dict[str, CameraCheck] = {}
        tried = sorted(self._cameras, key=lambda one: one is not self._reference)
        for camera in tried:
            part = request.half()
            for _ in range(ROUNDS):
                found[camera.name] = self._check_one(camera, part, seen)
                if not found[camera.name].again or part.left_s <= 0:
                    break
        return tuple(found[one.name] for one in self._cameras)

    def _check_one(self, camera: Camera, part: FrameRequest, seen: ProbedFrames) -> CameraCheck:
        began_s = time.monotonic()
        try:
            frame = part.shot(camera)
        except UNSEEN as error:
            # The reference gets another try, should it have dropped a frame: without it nothing is compared with what
            # is lossless.
            again = camera is self._reference and isinstance(error, InvalidFrameError)
            return CameraCheck(camera.name, why_not=error.what, again=again)
        judged = CameraCheck(camera.name, time.monotonic() - began_s)
        seen.frames[camera.name] = frame
        if seen.reference is None:
            # Where the reference shows nothing the first that does stands in for it: lossless ones stand in front.
            seen.reference = camera
            return judged
        before = seen.frames[seen.reference.name]
        with contextlib.suppress(*UNSEEN):
            seen.frames[seen.reference.name] = part.shot(seen.reference)
        return self._compare_frames(judged, frame, before, seen.frames[seen.reference.name])

    def _compare_frames(self, judged: CameraCheck, frame: Frame, before: Frame, after: Frame) -> CameraCheck:
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

    def take(self, emulator_id: str, serial: str, deadline_s: float, interrupt: CallInterrupt | None = None) -> Frame:
        """A frame by the emulator's own camera. One that was never probed is probed now.

        Two failures in a row put the next camera in its place; it is out for good once it fails where that one does
        not.
        """
        request = FrameRequest(serial, _in(deadline_s), interrupt)
        choice = self.choice_for(emulator_id)
        if choice is None:
            choice, frame = self._first_choice(emulator_id, request)
            if frame is not None:
                return frame
        try:
            frame = request.shot(choice.camera, float("inf"), counted=True)
        except (InvalidFrameError, UnknownOutcomeError):
            self._count_failure(emulator_id, choice)
            raise
        with choice.lock:
            choice.failures = 0
            suspects = choice.ranking[: choice.turn]
        if suspects:
            self._settle(emulator_id, request, choice, suspects)
        return frame

    def _first_choice(self, emulator_id: str, request: FrameRequest) -> tuple[CameraChoice, Frame | None]:
        """By a probe; with its newest frame, if that is fresh. Where there is one camera alone, that one."""
        if len(self._cameras) == 1:
            choice = CameraChoice([*self._cameras])
            self._keep(emulator_id, choice)
            return choice, None
        until_s = min(request.until_s, _in(PROBE_S))
        choice, camera, frame = self._probe(emulator_id, replace(request, until_s=until_s))
        if time.monotonic() - frame.taken_at_s > FRESH_S:
            return choice, None
        telemetry.metrics.frames.labels(camera=camera.name, outcome="ok").inc()
        return choice, frame

    def _count_failure(self, emulator_id: str, choice: CameraChoice) -> None:
        """Once all have failed in turn, those that the probe left out get another chance: with the next frame."""
        with choice.lock:
            choice.failures += 1
            if choice.failures <= FAILURES_BORNE:
                return
            choice.failures, choice.turn = 0, (choice.turn + 1) % len(choice.ranking)
            none_is_left = choice.turn == 0 and len(choice.ranking) < len(self._cameras)
        if none_is_left:
            self.forget(emulator_id)

    def glimpse(self, emulator_id: str, serial: str, deadline_s: float) -> Frame:
        """For viewers: one capture by the camera that is known, else by the first. It changes nothing."""
        choice = self.choice_for(emulator_id)
        camera = choice.camera if choice else self._cameras[0]
        return FrameRequest(serial, _in(deadline_s)).shot(camera, float("inf"), counted=True)

    def _settle(self, emulator_id: str, request: FrameRequest, choice: CameraChoice, suspects: list[Camera]) -> None:
        """Another camera sees something now: find out whether the first is broken, or there was nothing to be seen.

        In what is left of the time in which a frame was asked for; when nothing is, with the next frame.
        """
        for camera in suspects:
            if request.left_s <= 0:
                return
            try:
                request.shot(camera, counted=True)
            except UNSEEN as error:
                log.warning("%s is not seen with %s any more: %s", emulator_id, camera.name, error)
                with choice.lock:
                    choice.ranking = [one for one in choice.ranking if one is not camera]
            else:
                break
        with choice.lock:
            choice.turn = 0
        with self._lock:
            self._save()
        self._show()


def _in(seconds: float) -> float:
    return time.monotonic() + seconds
