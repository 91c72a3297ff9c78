"""The stand-in for a host's worker: it says what is seen, and shows that it lives."""

import asyncio
from dataclasses import dataclass, field, replace

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from droidherd.contracts import names
from droidherd.contracts.fleet import PresenceBeat, PresenceEnd, PresenceWork, ProbedEmulator, Reports
from droidherd.domain.messages import Health, Seen
from tests.workflows.plays import BEAT_S


@dataclass
class Presence:
    """`presence` on a host's queue: says what is seen, then shows that it lives."""

    client: Client
    last_seen: dict[str, Seen]
    silent: asyncio.Event = field(default_factory=asyncio.Event)
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    emptied: bool = False
    """An empty list is one. Otherwise a host without last_seen says nothing of its list: others may speak for it."""
    broken: asyncio.Event = field(default_factory=asyncio.Event)
    """Set: it raises instead of showing that it lives."""
    began: int = 0

    @activity.defn(name="presence")
    async def presence(self, work: PresenceWork) -> PresenceEnd:
        self.began += 1
        await self.names_all(work.incarnation, work.host_id)
        await self.tell(work.incarnation)
        while not self.leaving.is_set():
            if self.broken.is_set():
                raise ApplicationError("planted", non_retryable=True)
            if not self.silent.is_set():
                activity.heartbeat(self._beat())
            await asyncio.sleep(BEAT_S)
        left = tuple(replace(seen, health=Health.LEFT) for seen in self.last_seen.values())
        return PresenceEnd(incarnation=work.incarnation, seen=left)

    def _beat(self) -> PresenceBeat:
        found = {
            name: ProbedEmulator(address=seen.address, good_at_ms=seen.good_at_ms)
            for name, seen in self.last_seen.items()
        }
        return PresenceBeat(emulators=found)

    async def tell(self, incarnation: int, *seen: Seen) -> None:
        reports = tuple(replace(one, incarnation=incarnation) for one in seen or self.last_seen.values())
        for host in dict.fromkeys(one.host_id for one in reports):
            mine = tuple(one for one in reports if one.host_id == host)
            handle = self.client.get_workflow_handle(names.host_id(host))
            await handle.signal(names.Signal.REPORTS, Reports(incarnation=incarnation, seen=mine))

    async def names_all(self, incarnation: int, host: str) -> None:
        """The first word of a presence that begins."""
        listed = tuple(name for name, seen in self.last_seen.items() if seen.host_id == host)
        handle = self.client.get_workflow_handle(names.host_id(host))
        word = Reports(incarnation=incarnation, listed=listed if listed or self.emptied else None)
        await handle.signal(names.Signal.REPORTS, word)

    def moves_to(self, pool: str) -> None:
        """The next worker has another pool in its settings."""
        self.last_seen = {name: replace(seen, pool=pool) for name, seen in self.last_seen.items()}
