"""`droidherd connect`: one emulator joins, in one command."""

import re
import time
from collections.abc import Mapping

from pydantic import ValidationError

from droidherd.cli.door import Document, Door, rows_of
from droidherd.cli.errors import CliError, NotReadyError
from droidherd.cli.layout import Layout
from droidherd.emulator.inventory import Inventory, InventoryEntry

POLL_S = 0.3
UP = "up"


def enlist(layout: Layout, address: str, *, name: str = "", labels: Mapping[str, str]) -> InventoryEntry:
    """Write it into the host's list; the worker reads that list again and again.

    Labels it has already stay; one that is given empty goes.
    """
    inventory = Inventory(layout.data)
    known = next((one for one in inventory.load() if one.address == address), None)
    emulator_id = name or (known.emulator_id if known else name_of(address))
    whole = {**(known.labels if known else {}), **labels}
    try:
        entry = InventoryEntry(
            emulator_id=emulator_id, address=address, labels={label: value for label, value in whole.items() if value}
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        message = first["msg"].removeprefix("Value error, ")
        raise CliError(f"{'.'.join(map(str, first['loc']))}: {message}", code=2) from error
    if known is not None and known.emulator_id != emulator_id:
        inventory.remove(known.emulator_id)
    inventory.add(entry)
    return entry


def wait_up(door: Door, emulator_id: str, *, seconds: float) -> Document:
    """Until tasks can run on it."""
    until = time.monotonic() + seconds
    state, evidence = "not seen yet", ""
    while time.monotonic() < until:
        for one in rows_of(door.get("/api/emulators"), "emulators"):
            if one.get("emulator_id") == emulator_id:
                state, evidence = str(one.get("state")), str(one.get("evidence") or "")
                if state == UP:
                    return one
        time.sleep(POLL_S)
    raise NotReadyError(
        f"{emulator_id} is {state} after {seconds:.0f} s{': ' + evidence if evidence else ''}",
        remedy="is it switched on, with ADB enabled, at this address? It stays in the list and joins later",
    )


def name_of(address: str) -> str:
    """A name from an address: `127.0.0.1:5555` → `emulator-127.0.0.1-5555`."""
    return "emulator-" + re.sub(r"[^A-Za-z0-9._-]+", "-", address).strip("-")[:54]
