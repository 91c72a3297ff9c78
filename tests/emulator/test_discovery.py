"""Who is there: by their own word, through a real adb server; vendors' lists are stand-ins."""

import json
import socket
from collections.abc import Generator
from pathlib import Path

import pytest

from droidherd.controllers import addresses
from droidherd.controllers.model import ControllerCall, ControllerError, Power, PowerStatus, VendorInstance
from droidherd.emulator import discovery
from droidherd.emulator.discovery import FoundEmulator, Lists
from droidherd.emulator.inventory import InventoryEntry
from droidherd.emulator.probe import DeviceLink
from tests.emulator.farm import LONG_S, Farm, One, small_farm


class Tool:
    def __init__(self, *instances: VendorInstance) -> None:
        self._instances = instances

    def instances(self, call: ControllerCall, to: str = "") -> tuple[VendorInstance, ...]:
        if not self._instances:
            raise ControllerError("MuMuManager did not end", remedy="try it by hand")
        return self._instances


def look(farm: Farm, *serials: str, tools: dict[str, Lists] | None = None, known: tuple[InventoryEntry, ...] = ()):
    return discovery.look(farm.adb, serials, tools or {}, known)


@pytest.fixture
def silent() -> Generator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_the_vendors_conventions_are_among_the_few_known_ports():
    known = addresses.known_ports()
    expected = {5555, 5557, 5565, 5585, 16384, 16385, 16386, 16416, 7555, 62001, 62025, 21503, 21513, 6520}
    assert (set(), True, len(set(known))) == (expected - set(known), len(known) < 200, len(known))


@pytest.mark.parametrize(
    ("serial", "expected"),
    [
        ("emulator-5554", "127.0.0.1:5555"),
        ("emulator-5682", "127.0.0.1:5683"),
        ("localhost:5555", "127.0.0.1:5555"),
        ("10.0.0.7:16384", "10.0.0.7:16384"),
        ("R58M123ABC", "R58M123ABC"),
    ],
)
def test_an_emulator_named_by_its_console_is_found_at_its_adb_port(serial: str, expected: str):
    assert expected == addresses.plain_address(serial)


def test_what_hangs_on_a_cable_is_no_emulator():
    assert [True, True, False] == [*map(addresses.is_network, ("emulator-5554", "10.0.0.7:5555", "R58M123ABC"))]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"nemud.player_engine": "NEMUX"}, "mumu"),
        ({"init.svc.ldinit": "running"}, "ldplayer"),
        ({"bst.version": "5.21"}, "bluestacks"),
        ({"init.svc.noxd": "running", "ro.kernel.qemu": "1"}, "nox"),
        ({"microvirt.memu_version": "9.1"}, "memu"),
        ({"ro.boot.qemu": "1"}, "avd"),
        ({"ro.boot.qemu.avd_name": "Pixel_7"}, "avd"),
        ({"ro.product.model": "SM-G998B"}, ""),
    ],
)
def test_a_vendor_is_known_by_what_the_emulator_says_and_not_by_its_port(properties: dict[str, str], expected: str):
    assert expected == addresses.vendor(properties)


