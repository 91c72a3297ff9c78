"""What workflows ask of the engine through activities."""

from pydantic import Field

from droidherd.contracts.base import Contract, Id, TaskId
from droidherd.contracts.queue import PoolSettings
from droidherd.contracts.tasks import TaskView

__all__ = [
    "AwaitTask",
    "CancelWork",
    "EarlierRun",
    "EarlierRunWork",
    "Holders",
    "OrdersWork",
    "PoolSettings",
    "PoolWork",
    "Predecessor",
]


class PoolWork(Contract):
    """Input of `read_pool` and `find_predecessor`."""

    pool: Id
    run_id: str = ""


class Predecessor(Contract):
    """What a terminated dispatcher left behind, and who is out there."""

    existed: bool = False
    """Whether there ever was one: only then may somebody hold what we do not know of."""
    snapshot: str = ""
    kept: str = ""
    """Without a snapshot: what people had set, and the audit, as its history tells."""
    open_tasks: dict[str, str] = Field(default_factory=dict)
    """Open tasks of the pool: id → first run id."""
    emulators: tuple[str, ...] = ()
    """Every emulator the engine knows; those of other pools announce themselves to their own dispatcher."""


class Holders(Contract):
    """Task id → first run id: those a dispatcher waits for (query `holders`), and those closed (signal `closed`)."""

    holders: dict[str, str] = Field(default_factory=dict)


class EarlierRunWork(Contract):
    """Input of `find_earlier_run`: a task that did not come through a client of ours."""

    task_id: TaskId
    run_id: str
    reset: bool = False
    """It was reset in Temporal: whatever ended last is how the task ended, also a run that went on until then."""


class EarlierRun(Contract):
    """A run of the same id that ended before; empty: there is none."""

    run_id: str = ""
    status: str = ""
    refused: bool = False
    """There was only one that was refused when it was submitted, and did nothing."""
    view: TaskView | None = None
    """How that run ended: this is the task's end also from now on."""


class OrdersWork(Contract):
    """Input of `find_orders`: an emulator whose workflow begins without a state."""

    emulator_id: Id
    run_id: str


class AwaitTask(Contract):
    """Input of `await_task`, which returns in one word how a task ended."""

    task_id: str


class CancelWork(Contract):
    """Input of `request_cancel`: close this workflow as cancelled, not as completed."""

    task_id: str
    run_id: str
