"""Names that people give to tasks, accounts, lanes and pools: one rule, and one sentence that says it."""

import re

ID_MAX = 64
PATTERN = r"^[A-Za-z0-9._-]{1,64}$"
OPTIONAL = r"^[A-Za-z0-9._-]{0,64}$"
"""The same, or nothing."""
RULE = "must have {least} to {most} characters of A-Z a-z 0-9 . _ -"
TASK_PATTERN = r"^[A-Za-z0-9._-]{1,64}(-[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?$"
OPTIONAL_TASK = r"^([A-Za-z0-9._-]{1,64}(-[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?)?$"
"""A task's id. Temporal puts a time behind the ids of workflows that a Schedule starts: `mine-2026-11-20T08:00:00Z`."""
TASK_RULE = f"{RULE.format(least=1, most=ID_MAX)}, or end with the time that Temporal's Schedules put there"
WORD = r"^[A-Za-z0-9._/-]{1,64}$"
WORD_RULE = "of 1 to 64 characters of A-Z a-z 0-9 . _ / -"
"""The name of a label, or its value."""
TAG = r"^[A-Za-z0-9._/-]{1,64}=[A-Za-z0-9._/-]{1,64}$"
REQUIREMENT = r"^[A-Za-z0-9._-]{1,32}=[A-Za-z0-9._-]{1,64}$"
SUBSCRIPTION_MAX = 40
"""So that the id of a task fits: a dot, sixteen characters of time and a mark against doubles come after it."""
SUBSCRIPTION = rf"^[A-Za-z0-9_][A-Za-z0-9._-]{{0,{SUBSCRIPTION_MAX - 1}}}$"
PLACE = r"^[A-Za-z0-9._-]{1,48}$"
"""A host, a pool or a region, as settings name it."""
TIME_OF_DAY = r"^([01]\d|2[0-3]):[0-5]\d$"
RULES = {
    PATTERN: RULE.format(least=1, most=ID_MAX),
    OPTIONAL: RULE.format(least=0, most=ID_MAX),
    TASK_PATTERN: TASK_RULE,
    OPTIONAL_TASK: f"{TASK_RULE}, or be empty",
    WORD: f"must be {WORD_RULE}",
    TAG: f"must be name=value, each {WORD_RULE}",
    REQUIREMENT: "must be name=value, as abi=arm64: of A-Z a-z 0-9 . _ -, at most 32 and 64 characters",
    SUBSCRIPTION: f"{RULE.format(least=1, most=SUBSCRIPTION_MAX)}, and begin with a letter, a digit or _",
    PLACE: RULE.format(least=1, most=48),
    TIME_OF_DAY: "must be a time of day, as 02:00",
}
"""What each pattern asks for, for people."""
FOLDER = "begin with a letter, a digit or _, not end with a dot, and be no name that Windows keeps (con, nul, com1)"

LIVE_FRAMES = "_live"
"""Where, in the artifact store, frames for viewers lie. No task owns them: they go like what nobody owns."""

_TIME = re.compile(r"(?<=-\d{4}-\d\d-\d\dT)(\d\d):(\d\d):(\d\d)(?=Z$)", re.ASCII)
_TIME_IN_FILE = re.compile(r"(?<=-\d{4}-\d\d-\d\dT)(\d\d)\.(\d\d)\.(\d\d)(?=Z$)", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
# Windows opens a machine's port under these names, whatever the extension.
_RESERVED = re.compile(r"(?i:con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.ASCII)


def is_id(text: str) -> bool:
    """Whether the rule holds."""
    return re.fullmatch(PATTERN, text) is not None


def is_task_id(text: str) -> bool:
    """Whether a task may be called so."""
    return len(text) <= ID_MAX and re.fullmatch(TASK_PATTERN, text) is not None


def file_of(task_id: str) -> str:
    """The name of what a task leaves in files: the same, but that a time has dots where no file may have colons."""
    return _TIME.sub(r"\1.\2.\3", task_id)


def task_of(file: str) -> str:
    """The task that leaves files of this name."""
    return _TIME_IN_FILE.sub(r"\1:\2:\3", file)


def is_file_name(text: str, most: int = ID_MAX) -> bool:
    """Whether every system takes it for one plain file name; never a path, never hidden."""
    fits = len(text) <= most and _NAME.fullmatch(text) and not text.endswith(".")
    return bool(fits) and not is_reserved(text)


def is_reserved(text: str) -> bool:
    return _RESERVED.fullmatch(text) is not None


def id_problem(text: str, most: int = ID_MAX) -> str:
    """Why this cannot be the id of a task, after which its folder is named; empty when it can."""
    if text.lower() == LIVE_FRAMES:
        return f"must not be {LIVE_FRAMES}: droidherd keeps frames under this name"
    if task_of(text) != text:
        return f"must not end with a time: {task_of(text)}, started by a Schedule of Temporal, has files of this name"
    return "" if is_file_name(file_of(text), most) else f"{RULE.format(least=1, most=most)}, {FOLDER}"


def natural(text: str) -> tuple[str | int, ...]:
    """As a key to sort by: `virtual-10` after `virtual-9`."""
    return tuple(int(part) if part.isdecimal() else part for part in re.split(r"([0-9]+)", text))
