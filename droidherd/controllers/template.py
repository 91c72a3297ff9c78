"""A command of the operator: a list of arguments with places for what is known of an emulator. Pure."""

import re
from collections.abc import Iterable, Sequence

from droidherd.controllers.model import Target

PLACES = ("emulator_id", "address", "host", "port", "instance", "serialno")
ARGUMENTS_LIMIT = 100
_PLACE = re.compile(r"\{([^{}]*)\}")


def problem(line: Sequence[str]) -> str:
    """What is wrong with a command; empty when nothing is."""
    if not line or not line[0]:
        return "names no program"
    if len(line) > ARGUMENTS_LIMIT:
        return f"has {len(line)} arguments, {ARGUMENTS_LIMIT} are allowed"
    if _PLACE.search(line[0]):
        return "the program itself may hold no place"
    for word in line:
        if "\0" in word:
            return "holds a NUL character"
        unknown = [name for name in _PLACE.findall(word) if name not in PLACES]
        if unknown:
            return f"{{{unknown[0]}}} is no place; there are {', '.join(PLACES)}"
    return ""


def fill(line: Iterable[str], target: Target) -> list[str]:
    """Each argument stays one argument, whatever is put in: there is no shell."""
    known = {
        "emulator_id": target.emulator_id,
        "address": target.address,
        "host": target.address.rpartition(":")[0],
        "port": str(target.port),
        "instance": target.instance,
        "serialno": target.serialno,
    }
    return [_PLACE.sub(lambda place: known[place[1]], word) for word in line]
