"""What every workflow in the simulator has in common: an inbox, an outbox, and runs that follow one another."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from droidherd.domain import columns
from droidherd.domain import messages as m
from droidherd.domain.dispatch.state import Outgoing
from droidherd.domain.outbox import Outbox

if TYPE_CHECKING:
    from tests.protocol.simulator import World


@dataclass(slots=True, eq=False)
class Flight:
    """A message under way, then its acknowledgement under way back."""

    sender: "Actor"
    run: int
    target: str
    message: Any
    arrived: bool = False
    nobody: bool = False
    """There was nobody to take it."""
    answer: Any = None
    """Of a question; comes back with the acknowledgement."""


@dataclass(slots=True)
class CarriedOutbox:
    """What the next run of any actor finds of its messages."""

    outbox: Outbox[m.ToDispatcher | Outgoing | m.Announce | m.Seen]


class Actor:
    """A workflow. Messages wait while its worker is away; nothing is lost by that."""

    def __init__(self, world: "World", name: str) -> None:
        self.world, self.name = world, name
        self.run = 0
        self.alive = True
        self.inbox: list[Any] = []
        self.frozen_until_ms = 0

    @property
    def outbox(self) -> Outbox[Any]:
        raise TypeError(self.name)

    def frozen(self) -> bool:
        return self.world.now < self.frozen_until_ms

    def receive(self, message: Any) -> None:
        self.inbox.append(message)
        self.process()

    def question(self, message: Any) -> Any:
        """A message that may be answered at once; None: it is not."""
        self.receive(message)

    def process(self) -> None:
        """Handle what waits, unless the worker is away."""
        if self.frozen() or not self.alive:
            return
        while self.inbox:
            self.handle(self.inbox.pop(0))
        self.think()
        self.pump()

    def handle(self, message: Any) -> None:
        """One handler per kind of message."""

    def think(self) -> None:
        """What the main coroutine does with it."""

    def pump(self) -> None:
        """The one loop that sends."""
        box = self.outbox
        if "order" in self.world.without:
            for target, line in box.lines.items():
                for message in line:
                    self.world.flights.append(Flight(self, self.run, target, message))
            box.lines.clear()
            return
        for target in box.ready():
            self.world.flights.append(Flight(self, self.run, target, box.launch(target)))

    def acknowledged(self, flight: Flight) -> None:
        """A message of this run was delivered, or nobody was there."""
        if flight.nobody:
            self.nobody_there(flight)
        if flight.answer is not None:
            self.handle(flight.answer)
        self.outbox.mark_delivered(flight.target)
        self.process()

    def nobody_there(self, flight: Flight) -> None:
        """The engine says: no such workflow."""

    def next_run(self) -> Outbox[Any]:
        """Continue as new: what flies may arrive or be lost, and is sent again."""
        old = self.outbox
        self.run += 1
        self.world.lose_flights(self)
        if "outbox" in self.world.without:
            return Outbox()
        return columns.load(columns.dump(CarriedOutbox(old)), CarriedOutbox).outbox
