"""What emulators there are: on the known ports, in lists of adb servers, in the vendors' own lists."""

import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

from droidherd.adb import parse
from droidherd.adb.client import AdbClient
from droidherd.controllers import addresses
from droidherd.controllers.model import NONE, ControllerCall, ControllerError, Lists, Power, VendorInstance
from droidherd.domain.errors import DroidherdError, NotSentError
from droidherd.emulator.inventory import InventoryEntry
from droidherd.emulator.probe import probe

KNOCK_S = 0.3
KNOCKS_AT_ONCE = 64
ASKS_AT_ONCE = 8
CONNECT_S = 3.0
ANSWER_S = 5.0
FOUND_LIMIT = 200
TOOL_S = 10.0


@dataclass(frozen=True, slots=True)
class FoundEmulator:
    """One emulator that is there, or could be."""

    address: str
    state: str
    """What adb lists it as (`device`, `offline`, …); `off`: its vendor knows it, and it does not run."""
    emulator_id: str = ""
    """What it is called, or would be."""
    known: bool = False
    """It stands in the inventory already."""
    vendor: str = ""
    title: str = ""
    """Its vendor's name for it."""
    controller: str = NONE
    instance: str = ""
    serialno: str = ""
    model: str = ""
    android: str = ""
    also: tuple[str, ...] = ()
    """Other names of the same one."""
    boot_id: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a search found, and what it could not ask."""

    found: tuple[FoundEmulator, ...]
    troubles: tuple[str, ...] = ()


def knock(host: str, ports: Iterable[int]) -> tuple[str, ...]:
    """The addresses at which somebody listens. Nothing is sent."""

    def open_at(port: int) -> str:
        try:
            with socket.create_connection((host, port), KNOCK_S):
                return f"{host}:{port}"
        except OSError:
            return ""

    with ThreadPoolExecutor(KNOCKS_AT_ONCE) as threads:
        return tuple(address for address in threads.map(open_at, ports) if address)


def list_serials(server: AdbClient) -> tuple[str, ...]:
    """The serials another adb server lists; none when there is none. It is never started."""
    try:
        return tuple(one.serial for one in server.devices(ANSWER_S) if addresses.is_network(one.serial))
    except NotSentError:
        return ()


def look(
    adb: AdbClient,
    serials: Iterable[str],
    tools: Mapping[str, Lists],
    inventory: Iterable[InventoryEntry],
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Discovery:
    """Ask everybody at these serials who they are, and the vendors' tools who else there is.

    `environment` is what the tools may know.
    """
    names: dict[str, list[str]] = {}
    for serial in serials:
        names.setdefault(addresses.plain_address(serial), []).append(serial)
    chosen = list(names)[:FOUND_LIMIT]
    with ThreadPoolExecutor(ASKS_AT_ONCE) as threads:
        asked = list(threads.map(partial(_ask, adb), chosen))
    answered = [
        replace(one, also=tuple(name for name in names[one.address] if name != one.address)) for one in asked if one
    ]
    instances, troubles = _instances(tools, ControllerCall(TOOL_S, environment=environment))
    merged = _with_instances(_once_each(answered), instances)
    return Discovery(tuple(_with_names(merged, tuple(inventory))), troubles)


def _ask(adb: AdbClient, address: str) -> FoundEmulator | None:
    """None: whoever listens there does not speak adb."""
    try:
        state = adb.connect(address, CONNECT_S)
        if state != "device":
            adb.disconnect(address)
            return FoundEmulator(address, state) if state and state != "offline" else None
        properties = parse.properties(adb.shell(address, "getprop", ANSWER_S).text)
        who = probe(adb, address, ANSWER_S)
    except DroidherdError:
        return None
    return FoundEmulator(
        address,
        "device",
        vendor=addresses.vendor(properties),
        instance=addresses.avd_name(properties),
        serialno=who.serialno,  # as every later probe compares it, whatever `getprop` prints of it
        model=properties.get("ro.product.model", ""),
        android=properties.get("ro.build.version.release", ""),
        boot_id=who.boot_id,
    )


def _once_each(answered: Iterable[FoundEmulator]) -> list[FoundEmulator]:
    """The same emulator behind two addresses is one: same serial number in the same boot."""
    kept: dict[tuple[str, str], FoundEmulator] = {}
    for one in answered:
        key = (one.serialno, one.boot_id) if one.serialno and one.boot_id else (one.address, "")
        first = kept.get(key)
        kept[key] = one if first is None else replace(first, also=(*first.also, one.address, *one.also))
    return list(kept.values())


def _instances(
    tools: Mapping[str, Lists], call: ControllerCall
) -> tuple[list[tuple[str, VendorInstance]], tuple[str, ...]]:
    found: list[tuple[str, VendorInstance]] = []
    troubles: list[str] = []
    for name, tool in tools.items():
        try:
            found += [(name, one) for one in tool.instances(call)]
        except ControllerError as error:
            troubles.append(f"{name}: {error}")
    return found, tuple(troubles)


def _with_instances(
    answered: list[FoundEmulator], instances: Iterable[tuple[str, VendorInstance]]
) -> list[FoundEmulator]:
    """Who answers is joined to its vendor's number for it; who does not run is added."""
    merged = [_self_known(one) for one in answered]
    for vendor, instance in instances:
        address = instance.status.address
        at = next((n for n, one in enumerate(merged) if _is(one, vendor, address)), None)
        mine = {"vendor": vendor, "controller": vendor, "instance": instance.index, "title": instance.title}
        if at is not None:
            merged[at] = replace(merged[at], **mine)
        elif address:
            state = "off" if instance.status.power is Power.OFF else "no answer"
            merged.append(replace(FoundEmulator(address, state), **mine))
    return merged


