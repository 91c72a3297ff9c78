import json
import os
import threading
from pathlib import Path

import pytest
from pydantic import ValidationError

from droidherd.domain.errors import BadParametersError
from droidherd.emulator.inventory import FILE, LOCK_STALE_S, Inventory, InventoryEntry

ONE = InventoryEntry(emulator_id="one", address="127.0.0.1:16384", serialno="S1", labels={"region": "cn"})
TWO = InventoryEntry(emulator_id="two", address="127.0.0.1:16386", controller="virtual")


def test_a_list_that_was_never_written_is_empty(tmp_path: Path):
    assert () == Inventory(tmp_path / "none").load()


def test_what_is_added_is_loaded_and_replaced_by_id(tmp_path: Path):
    inventory = Inventory(tmp_path / "data")
    assert (ONE, TWO) == inventory.add(ONE, TWO)
    moved = ONE.model_copy(update={"address": "127.0.0.1:16999"})
    inventory.add(moved)
    assert (TWO, moved) == Inventory(tmp_path / "data").load()
    assert (moved, None) == (inventory.find("one"), inventory.find("three"))


def test_what_is_removed_is_gone_and_may_be_removed_again(tmp_path: Path):
    inventory = Inventory(tmp_path)
    inventory.add(ONE, TWO)
    assert (TWO,) == inventory.remove("one")
    assert (TWO,) == inventory.remove("one")
    assert [FILE] == [one.name for one in tmp_path.iterdir()]


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "a b:1", "x:1;y", ":5"]
)
def test_what_is_no_address_is_refused_with_an_example(address: str):
    with pytest.raises(ValidationError, match="write host:port, for example"):
        InventoryEntry(emulator_id="one", address=address)


@pytest.mark.parametrize("address", ["127.0.0.1:5555", "emulators.example:16384", "[::1]:7000"])
def test_names_and_numbers_are_addresses(address: str):
    assert address == InventoryEntry(emulator_id="one", address=address).address


@pytest.mark.parametrize("emulator_id", ["", "../x", "a b", "x" * 65, "é", "a\n"])
def test_an_id_that_is_unsafe_in_names_is_refused(emulator_id: str):
    with pytest.raises(ValidationError):
        InventoryEntry(emulator_id=emulator_id, address="127.0.0.1:1")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "Invalid JSON"),
        ('{"emulators": [{"emulator_id": "one"}]}', "emulators.0.address is missing"),
        ('{"emulators": [{"emulator_id": "one", "address": "x:1", "adress": "y"}]}', "emulators.0.adress"),
        (json.dumps({"emulators": [ONE.model_dump(), ONE.model_dump()]}), "'one' stands twice"),
        (
            json.dumps({"emulators": [ONE.model_dump(), ONE.model_dump() | {"emulator_id": "other"}]}),
            "127.0.0.1:16384 is the address of 'one' and of 'other'",
        ),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_place(tmp_path: Path, text: str, complaint: str):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(BadParametersError) as caught:
        Inventory(tmp_path).load()
    assert complaint in str(caught.value)
    assert str(tmp_path / FILE) in str(caught.value)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path):
    (tmp_path / FILE).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadParametersError, match="UTF-8"):
        Inventory(tmp_path).load()


def test_an_address_is_not_given_twice_by_adding(tmp_path: Path):
    inventory = Inventory(tmp_path)
    inventory.add(ONE)
    with pytest.raises(BadParametersError, match="is the address of"):
        inventory.add(TWO.model_copy(update={"address": ONE.address}))
    assert (ONE,) == inventory.load()


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path):
    def add(number: int) -> None:
        Inventory(tmp_path).add(InventoryEntry(emulator_id=f"e{number}", address=f"127.0.0.1:{1000 + number}"))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(12)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(20)
    assert {f"e{number}" for number in range(12)} == {one.emulator_id for one in Inventory(tmp_path).load()}


def test_a_lock_left_by_a_dead_writer_is_broken(tmp_path: Path):
    lock = tmp_path / "emulators.lock"
    lock.touch()
    long_ago_s = lock.stat().st_mtime - LOCK_STALE_S - 1
    os.utime(lock, (long_ago_s, long_ago_s))
    assert (ONE,) == Inventory(tmp_path).add(ONE)


def test_a_typo_in_the_list_costs_no_emulator_that_is_known(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    inventory = Inventory(tmp_path)
    inventory.add(ONE, TWO)
    assert (ONE, TWO) == inventory.entries()
    inventory.path.write_text('{"emulators": [', encoding="utf-8")
    assert (ONE, TWO) == inventory.entries() == inventory.entries()
    assert ONE == inventory.find("one")
    assert 1 == len(caplog.records)
    inventory.path.write_text('{"emulators": []}', encoding="utf-8")
    assert () == inventory.entries()


def test_a_label_comes_and_goes_and_leaves_the_others_alone(tmp_path: Path):
    inventory = Inventory(tmp_path)
    inventory.add(ONE.model_copy(update={"labels": {"region": "cn"}}), TWO)
    inventory.label(ONE.emulator_id, "account", "ann")
    found = inventory.find(ONE.emulator_id)
    assert found is not None
    assert {"region": "cn", "account": "ann"} == found.labels
    inventory.label(ONE.emulator_id, "account", "")
    inventory.label(ONE.emulator_id, "account", "")
    assert [{"region": "cn"}, TWO.labels] == [one.labels for one in inventory.load()]


def test_a_controller_enlists_its_emulators_anew_and_leaves_others_alone(tmp_path: Path):
    inventory = Inventory(tmp_path)
    mine = ONE.model_copy(update={"controller": "virtual", "labels": {"kind": "virtual"}})
    gone = mine.model_copy(update={"emulator_id": "gone", "address": "127.0.0.1:5557"})
    other = TWO.model_copy(update={"controller": "none"})
    inventory.add(other)
    inventory.enlist("virtual", [mine, gone])
    inventory.label("one", "account", "ann")
    moved = mine.model_copy(update={"address": "127.0.0.1:5559"})
    found = inventory.enlist("virtual", [moved])
    assert (other, moved.model_copy(update={"labels": {"kind": "virtual", "account": "ann"}})) == found
    before = inventory.path.stat().st_ino
    assert found == inventory.enlist("virtual", [moved]) == inventory.load()
    assert before == inventory.path.stat().st_ino
    assert (other,) == inventory.enlist("virtual", [])


def test_a_label_that_cannot_be_is_refused(tmp_path: Path):
    inventory = Inventory(tmp_path)
    inventory.add(ONE)
    with pytest.raises(BadParametersError, match="labels"):
        inventory.label(ONE.emulator_id, "account", "a b")
    assert (ONE,) == inventory.load()
