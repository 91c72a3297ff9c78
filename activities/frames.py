"""Frames for people who look at an emulator: on the host's queue, so that no hung stage is in their way."""

from collections.abc import Callable

from temporalio import activity

from activities.errors import translated
from droidherd.contracts.fleet import FrameTaken, FrameWork
from droidherd.emulator.viewers import LiveFrames


class FrameActivities:
    """Of one worker."""

    def __init__(self, live: LiveFrames) -> None:
        """`live` bounds how many are taken at once."""
        self._live = live

    @activity.defn(name="take_frame", no_thread_cancel_exception=True)
    @translated
    def take_frame(self, work: FrameWork) -> FrameTaken:
        return self._live.take(work)

    def all(self) -> list[Callable[..., object]]:
        return [self.take_frame]