def _is(one: FoundEmulator, vendor: str, address: str) -> bool:
    """By the vendor's own word for the address, unless the emulator there says that it is somebody else's."""
    return bool(address) and address in (one.address, *one.also) and one.vendor in ("", vendor)


def _self_known(one: FoundEmulator) -> FoundEmulator:
    """Who can be started by what it says of itself: an AVD by its name."""
    return replace(one, controller="avd", title=one.instance) if one.vendor == "avd" and one.instance else one


def _with_names(merged: list[FoundEmulator], inventory: tuple[InventoryEntry, ...]) -> Iterable[FoundEmulator]:
    taken = {entry.emulator_id for entry in inventory}
    places = {place for one in merged for place in (one.address, *one.also)}
    # Many vendors give all their emulators one serial number: then it says nothing of who somebody is.
    numbers = Counter(one.serialno for one in merged)
    elsewhere = tuple(entry for entry in inventory if entry.address not in places and numbers[entry.serialno] == 1)
    for one in merged:
        entry = _entry_of(one, inventory) or _find_moved(one, elsewhere)
        if entry is not None:
            yield replace(one, emulator_id=entry.emulator_id, known=True)
            continue
        proposed = f"{one.vendor}-{one.instance}" if one.controller != NONE and one.instance.isdigit() else ""
        name = proposed if proposed and proposed not in taken else addresses.name_of(one.address)
        taken.add(name)
        yield replace(one, emulator_id=name)


def _entry_of(one: FoundEmulator, inventory: Iterable[InventoryEntry]) -> InventoryEntry | None:
    """By its address."""
    return next((entry for entry in inventory if entry.address in (one.address, *one.also)), None)


def _find_moved(one: FoundEmulator, elsewhere: Iterable[InventoryEntry]) -> InventoryEntry | None:
    """By who it is, though at another address: one whose own address is silent, and not another of its vendor's.

    Where several may be meant, none is: what is taken for a known one is left out.
    """
    alike = [entry for entry in elsewhere if one.serialno and entry.serialno == one.serialno]
    named = [entry for entry in alike if one.instance and entry.instance == one.instance]
    likely = named or [entry for entry in alike if not one.instance or not entry.instance]
    return likely[0] if len(likely) == 1 else None


def entries(found: Iterable[FoundEmulator], controllers: Callable[[str], bool]) -> tuple[InventoryEntry, ...]:
    """What `--connect` adds: whoever runs and is not in the list, and whoever a controller of ours could start.

    Where two want the same address, who answers there has it.
    """
    chosen: dict[str, FoundEmulator] = {}
    for one in sorted(found, key=lambda one: one.state != "device"):
        if one.state in ("device", "off"):
            chosen.setdefault(one.address, one)
    return tuple(_entry(one, ours=controllers(one.controller)) for one in chosen.values() if not one.known)


def _entry(one: FoundEmulator, *, ours: bool) -> InventoryEntry:
    return InventoryEntry(
        emulator_id=one.emulator_id,
        address=one.address,
        serialno=one.serialno,
        labels={"vendor": one.vendor} if one.vendor else {},
        controller=one.controller if ours else NONE,
        instance=one.instance if ours else "",
    )
