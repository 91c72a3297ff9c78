"""What passes between hosts, emulators, their activities and those who look at them."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StringConstraints

from droidherd.contracts.base import Contract, EntityState, Id, Request
from droidherd.contracts.tasks import Text
from droidherd.domain.fleet.emulator import EmulatorState
from droidherd.domain.messages import Seen


class FleetTiming(Contract):
    """Times the host's and the emulators' workflows need."""

    presence_timeout_s: float = Field(default=10.0, gt=0, le=3_600)
    presence_grace_s: float = Field(default=5.0, gt=0, le=3_600)
    gate_timeout_s: float = Field(default=180.0, gt=0, le=86_400)
    gate_backoff_s: float = Field(default=2.0, ge=0, le=3_600)


class Join(Contract):
    """A worker process takes its host's place. The argument of the update `join`."""

    host_id: Id
    incarnation: int
    machine: str
    """Of the data directory this worker lives in: two of them may not serve one host id at once."""
    worker: str
    pool: Id = "default"
    timing: FleetTiming = FleetTiming()


class Joined(Contract):
    accepted: bool
    reason: str = ""
    newest: int = 0
    """Of a worker that is refused for its incarnation: one that starts now joins with a greater one."""


class HostState(EntityState):
    """Everything that is known of one host."""

    worker: Join | None = None
    """Who joined last, and has not left since."""
    alive: bool = False
    """Its presence reported, and has not ended since."""
    joined: int = 0
    """The incarnation of the worker that joined last, in its own words."""
    newest: int = 0
    """The same as emulators are told: it grows with each worker that joins, whatever the clocks of workers say."""
    seq: int = 0
    """Of the last report that was passed on: an order over all workers of this host."""
    last: dict[str, Seen] = Field(default_factory=dict)
    """emulator → what was passed on last."""
    outbox: dict[str, list[Seen]] = Field(default_factory=dict)


class HostInput(Request):
    """Input of `HostWorkflow`."""

    host_id: Id
    state: HostState | None = None
    """Of the run before."""


class Reports(Contract):
    """What the presence activity found, changes only. The argument of the signal `reports`."""

    incarnation: int
    seen: tuple[Seen, ...] = ()
    listed: tuple[str, ...] | None = None
    """By a presence that begins: every emulator the host has. Who is not among them has left it."""


class PresenceWork(Contract):
    """Input of the `presence` activity."""

    host_id: Id
    incarnation: int
    pool: Id = "default"


class ProbedEmulator(Contract):
    """Where an emulator is probed, and when a probe was answered last."""

    address: str = ""
    good_at_ms: int = 0
    """0: none was yet."""


class PresenceBeat(Contract):
    """What each heartbeat of the `presence` activity carries. Temporal keeps the last one, and writes no event."""

    emulators: dict[str, ProbedEmulator] = Field(default_factory=dict)


class PresenceEnd(Contract):
    """Result of the `presence` activity: the host leaves in order."""

    incarnation: int
    seen: tuple[Seen, ...] = ()


class EmulatorInput(Request):
    """Input of `EmulatorWorkflow`."""

    emulator_id: Id
    timing: FleetTiming = FleetTiming()
    state: EmulatorState | None = None
    """Of the run before."""


class GateWork(Contract):
    """Input of `pass_gate`: bring an emulator to where it may be used."""

    emulator_id: Id
    boot: str
    full: bool
    fence: int = 0
    floor: int = 0
    """What the token property is set to after a reboot: every older lease is refused from then on."""


class GateResult(Contract):
    passed: bool
    boot: str = ""
    stages: tuple[str, ...] = ()
    evidence: str = ""
    token: int = 0
    """The lease of the token that stands on it; 0: the gate put it there, or did not look."""


class FrameWork(Contract):
    """Input of `take_frame`: what an emulator shows now, for people who look at it."""

    emulator_id: Id


class FrameTaken(Contract):
    """Where the frame lies in the store, and when the screen was like that."""

    name: str
    taken_at: datetime
    width: int
    height: int
    size: int
    by: str = ""
    """Who looked: a task, or viewers."""


class RecoveryWork(Contract):
    """Input of `recover`: one step for an emulator, on its host."""

    emulator_id: Id
    step: str
    """`reconnect`, `restart_app`, `restart`, `start`, `stop` or `evidence`."""
    forced: bool = False
    """A person or the pool wants it, whatever the emulator looks like."""
    boot: str = ""
    """The boot that is no good; empty: it answered nothing."""
    fence: int = 0
    floor: int = 0
    why: str = ""


class RecoveryResult(Contract):
    evidence: str = ""
    """What went wrong; of the step `evidence`: where what was seen is kept."""
    idle: bool = False
    """Nothing had to be done."""


class EmulatorView(Contract):
    """An emulator as others see it."""

    emulator_id: str
    host: str = ""
    pool: str = ""
    state: str
    task: str = ""
    """Who holds it now."""
    on_deck: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    address: str = ""
    serialno: str = ""
    boot: str = ""
    idle_since: datetime | None = None
    evidence: str = ""
    controller: str = ""
    """Who starts and stops it; `none`: people."""
    doing: str = ""
    """What its host does for it now, or is about to do."""
    last_good_probe: datetime | None = None
    """When a probe was answered last, by the last heartbeat of its host's worker; without one, by its last report."""


class DrainRequest(Request):
    """The argument of the signals `drain` and `undrain` of an emulator."""

    actor: Text = "somebody"
    reason: Text = ""


ControlAction: TypeAlias = Literal["restart", "recover", "quarantine", "release", "drain", "undrain"]


class EmulatorControl(Request):
    """What a person orders for one emulator. The argument of the update `control`."""

    action: ControlAction
    actor: Text = "somebody"
    reason: Text = ""
    request_id: Annotated[str, StringConstraints(max_length=128)] = ""
