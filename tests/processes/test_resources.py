"""Processor, memory and disk, against what the machine itself says."""

import time
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from prometheus_client import CollectorRegistry

from droidherd.processes import resources
from droidherd.processes.resources import WINDOW_S, ProcessStats

HOST = {"host": "h1"}
OWN = {"process": "worker", "host": "h1"}


class _Counters(NamedTuple):
    """As psutil counts."""

    read_bytes: int
    write_bytes: int


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def value(registry: CollectorRegistry, name: str, labels: dict[str, str]) -> float:
    found = registry.get_sample_value(f"droidherd_{name}", labels)
    assert found is not None, name
    return found


def test_a_process_without_an_address_says_nothing(registry: CollectorRegistry):
    ProcessStats(registry)
    assert [] == [sample for family in registry.collect() for sample in family.samples]


def test_memory_and_disk_are_those_of_this_process_and_machine(registry: CollectorRegistry, tmp_path: Path):
    ProcessStats(registry).watch("worker", "h1", tmp_path)
    assert psutil.virtual_memory().total == value(registry, "host_memory_bytes", HOST)
    assert 0 < value(registry, "host_memory_available_bytes", HOST) <= psutil.virtual_memory().total
    assert psutil.disk_usage(str(tmp_path)).total == value(registry, "host_disk_bytes", HOST)
    assert 0 < value(registry, "host_disk_free_bytes", HOST) <= psutil.disk_usage(str(tmp_path)).total
    resident = psutil.Process().memory_info().rss
    assert value(registry, "process_memory_bytes", OWN) == pytest.approx(resident, rel=0.5)


def test_a_data_directory_that_is_not_there_yet_is_on_the_disk_of_its_parent(
    registry: CollectorRegistry, tmp_path: Path
):
    ProcessStats(registry).watch("worker", "h1", tmp_path / "not" / "yet")
    assert psutil.disk_usage(str(tmp_path)).total == value(registry, "host_disk_bytes", HOST)


def test_a_busy_process_is_seen(registry: CollectorRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resources, "WINDOW_S", 3600.0)
    ProcessStats(registry).watch("worker", "h1", tmp_path)
    assert 0.0 == value(registry, "process_cpu_cores", OWN)
    monkeypatch.undo()
    end = time.monotonic() + WINDOW_S + 0.1
    while time.monotonic() < end:
        pass
    assert 0.0 < value(registry, "process_cpu_cores", OWN) <= 1.5
    assert 0.0 < value(registry, "host_cpu_ratio", HOST) <= 1.0


def test_what_is_written_to_the_disks_is_seen(
    registry: CollectorRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    counted = [(1_000, 5_000), (1_000, 45_000)]
    monkeypatch.setattr(resources.psutil, "disk_io_counters", lambda: _Counters(*counted.pop(0)))
    ProcessStats(registry).watch("worker", "h1", tmp_path)
    monkeypatch.setattr(resources, "WINDOW_S", 0.0)
    assert 0 < value(registry, "host_disk_io_bytes_per_second", {**HOST, "direction": "write"})
    counted.append((1_000, 45_000))
    monkeypatch.setattr(resources, "WINDOW_S", 3600.0)
    assert 0.0 == value(registry, "host_disk_io_bytes_per_second", {**HOST, "direction": "read"})


def test_two_scrapes_right_after_each_other_say_the_same(
    registry: CollectorRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ProcessStats(registry).watch("worker", "h1", tmp_path)
    time.sleep(WINDOW_S)
    first = value(registry, "host_cpu_ratio", HOST)
    monkeypatch.setattr(resources, "WINDOW_S", 3600.0)  # however long the machine takes for the second one
    assert first == value(registry, "host_cpu_ratio", HOST)
