"""An emulator for a person at the command line: one of this host, any address, or a virtual one made for the moment."""

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
from pydantic import ValidationError

from droidherd.adb.client import AdbClient
from droidherd.adb.server import AdbServer, end_leftover
from droidherd.cli.client import must_exist
from droidherd.cli.errors import CliError, invalid_emulator
from droidherd.cli.local.layout import Layout
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.processes import children
from droidherd.settings import Settings
from droidherd.virtual.process import VirtualFleet

VIRTUAL = "virtual-1"
PREFIX = "droidherd-at-"
"""Of the folder of a command; its pid follows."""


@dataclass(frozen=True, slots=True)
class ReachedEmulator:
    """Behind an adb server of this command alone, which ends with it."""

    entry: InventoryEntry
    adb: AdbClient
    home: Path
    """For what lasts as long as the command."""

    @property
    def address(self) -> str:
        return self.entry.address


@contextmanager
def reach(settings: Settings, emulator: str, *, virtual: bool) -> Generator[ReachedEmulator]:
    """`emulator` is its id in this host's list, or an address. Empty: the only one there is."""
    if virtual and emulator:
        raise CliError("--virtual and --emulator do not go together", code=2)
    with TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        _end_leftovers(home)
        if virtual:
            with VirtualFleet.start(state=home / "virtual", count=1) as fleet:
                yield from _behind_adb(
                    settings, InventoryEntry(emulator_id=VIRTUAL, address=fleet.addresses[VIRTUAL]), home
                )
        else:
            if ":" not in emulator:
                must_exist(Layout(settings.data.absolute()))
            yield from _behind_adb(settings, choose_emulator(Inventory(settings.data), emulator), home)


def _end_leftovers(home: Path) -> None:
    """End what was left by commands that were killed: nobody else would."""
    for folder in home.parent.glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        with suppress(OSError):
            dead = owner.isdecimal() and not psutil.pid_exists(int(owner))
            if dead and folder.lstat().st_uid == home.stat().st_uid and not folder.is_symlink():
                end_leftover(folder / "adb")
                shutil.rmtree(folder)


def choose_emulator(inventory: Inventory, emulator: str) -> InventoryEntry:
    """Which one is meant."""
    known = inventory.load()
    if ":" in emulator:
        found = next((one for one in known if one.address == emulator), None)
        return found or _stranger(emulator)
    if emulator:
        found = next((one for one in known if one.emulator_id == emulator), None)
        if found is None:
            names = ", ".join(one.emulator_id for one in known) or "none"
            raise CliError(f"no emulator {emulator!r} is in this host's list", remedy=f"there are: {names}")
        return found
    if len(known) == 1:
        return known[0]
    raise CliError(
        "which emulator?" if known else "this host has no emulator",
        remedy="say --emulator ID or HOST:PORT, or --virtual for one that lasts as long as the command",
        code=2,
    )


def _stranger(address: str) -> InventoryEntry:
    try:
        return InventoryEntry(emulator_id="emulator", address=address)
    except ValidationError as error:
        raise invalid_emulator(error) from error


def _behind_adb(settings: Settings, entry: InventoryEntry, home: Path) -> Generator[ReachedEmulator]:
    Inventory(home).add(entry)
    key = Layout(settings.data.absolute()).adb / ".android" / "adbkey"
    trusted = [one for one in (os.environ.get("ADB_VENDOR_KEYS", ""), str(key) if key.exists() else "") if one]
    environment = {**children.system_environment(os.environ), "ADB_VENDOR_KEYS": os.pathsep.join(trusted)}
    with AdbServer(0, home / "adb", settings.adb.program, environment=environment) as server:
        yield ReachedEmulator(entry, server.client(), home)
