"""`droidherd connect`: one emulator joins, in one command."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from droidherd.cli.door import Document, Door, rows_of
from droidherd.cli.errors import NotReadyError, unfit
from droidherd.cli.layout import Layout
from droidherd.controllers.model import NONE
from droidherd.controllers.registry import Controllers
from droidherd.emulator.addresses import name_of, plain_address
from droidherd.emulator.inventory import Inventory, InventoryEntry

POLL_S = 0.3
UP = "up"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is said about an emulator beside its address. What is left empty stays as it is known."""

    labels: Mapping[str, str]
    """One that is given empty goes."""
    name: str = ""
    controller: str = ""
    instance: str = ""


def enlist(layout: Layout, address: str, wish: Wish, controllers: Controllers) -> InventoryEntry:
    """Write it into the host's list; the worker reads that list again and again."""
    address = plain_address(address)
    inventory = Inventory(layout.data)
    known = next((one for one in inventory.load() if one.address == address), None)
    controllers.find(wish.controller or (known.controller if known else NONE))
    kept = known.model_dump(exclude={"labels"}) if known else {"emulator_id": name_of(address), "address": address}
    said = {"emulator_id": wish.name, "controller": wish.controller, "instance": wish.instance}
    whole = {**(known.labels if known else {}), **wish.labels}
    labels = {label: value for label, value in whole.items() if value}
    try:
        entry = InventoryEntry.model_validate(
            {**kept, **{name: value for name, value in said.items() if value}, "labels": labels}
        )
    except ValidationError as error:
        raise unfit(error) from error
    if known is not None and known.emulator_id != entry.emulator_id:
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
        remedy="is it on, with ADB enabled, at this address? It joins when it is; `droidherd logs worker` says more",
    )
