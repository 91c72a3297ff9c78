"""Names that people give to tasks, accounts, lanes and pools: one rule, and one sentence that says it."""

import re

ID_MAX = 64
PATTERN = r"^[A-Za-z0-9._-]{1,64}$"
OPTIONAL = r"^[A-Za-z0-9._-]{0,64}$"
"""The same, or nothing."""
RULE = "must have {least} to {most} characters of A-Z a-z 0-9 . _ -"
RULES = {PATTERN: RULE.format(least=1, most=ID_MAX), OPTIONAL: RULE.format(least=0, most=ID_MAX)}
"""What each pattern asks for, for people."""
FOLDER = "begin with a letter, a digit or _, not end with a dot, and be no name that Windows keeps (con, nul, com1)"

LIVE_FRAMES = "_live"
"""Where, in the artifact store, frames for viewers lie. No task owns them: they go like what nobody owns."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
# Windows opens a machine's port under these names, whatever the extension.
_RESERVED = re.compile(r"(?i:con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.ASCII)


def is_id(text: str) -> bool:
    """Whether the rule holds."""
    return re.fullmatch(PATTERN, text) is not None


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
    return "" if is_file_name(text, most) else f"{RULE.format(least=1, most=most)}, {FOLDER}"
