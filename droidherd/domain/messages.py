"""What the machines say to one another. Each message is a frozen value that Temporal carries as it is.

A message names its sender's `seq` where order matters: whatever is not newer than the last one seen is dropped, so
delays, repeats and reordering do no harm.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from droidherd.domain.ids import file_of

AHEAD_MS = 86_400_000
"""No counter lies further ahead of the clock than this. A clock that was wrong by less, and was put right, leaves
counters behind that nobody may go below: emulators keep tokens, and everybody keeps the newest that was heard."""
SKEW_MS = 10_000
"""The clocks of two machines differ by less. Whoever hears of a counter further ahead asks its owner."""


def leaps(counter: int, known: int, now_ms: int) -> bool:
    """Whether a counter lies further ahead of the clock, and of what was heard before, than clocks differ."""
    return counter > max(now_ms, known) + SKEW_MS


@dataclass(frozen=True, slots=True)
class Key:
    """Who asks: a task, in one of its runs, in one attempt. Retry and rollback run under the same task id."""

    task_id: str
    run: str
    attempt: int

    def text(self) -> str:
        """A file name on the emulator, and the key of the effect journal. Only the end of a run id is chance."""
        return f"{file_of(self.task_id)}.{self.run[-8:]}.{self.attempt}"


class OnBusy(StrEnum):
    """What a task wants when its account is queued or running already."""

    REJECT = "reject"
    QUEUE = "queue"


class EmulatorStatus(StrEnum):
    REGISTERING = "registering"
    UP = "up"
    SUSPECT = "suspect"
    DOWN = "down"
    RECOVERING = "recovering"
    QUARANTINED = "quarantined"
    DRAINING = "draining"
    RETIRED = "retired"
    STOPPED = "stopped"
    """Switched off because nobody needs it; its controller can start it."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The exclusive right of one attempt to one emulator."""

    token: int
    emulator_id: str
    host_id: str
    expires_at_ms: int
    after: int = 0
    """On deck behind this lease: valid on the emulator once that one said there that it ended. 0: valid now."""
    incarnation: int = 0
    waiting: int = 0
    """How many tasks of the pool still waited when it was granted."""


# --- task → dispatcher ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Enqueue:
    """I wait. Harmless to repeat; a key that holds a lease already is answered with the same grant."""

    key: Key
    seq: int
    lane: str
    task_type: str
    requires: tuple[str, ...] = ()
    account: str = ""
    mutex: tuple[str, ...] = ()
    priority: int = 5
    on_busy: OnBusy = OnBusy.REJECT
    ticket: int = 0
    """0: draw one. Below 0: a person prioritized the task."""
    hold_s: float = 600.0
    """How long a lease may be held at most."""
    single: bool = False
    """One stage only: the lease is ending from its first moment."""
    sticky: str = ""
    """The emulator this task would like best. Also in `requires`: the task waits for it while it lives."""
    avoid: str = ""
    """An emulator this task just lost: any other first."""
    lease: Lease | None = None
    """Told to a dispatcher that lost its memory: I do not wait, I hold this."""
    lost: int = 0
    """Leases up to this token are over for me, whatever the board says."""
    recall: int = 0
    """The newest recall that I have heard: only what is sent after it answers it."""
    kind: Literal["enqueue"] = "enqueue"


@dataclass(frozen=True, slots=True)
class Soon:
    """At this time I shall ask for an emulator: one that is switched off may be started until then."""

    key: Key
    seq: int
    at_ms: int
    requires: tuple[str, ...] = ()
    lane: str = ""
    kind: Literal["soon"] = "soon"


@dataclass(frozen=True, slots=True)
class Ending:
    """My last stage stands on the emulator's queue: the next task may queue up behind it."""

    key: Key
    seq: int
    kind: Literal["ending"] = "ending"


@dataclass(frozen=True, slots=True)
class Done:
    """I neither wait nor hold."""

    key: Key
    seq: int
    outcome: str = ""
    """How an attempt ended: `completed`, `failed`, `retry` (another one follows), `cancelled`. Empty: none did."""
    clean: bool = True
    seconds: float = 0.0
    final: bool = False
    """The task's last message: whatever else arrives, it would say so again."""
    abandoned: bool = False
    """What runs on the emulator was not stopped: fence it first, then the lease is free."""
    token: int = 0
    """Of the lease that this ends; 0: none that I knew of."""
    lost: int = 0
    """Leases up to this token are over for me, as in `Enqueue`. How those before `token` ended I do not say here."""
    recall: int = 0
    """The newest recall that I have heard, as in `Enqueue`."""
    unserved: bool = False
    """Nobody took my stage from the queue of the emulator."""
    kind: Literal["done"] = "done"


ToDispatcher = Enqueue | Soon | Ending | Done
"""Everything a task tells its dispatcher, told apart by `kind`."""


