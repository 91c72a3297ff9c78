"""Small rules about texts that flows are made of."""

import re

from droidherd.flows.model.params import NAME_PATTERN

_NAME = re.compile(NAME_PATTERN)
_NAME_MAX = 40


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def name_of(text: str, otherwise: str) -> str:
    """A name made of what people read: `Daily gift` → `daily_gift`."""
    made = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:_NAME_MAX].strip("_")
    return made if is_name(made) else otherwise


def unused_name(name: str, taken: "set[str]") -> str:
    """`ok`, `ok_2`, `ok_3`: the first that is not taken, which then it is."""
    number = 1
    found = name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found