def test_only_who_listens_is_knocked_at(silent: str):
    port = int(silent.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", 0)) as gone:
        closed = gone.getsockname()[1]
    assert (silent,) == discovery.knock("127.0.0.1", (port, closed))


def test_an_emulator_tells_who_it_is_and_gets_a_name(farm: Farm, one: One, silent: str):
    (found,) = look(farm, one.address, silent).found
    assert (
        FoundEmulator(
            one.address,
            "device",
            emulator_id=addresses.name_of(one.address),
            vendor="virtual",
            serialno="VIRT0001",
            model="Virtual Emulator",
            android="13",
            boot_id=one.control.state(one.name)["boot_id"],
        )
        == found
    )


def test_whoever_is_found_is_written_down_by_the_number_later_probes_compare(tmp_path: Path):
    store = tmp_path / "virtual" / "virtual-1" / "store"
    store.mkdir(parents=True)
    (store / "properties.json").write_text(json.dumps({"ro.serialno": "AB 12"}), "utf-8")
    with small_farm(tmp_path) as farm:
        (address,) = farm.fleet.addresses.values()
        (entry,) = discovery.entries(look(farm, address).found, lambda _: False)
        assert "AB 12" in farm.adb.shell(address, "getprop ro.serialno", LONG_S).text
        assert entry.serialno == DeviceLink(farm.adb).ensure(address, entry.serialno, deadline_s=LONG_S).serialno


def test_the_same_emulator_behind_two_addresses_is_one(farm: Farm, one: One, other: One):
    second = f"localhost:{one.address.rpartition(':')[2]}"
    first, last = look(farm, one.address, second, other.address).found
    assert ((one.address, (second,)), (other.address, ())) == ((first.address, first.also), (last.address, last.also))


def test_two_names_of_one_boot_are_one_and_equal_numbers_do_not_make_one():
    a = FoundEmulator("127.0.0.1:5555", "device", serialno="same", boot_id="b1")
    b = FoundEmulator("127.0.0.1:16384", "device", serialno="same", boot_id="b1")
    c = FoundEmulator("127.0.0.1:16416", "device", serialno="same", boot_id="b2")
    found = discovery._once_each([a, b, c])
    assert [("127.0.0.1:5555", ("127.0.0.1:16384",)), ("127.0.0.1:16416", ())] == [(x.address, x.also) for x in found]


def test_containers_without_a_serial_number_share_a_boot_and_are_not_one():
    a, b = (FoundEmulator(f"10.0.0.7:{port}", "device", boot_id="host") for port in (5555, 5556))
    assert [a, b] == discovery._once_each([a, b])


def test_a_vendors_list_adds_its_number_and_those_that_do_not_run(farm: Farm, one: One):
    tool = Tool(
        VendorInstance("0", "main", PowerStatus(Power.ON, "127.0.0.1:16384")),
        VendorInstance("2", "second", PowerStatus(Power.OFF, "127.0.0.1:16448")),
        VendorInstance("3", "no port", PowerStatus(Power.OFF)),
    )
    found = look(farm, one.address, tools={"mumu": tool}).found
    rows = [(x.emulator_id, x.address, x.state, x.controller, x.instance) for x in found]
    assert [
        (addresses.name_of(one.address), one.address, "device", "none", ""),
        ("mumu-0", "127.0.0.1:16384", "no answer", "mumu", "0"),
        ("mumu-2", "127.0.0.1:16448", "off", "mumu", "2"),
    ] == rows


def test_a_vendors_word_does_not_win_over_that_of_the_emulator_at_its_port(farm: Farm, one: One):
    tool = Tool(VendorInstance("0", "LDPlayer", PowerStatus(Power.ON, one.address)))
    first, second = look(farm, one.address, tools={"ldplayer": tool}).found
    assert (("virtual", "none"), ("no answer", "ldplayer")) == (
        (first.vendor, first.controller),
        (second.state, second.controller),
    )


def test_a_tool_that_does_not_answer_is_reported_and_spoils_nothing(farm: Farm, one: One):
    seen = look(farm, one.address, tools={"mumu": Tool()})
    assert (1, ("mumu: MuMuManager did not end (try it by hand)",)) == (len(seen.found), seen.troubles)


def test_who_stands_in_the_list_keeps_its_name_also_at_another_address(farm: Farm, one: One, other: One):
    known = (
        InventoryEntry(emulator_id="mine", address=one.address),
        InventoryEntry(emulator_id="moved", address="127.0.0.1:1", serialno="VIRT0002"),
    )
    found = look(farm, one.address, other.address, known=known).found
    assert [("mine", True), ("moved", True)] == [(x.emulator_id, x.known) for x in found]
    assert () == discovery.entries(found, lambda name: True)


def avd(name: str, port: int) -> FoundEmulator:
    """Every AVD of one version of the emulator has the same serial number."""
    return FoundEmulator(
        f"127.0.0.1:{port}", "device", vendor="avd", instance=name, serialno="EMULATOR36X1X9X0", boot_id=name
    )


@pytest.mark.parametrize("runs", [True, False])
def test_another_emulator_with_the_serial_number_of_a_known_one_is_new(runs: bool):
    known = InventoryEntry(
        emulator_id="first", address="127.0.0.1:5555", serialno="EMULATOR36X1X9X0", controller="avd", instance="A"
    )
    found = [*([avd("A", 5555)] if runs else []), avd("B", 5557), avd("C", 5559)]
    named = tuple(discovery._with_names(found, (known,)))
    new = ["emulator-127.0.0.1-5557", "emulator-127.0.0.1-5559"]
    assert [*(["first"] if runs else []), *new] == [one.emulator_id for one in named]
    assert new == [one.emulator_id for one in discovery.entries(named, lambda _: True)]


def test_nobody_guesses_which_of_several_with_one_serial_number_has_moved():
    known = tuple(
        InventoryEntry(emulator_id=name, address=f"127.0.0.1:{port}", serialno="EMULATOR36X1X9X0")
        for name, port in (("first", 5555), ("second", 5557))
    )
    (named,) = discovery._with_names([avd("C", 5559)], known)
    assert ("emulator-127.0.0.1-5559", False) == (named.emulator_id, named.known)


def test_of_emulators_that_say_their_names_the_one_that_moved_keeps_its_id():
    known = (
        InventoryEntry(emulator_id="first", address="127.0.0.1:5555", serialno="EMULATOR36X1X9X0", instance="A"),
        InventoryEntry(emulator_id="second", address="127.0.0.1:5563", serialno="EMULATOR36X1X9X0", instance="B"),
    )
    (named,) = discovery._with_names([avd("B", 5557)], known)
    assert ("second", True) == (named.emulator_id, named.known)


def test_what_joins_is_what_runs_or_can_be_started(farm: Farm, one: One):
    tool = Tool(
        VendorInstance("0", "a", PowerStatus(Power.OFF, "127.0.0.1:16384")),
        VendorInstance("1", "b", PowerStatus(Power.STARTING, "127.0.0.1:16416")),
    )
    found = look(farm, one.address, tools={"mumu": tool}).found
    rows = [(x.emulator_id, x.controller, x.instance) for x in discovery.entries(found, lambda name: name == "mumu")]
    assert [(addresses.name_of(one.address), "none", ""), ("mumu-0", "mumu", "0")] == rows