# --- dispatcher → task ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Admitted:
    key: Key
    seq: int
    """Of the request this answers."""
    ticket: int
    position: int
    repeat_after_s: float
    why: str = ""
    priority: int = 0
    """How urgent it stands in line, which a person may have changed there. 0: as it was asked."""
    kind: Literal["admitted"] = "admitted"


EMULATOR_LOST = "emulator_lost"
"""Why a task is rejected that waits for an emulator by its own choice: it may ask for any other one."""


@dataclass(frozen=True, slots=True)
class Rejected:
    key: Key
    seq: int
    reason: str
    holder: str = ""
    kind: Literal["rejected"] = "rejected"


@dataclass(frozen=True, slots=True)
class Grant:
    key: Key
    ticket: int
    lease: Lease
    seq: int = 0
    """Of the last request heard: one for an older request of the same key is not for the present one."""
    kind: Literal["grant"] = "grant"


class RevokeReason(StrEnum):
    DOWN = "down"
    EXPIRED = "expired"
    REBOOTED = "rebooted"
    RESTARTED = "restarted"
    """The worker that ran the stage is gone and a new one is there: run it again, the lease stands."""
    DECK = "deck"
    """Taken off deck, through no fault of its own."""


@dataclass(frozen=True, slots=True)
class Revoked:
    """A request to let go. What the task says first is the truth."""

    key: Key
    token: int
    reason: RevokeReason
    incarnation: int = 0
    fenced: bool = False
    """The emulator booted anew and passed its gate since: it refuses whatever this lease still sends."""
    kind: Literal["revoked"] = "revoked"


@dataclass(frozen=True, slots=True)
class Recall:
    """Say again what you want or hold. Emulators: announce yourself again. Hosts: say again how you see an emulator.

    The dispatcher lost its memory; or what was said was dropped, because something newer had been heard.
    """

    generation: int
    key: Key | None = None
    """What the board still knows of the task; attempt 0: nothing."""
    voids: int = 0
    """Whatever was switched up to this number is forgotten, and holds no more."""
    seq: int = 0
    """The newest message that was heard of the receiver: what it says next must be newer to be heard."""
    incarnation: int = 0
    """The same, of an emulator or a host."""
    emulator_id: str = ""
    """To a host: which emulator asks."""
    kind: Literal["recall"] = "recall"


FromDispatcher = Admitted | Rejected | Grant | Revoked | Recall
"""Everything a dispatcher tells a task, told apart by `kind`."""


# --- emulators and hosts --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Announce:
    """emulator → dispatcher."""

    emulator_id: str
    host_id: str
    incarnation: int
    seq: int
    state: EmulatorStatus
    labels: tuple[str, ...] = ()
    boot: str = ""
    reset_up_to: int = 0
    """Every lease up to this token was fenced and its remains reset."""
    action: str = ""
    """What a person asked of the emulator since the last announcement: `drain` or `undrain`."""
    actor: str = ""
    reason: str = ""
    startable: bool = False
    """Its host can start and stop it."""
    switched: int = 0
    """The last `Switch` that was carried out, or given up."""
    why: str = ""
    """Why it cannot be granted."""
    token: int = 0
    """The lease of the greatest token of others that a gate found on it: it refuses every smaller one."""


@dataclass(frozen=True, slots=True)
class Switch:
    """dispatcher → emulator: nobody needs you, so be switched off; or somebody does, so be switched on."""

    on: bool
    seq: int


@dataclass(frozen=True, slots=True)
class Reset:
    """dispatcher → emulator: this lease ended badly; fence it and bring the emulator to its baseline."""

    token: int


class Health(StrEnum):
    """What a host's probe found."""

    GOOD = "good"
    SUSPECT = "suspect"
    DOWN = "down"
    LEAVING = "leaving"
    """Its host goes away in order: what runs may end, nothing new begins."""
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class RecoveryPolicy:
    """What a host can do for an emulator, and how patient it is."""

    controller: str = "none"
    """Who starts and stops it."""
    reconnect_s: float = 15.0
    """So long a silent one is only reconnected to."""
    restarts: int = 3
    backoff_s: float = 10.0
    backoff_max_s: float = 300.0
    forgive_s: float = 1_800.0
    """Restarts longer ago than this do not count any more."""
    limit_s: float = 360.0
    """How long a start may take, its boot included."""
    on_demand: bool = False
    """One that does not run when it is first seen is not needed yet."""


@dataclass(frozen=True, slots=True)
class Seen:
    """host → emulator: what the probes found, changes only."""

    emulator_id: str
    host_id: str
    incarnation: int
    seq: int
    health: Health
    boot: str = ""
    address: str = ""
    serialno: str = ""
    labels: tuple[str, ...] = field(default_factory=tuple)
    pool: str = "default"
    recovery: RecoveryPolicy | None = None
    """None: nobody is there who could do anything for it."""
    good_at_ms: int = 0
    """When a probe was answered last; 0: none was yet."""
