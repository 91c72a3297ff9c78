"""The host's activities: presence, the gates its emulators must pass, frames for viewers."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable

from temporalio import activity
from temporalio.client import Client

from activities.errors import translated
from droidherd.contracts import names
from droidherd.contracts.fleet import (
    FrameTaken,
    FrameWork,
    GateResult,
    GateWork,
    PresenceEnd,
    PresenceWork,
    RecoveryResult,
    RecoveryWork,
    Reports,
)
from droidherd.domain.errors import AbandonedError
from droidherd.domain.messages import Health, Seen
from droidherd.emulator.gate import Gatekeeper
from droidherd.emulator.probe_loop import ProbeLoop
from droidherd.emulator.viewers import LiveFrames
from droidherd.recovery.recovery import Recovery

BEAT_S = 1.0


class FleetActivities:
    """What one worker does for its host."""

    def __init__(
        self, client: Client, probe_loop: Callable[[], ProbeLoop], gatekeeper: Gatekeeper, recovery: Recovery
    ) -> None:
        """`probe_loop` makes a new one: each presence walks its own rounds."""
        self._recovery = recovery
        self._client = client
        self._new_probe_loop = probe_loop
        self._gatekeeper = gatekeeper
        self.present = asyncio.Event()
        """Set while a presence of this worker runs."""
        self._rounds: dict[ProbeLoop, tuple[int, asyncio.Task[None]]] = {}
        """The probe loops that run, and for which incarnation: one, but for those that are about to end."""
        self._leaving = False
        self._gone = asyncio.Event()

    def leave(self) -> None:
        """Say that this worker ends soon, while its stages still do their work."""
        self._leaving = True
        for probe_loop, (incarnation, _) in self._rounds.items():
            probe_loop.leave(incarnation)

    def tell_again(self, emulators: Iterable[str], *, only: Health | None = None) -> None:
        """The workflows of these emulators are gone, or are new: they know nothing of this host.

        `only`: if this is what the probes found.
        """
        for probe_loop, (incarnation, _) in self._rounds.items():
            probe_loop.tell_again(emulators, incarnation, only=only)

    def disown(self, emulators: Iterable[str]) -> None:
        """The pool believes that this host has these emulators, and it has not."""
        for probe_loop, (incarnation, _) in self._rounds.items():
            probe_loop.disown(emulators, incarnation)

    def end_presence(self) -> None:
        """Its stages have ended: the presence may end too."""
        self._gone.set()

    @activity.defn
    async def presence(self, work: PresenceWork) -> PresenceEnd:
        """Until the worker is gone; heartbeats show that the rounds go on, and what they last found."""
        probe_loop = self._new_probe_loop()
        async with self._walking(probe_loop, work) as rounds:
            while not self._gone.is_set() and not rounds.done():
                await asyncio.wait([rounds], timeout=BEAT_S)  # the first word already knows the first probes
                activity.heartbeat(probe_loop.last_probes())
            if rounds.cancelled():
                raise AbandonedError("a newer presence of this host began")
            if rounds.done():
                await rounds
            return PresenceEnd(incarnation=work.incarnation, seen=probe_loop.left_reports(work.incarnation))

    @contextlib.asynccontextmanager
    async def _walking(self, probe_loop: ProbeLoop, work: PresenceWork) -> AsyncGenerator["asyncio.Task[None]"]:
        """The rounds of a presence, which end those before it.

        An older presence is over for the engine, which may not have said so yet. A probe loop tells changes only: what
        the older one still told of an emulator would stand, as long as the newer one finds nothing new there.
        """
        for _, older in self._rounds.values():
            older.cancel()
        if self._leaving:
            probe_loop.leave(work.incarnation)
        host = self._client.get_workflow_handle(names.host_id(work.host_id))

        async def tell(seen: tuple[Seen, ...], listed: tuple[str, ...] | None) -> None:
            reports = Reports(incarnation=work.incarnation, seen=seen, listed=listed)
            await host.signal(names.Signal.REPORTS, reports)

        rounds = asyncio.create_task(probe_loop.run(tell, work.incarnation))
        self._rounds[probe_loop] = work.incarnation, rounds
        self.present.set()
        try:
            yield rounds
        finally:
            del self._rounds[probe_loop]
            if not self._rounds:
                self.present.clear()
            rounds.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await rounds

    @activity.defn(no_thread_cancel_exception=True)
    @translated
    def pass_gate(self, work: GateWork) -> GateResult:
        return self._gatekeeper.work(work, activity.heartbeat)

    @activity.defn(no_thread_cancel_exception=True)
    @translated
    def recover(self, work: RecoveryWork) -> RecoveryResult:
        return self._recovery.run(work, _beat)

    def boots(self) -> list[Callable[..., object]]:
        """What takes its turn on a queue of its own."""
        return [self.recover]

    def all(self) -> list[Callable[..., object]]:
        return [self.presence, self.pass_gate, self.recover]


class FrameActivities:
    """Frames for people who look at an emulator: on the host's queue, so that no hung stage is in their way."""

    def __init__(self, live: LiveFrames) -> None:
        """`live` bounds how many are taken at once."""
        self._live = live

    @activity.defn(name="take_frame", no_thread_cancel_exception=True)
    @translated
    def take_frame(self, work: FrameWork) -> FrameTaken:
        return self._live.take(work)

    def all(self) -> list[Callable[..., object]]:
        return [self.take_frame]


def _beat() -> None:
    """Show that it goes on, and end it when nobody wants it any more."""
    activity.heartbeat()
    if activity.is_cancelled():
        raise AbandonedError("called back")
