"""Who an emulator is, though addresses move: told at the boot gate, learned by the rounds, checked by both."""

import asyncio
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from droidherd.contracts.fleet import GateResult, GateWork
from droidherd.domain.errors import BadParametersError
from droidherd.domain.messages import Health, Seen
from droidherd.emulator.gate import Gatekeeper
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.emulator.probe import probe
from droidherd.emulator.probe_loop import ProbedHost, ProbeLoop, ProbeTiming
from tests.emulator.farm import LONG_S, Farm, One


@pytest.fixture
def two(tmp_path: Path, farm: Farm) -> Generator[tuple[Inventory, One, One]]:
    """Both as after a boot, in a list that knows no serial numbers."""
    for name in ("virtual-1", "virtual-2"):
        farm.emulator(name)
        farm.control.reboot(name, boot_s=0.0)
    one, other = One(farm, "virtual-1"), One(farm, "virtual-2")
    inventory = Inventory(tmp_path)
    inventory.add(*(InventoryEntry(emulator_id=each.name, address=each.address) for each in (one, other)))
    yield inventory, one, other
    for name in ("virtual-1", "virtual-2"):
        farm.control.reboot(name, boot_s=0.0)


def passes(inventory: Inventory, one: One, name: str) -> GateResult:
    work = GateWork(emulator_id=name, boot="", floor=one.lease, full=True)
    return Gatekeeper(one.adb, inventory, LONG_S).work(work, lambda _: None)


def readdress(inventory: Inventory, **addresses: str) -> None:
    inventory.add(*(InventoryEntry(emulator_id=name.replace("_", "-"), address=to) for name, to in addresses.items()))


def test_an_emulator_learns_its_name_at_gate_and_forgets_it_with_its_boot(two: tuple[Inventory, One, One]):
    inventory, one, _ = two
    assert passes(inventory, one, one.name).passed
    assert one.name == probe(one.adb, one.address, LONG_S).name
    one.control.reboot(one.name, boot_s=0.0)
    assert passes(inventory, one, one.name).passed


def test_emulators_that_changed_places_pass_no_gate_by_the_wrong_name(two: tuple[Inventory, One, One]):
    inventory, one, other = two
    assert all(passes(inventory, each, each.name).passed for each in (one, other))
    readdress(inventory, virtual_1=other.address, virtual_2=one.address)
    other.mark()
    result = passes(inventory, one, one.name)
    assert (False, True) == (result.passed, "virtual-2 answers in its place" in result.evidence)
    assert [] == [command.line for command in other.did("setprop")]


def test_one_emulator_under_two_addresses_is_found_out(two: tuple[Inventory, One, One]):
    inventory, one, _ = two
    assert passes(inventory, one, one.name).passed
    readdress(inventory, twin=one.address.replace("127.0.0.1", "localhost"))
    result = passes(inventory, one, "twin")
    assert (False, True) == (result.passed, "virtual-1 answers in its place" in result.evidence)
    one.adb.disconnect(one.address.replace("127.0.0.1", "localhost"))


def test_an_emulator_may_be_given_another_name(two: tuple[Inventory, One, One]):
    inventory, one, _ = two
    assert passes(inventory, one, one.name).passed
    inventory.remove(one.name)
    readdress(inventory, renamed=one.address)
    assert passes(inventory, one, "renamed").passed
    assert "renamed" == probe(one.adb, one.address, LONG_S).name


async def walk(inventory: Inventory, one: One, until: Callable[[list[Seen]], bool]) -> list[Seen]:
    """A host's round, until what it told is enough, or a minute."""
    reports: list[Seen] = []

    async def tell(news: tuple[Seen, ...], _listed: tuple[str, ...] | None) -> None:
        reports.extend(news)

    with ThreadPoolExecutor(4) as threads:
        probe_loop = ProbeLoop(
            ProbedHost("h", "default"), one.farm.server, inventory, ProbeTiming(0.1, 2.0, 0.5), threads
        )
        rounds = asyncio.create_task(probe_loop.run(tell, 1))
        async with asyncio.timeout(60):
            for _ in range(3000):
                if until(reports):
                    break
                await asyncio.sleep(0.02)
        rounds.cancel()
        await asyncio.gather(rounds, return_exceptions=True)
    return reports


async def test_the_first_serial_number_at_an_address_is_kept(two: tuple[Inventory, One, One]):
    inventory, one, _ = two
    await walk(inventory, one, lambda _: all(entry.serialno for entry in inventory.load()))
    assert ["VIRT0001", "VIRT0002"] == sorted(entry.serialno for entry in inventory.load())


async def test_a_report_says_when_a_probe_was_answered_last(two: tuple[Inventory, One, One]):
    inventory, one, _ = two
    reports = await walk(inventory, one, lambda news: any(seen.health is Health.GOOD for seen in news))
    (last,) = [seen.good_at_ms for seen in reports if seen.health is Health.GOOD][-1:]
    assert 0 <= time.time() * 1000 - last < 60_000


async def test_the_rounds_call_nobody_well_who_answers_for_another(two: tuple[Inventory, One, One]):
    inventory, one, other = two
    assert all(passes(inventory, each, each.name).passed for each in (one, other))
    readdress(inventory, virtual_1=other.address, virtual_2=one.address)
    reports = await walk(
        inventory, one, lambda reports: {seen.emulator_id for seen in reports} == {one.name, other.name}
    )
    assert Health.GOOD not in {seen.health for seen in reports}
    assert ["", ""] == [entry.serialno for entry in inventory.load()]


def test_a_serial_number_is_written_down_once_and_only_when_it_is_one(tmp_path: Path):
    inventory = Inventory(tmp_path)
    inventory.add(InventoryEntry(emulator_id="one", address="127.0.0.1:1"))
    with pytest.raises(BadParametersError):
        inventory.identify("one", "x" * 200)
    inventory.identify("one", "S1")
    inventory.identify("one", "S2")
    inventory.identify("none", "S3")
    assert ["S1"] == [entry.serialno for entry in inventory.load()]
    assert ["", "one", ""] == [inventory.stranger(*pair) for pair in (("one", "one"), ("two", "one"), ("one", "gone"))]
