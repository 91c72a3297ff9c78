"""The names that Temporal knows: ids, queues, signals, updates, queries, search attributes."""

import re
from enum import StrEnum

QUEUE = "droidherd"
"""The queue of tasks' workflows. Hosts and emulators have their own, for activities."""

FLEET_QUEUE = "droidherd-fleet"
"""The queue of dispatchers, emulators and hosts: few, and never in line behind a thousand tasks."""

WORKFLOW_QUEUES = (QUEUE, FLEET_QUEUE)


class Workflow(StrEnum):
    """Workflow types."""

    TASK = "TaskWorkflow"
    DISPATCHER = "DispatcherWorkflow"
    EMULATOR = "EmulatorWorkflow"
    HOST = "HostWorkflow"
    ACCOUNT = "AccountWorkflow"
    MAINTENANCE = "MaintenanceWorkflow"
    SUBSCRIPTION_RUN = "SubscriptionRunWorkflow"


class Signal(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    FORCE_CANCEL = "force_cancel"
    ROLLBACK = "rollback"
    ANSWER = "answer"
    WAKE = "wake"
    DONE = "done"
    DRAIN = "drain"
    UNDRAIN = "undrain"
    REPORTS = "reports"
    CONFIGURE = "configure"
    AUDIT_ENTRY = "audit_entry"
    CLOSED = "closed"


def signal_of(message: object) -> str:
    """The signal that carries a message: `AuditEntry` is sent as `audit_entry`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(message).__name__).lower()


class Query(StrEnum):
    VIEW = "view"
    STATE = "state"
    QUEUE = "queue"
    EMULATORS = "emulators"
    ACCOUNT = "account"
    EVENTS = "events"
    PLACE = "place"
    PLACES = "places"
    STATS = "stats"
    AUDIT = "audit"
    ACCOUNTS = "accounts"
    DISABLED = "disabled"
    HOLDERS = "holders"


class Update(StrEnum):
    ASK = "ask"
    CONTROL = "control"
    ADMISSION = "admission"
    JOIN = "join"
    PAUSE_LANE = "pause_lane"
    RESUME_LANE = "resume_lane"
    SET_CAPACITY = "set_capacity"
    SET_ORDER = "set_order"
    RESET_LANE = "reset_lane"
    PRIORITIZE = "prioritize"
    DISABLE_ACCOUNT = "disable_account"
    ENABLE_ACCOUNT = "enable_account"
    SET = "set"
    REMOVE = "remove"


class Attribute(StrEnum):
    """Search attributes, all that will ever be registered. `TAGS` and `CAPABILITIES` are keyword lists."""

    TASK_STATE = "TaskState"
    TASK_TYPE = "TaskType"
    ACCOUNT_ID = "AccountId"
    POOL_ID = "PoolId"
    EMULATOR_ID = "EmulatorId"
    BATCH_ID = "BatchId"
    SUBSCRIPTION_ID = "SubscriptionId"
    LANE = "Lane"
    REGION = "Region"
    TAGS = "Tags"
    CAPABILITIES = "Capabilities"


ALREADY_RUN = "already_run"
"""The kind of error of a second start under the id of a task that ended."""
RERUN_TAG = "rerun"
"""In `Tags` of a run that follows another one of its task. No label can look like it: a label has a `=`."""
STUCK_TAG = "stuck"
"""In `Tags` of a run of a subscription whose task waits for too long."""

MEMO_TASK = "task"
"""The memo in which a task keeps its view: readable without a worker, and after a terminate."""

MEMO_REQUEST = "request"
"""The memo by which a client of ours shows that it had Temporal refuse an id that was used before."""

MEMO_ACCOUNT = "account"
"""The memo in which an account keeps its record."""

MAINTENANCE = "maintenance/cleanup"
"""The schedule of the daily cleanup; and how the ids of all cleanups begin."""

MEMO_REPORT = "report"
"""The memo in which a cleanup leaves its report, without the names."""

MEMO_ORDERS = "orders"
"""What people ordered for an emulator, and have not taken back."""

MEMO_SUBSCRIPTION_RUN = "subscription_run"
"""The memo in which a run of a subscription says which task it started, and what was missed before it."""

ILLEGAL_TRANSITION = "IllegalTransitionError"
"""Type of the application error with which `control` refuses."""
ASK_AGAIN = "AskAgainError"
"""Of an update that would wait, where enough others wait."""


def dispatcher_id(pool: str) -> str:
    return f"dispatcher/{pool}"


def emulator_id(emulator: str) -> str:
    return f"emulator/{emulator}"


def host_id(host: str) -> str:
    return f"host/{host}"


def frame_id(emulator: str) -> str:
    """Of the activity that takes a frame for viewers."""
    return f"frame/{emulator}"


def boots(host: str) -> str:
    """The queue on which a host's emulators wait for their turn to boot."""
    return f"boots/{host}"


def account_id(account: str) -> str:
    return f"account/{account}"


def subscription_id(subscription: str) -> str:
    """Of its schedule."""
    return f"subscription/{subscription}"


def subscription_run_id(subscription: str) -> str:
    """The engine puts a dash and the time it is for behind it."""
    return f"subscription-run/{subscription}"


def tag(name: str, value: str) -> str:
    """A label as it stands in the keyword list `Tags`."""
    return f"{name}={value}"


def lane_of(lane: str, account: str) -> str:
    """The lane a task waits in: the one it names, else by whether it acts for an account."""
    return lane or ("account" if account else "anonymous")
