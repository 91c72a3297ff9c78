"""What happens in one history before anything goes wrong: tasks, emulators, hosts."""

from dataclasses import dataclass

from droidherd.domain.messages import OnBusy, RecoveryPolicy
from tests.protocol.choices import Choices

ACCOUNTS = ("", "ann", "ann", "ann", "bob", "")
MUTEXES = ((), (), (), ("shop",))
BEAT_TTL_MS = 8_000
HEARTBEAT_TIMEOUT_MS = 15_000
QUEUE_TIMEOUT_MS = 40_000
LINE_TIMEOUT_MS = 5_000
PRESENCE_TIMEOUT_MS = 10_000
PRESENCE_GRACE_MS = 5_000
LOOK_EVERY_MS = 5_000
HOLD_S = 90.0
POLICY = RecoveryPolicy(controller="c", reconnect_s=2.0, restarts=2, backoff_s=2.0, backoff_max_s=8.0, forgive_s=60.0)
SOON_MS = 2_500
HOME_WAIT_MS = 20_000


@dataclass(frozen=True, slots=True)
class TaskScript:
    """One task: what it asks for and how its attempts go."""

    task_id: str
    lane: str
    task_type: str
    account: str
    mutex: tuple[str, ...]
    requires: tuple[str, ...]
    stages: tuple[int, ...]
    """Effects per stage."""
    on_busy: OnBusy
    priority: int
    sticky: str
    not_before_ms: int
    fails: tuple[bool, ...]
    """Per attempt: whether it ends in a failure that may be retried. After the last one: completed."""
    starts_at_step: int


@dataclass(frozen=True, slots=True)
class Script:
    """One world."""

    tasks: tuple[TaskScript, ...]
    emulators: dict[str, str]
    """emulator → the host it hangs on."""
    hosts: tuple[str, ...]
    warm_up: int
    """Rounds without faults before the first step."""
    steps: int
    limit: int
    capacities: tuple[int, int]
    by_priority: bool
    ageing: int
    mutex_hold_s: float
    deck: bool
    recovery: RecoveryPolicy | None
    """What hosts can do for their emulators. None: nothing."""
    controllers: dict[str, str]
    """Emulators that nobody can switch on and off, and those that somebody else can."""
    off: tuple[str, ...]
    """Emulators that do not run at first."""
    idle_stop_s: float
    idle_keep: int


def write(choices: Choices) -> Script:
    """Draw a small world."""
    below = choices.below
    hosts = ("h0", "h1")[: 1 + below(2)]
    emulators = {f"e{i}": hosts[below(len(hosts))] for i in range(2 + below(2))}
    count = 3 + below(3)
    recovery = POLICY if below(2) else None
    controllers = {name: "none" for name in emulators if recovery and below(8) == 7}
    idle_stop_s = (0.0, 2.0, 5.0, 20.0)[below(4)] if recovery else 0.0
    return Script(
        recovery=recovery,
        controllers=controllers,
        off=tuple(name for name in emulators if recovery and name not in controllers and below(4) == 3),
        idle_stop_s=idle_stop_s,
        idle_keep=below(3) // 2 if recovery else 0,
        tasks=tuple(_task(f"t{i}", choices, len(emulators)) for i in range(count)),
        emulators=emulators,
        hosts=hosts,
        warm_up=(6, 6, 4, 0)[below(4)],
        steps=60 + below(90),
        limit=(10, 10, 10, 3)[below(4)],
        capacities=((9, 9), (2, 1), (1, 9), (2, 2))[below(4)],
        by_priority=below(4) == 3,
        ageing=(0, 0, 1, 4)[below(4)],
        mutex_hold_s=(7_200.0, 7_200.0, 5.0, 30.0)[below(4)],
        deck=below(4) != 1,
    )


def _task(task_id: str, choices: Choices, emulators: int) -> TaskScript:
    below = choices.below
    account = ACCOUNTS[below(len(ACCOUNTS))]
    preference = below(8)
    some = f"e{below(emulators)}"
    return TaskScript(
        task_id=task_id,
        lane="account" if account else "anonymous",
        task_type=("check", "scan")[below(2)],
        account=account,
        mutex=MUTEXES[below(len(MUTEXES))],
        requires=(f"emulator_id={some}",) if preference == 1 else (),
        stages=((2,), (1,), (1, 2), (2, 1, 1))[below(4)],
        on_busy=OnBusy.REJECT if below(4) == 1 else OnBusy.QUEUE,
        priority=(5, 1, 9)[below(3)],
        sticky=some if preference in (2, 3) else "",
        not_before_ms=(0, 0, 0, 4_000)[below(4)],
        fails=((), (), (), (True,))[below(4)],
        starts_at_step=below(30),
    )
