"""What this process and its machine use and have left: processor, memory, disk space."""

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import psutil
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from droidherd.domain.fleet.disk_space import DiskSpace

WINDOW_S: Final = 1.0
"""Two readings of the processor that are closer together than this return the same."""


def disk_spaces(places: Mapping[str, Path]) -> tuple[DiskSpace, ...]:
    """How much disk space is free at each place. A folder that does not exist yet counts as its nearest parent."""
    return tuple(DiskSpace(place, str(path), shutil.disk_usage(_existing(path)).free) for place, path in places.items())


def rss_bytes() -> int:
    """Memory that this process holds now."""
    return int(psutil.Process().memory_info().rss)


class _Processor:
    """How busy the processor was between two readings: by this process in cores, by the whole machine as a share."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._at = self._own = self._busy = self._all = 0.0
        self._look()
        self.cores = self.share = 0.0

    def look(self) -> None:
        if time.monotonic() - self._at >= WINDOW_S:
            self._look()

    def _look(self) -> None:
        at, own, busy, everything = time.monotonic(), self._own, self._busy, self._all
        passed, self._at = at - self._at, at
        times = self._process.cpu_times()
        self._own = times.user + times.system
        machine = psutil.cpu_times()
        self._all = float(sum(machine[:8]))  # what guests take is part of what users do
        self._busy = self._all - machine.idle - float(getattr(machine, "iowait", 0.0))
        if self._all > everything:
            self.cores = max(self._own - own, 0.0) / passed
            self.share = min(max(self._busy - busy, 0.0) / (self._all - everything), 1.0)


class _Disks:
    """How much the disks of the machine read and wrote per second, between two readings."""

    def __init__(self) -> None:
        self._at, self._seen = time.monotonic(), self._counters()
        self.read_bps = self.write_bps = 0.0

    def look(self) -> None:
        passed = time.monotonic() - self._at
        if passed < WINDOW_S:
            return
        now = self._counters()
        self.read_bps, self.write_bps = (
            max(0, after - before) / passed for before, after in zip(self._seen, now, strict=True)
        )
        self._at, self._seen = self._at + passed, now

    def _counters(self) -> tuple[int, int]:
        """Bytes read and written since the machine started; zeros where the system does not count them."""
        found = psutil.disk_io_counters()
        return (found.read_bytes, found.write_bytes) if found else (0, 0)


class ProcessStats(Collector):
    """Gauges of one process and of the machine it runs on, read at each scrape. Empty until `watch` was called."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """No process is named yet."""
        self._process = psutil.Process()
        self._processor: _Processor | None = None
        self._disks: _Disks | None = None
        self._labels: tuple[str, str] = ("", "")
        self._folder = Path()
        registry.register(self)

    def watch(self, process: str, host: str, data: Path) -> None:
        """Report this process as a `worker` or an `api` of this host, which keeps its data in that folder."""
        self._labels, self._folder = (process, host), data
        self._processor, self._disks = _Processor(self._process), _Disks()

    @override
    def collect(self) -> Iterator[Metric]:
        own = ["process", "host"]
        cores = GaugeMetricFamily("droidherd_process_cpu_cores", "cores this process keeps busy", labels=own)
        resident = GaugeMetricFamily("droidherd_process_memory_bytes", "resident memory of this process", labels=own)
        share = GaugeMetricFamily("droidherd_host_cpu_ratio", "how busy the machine is, 0 to 1", labels=["host"])
        free = GaugeMetricFamily("droidherd_host_memory_available_bytes", "memory that is available", labels=["host"])
        memory = GaugeMetricFamily("droidherd_host_memory_bytes", "all memory", labels=["host"])
        disk_free = GaugeMetricFamily(
            "droidherd_host_disk_free_bytes", "free disk space where the data is", labels=["host"]
        )
        disk = GaugeMetricFamily("droidherd_host_disk_bytes", "size of that disk", labels=["host"])
        disk_io = GaugeMetricFamily(
            "droidherd_host_disk_io_bytes_per_second",
            "what the disks of the machine read and write",
            labels=["host", "direction"],
        )
        if self._processor is not None and self._disks is not None:
            self._processor.look()
            self._disks.look()
            disk_io.add_metric([self._labels[1], "read"], self._disks.read_bps)
            disk_io.add_metric([self._labels[1], "write"], self._disks.write_bps)
            host = [self._labels[1]]
            cores.add_metric(self._labels, self._processor.cores)
            resident.add_metric(self._labels, float(self._process.memory_info().rss))
            share.add_metric(host, self._processor.share)
            machine, place = psutil.virtual_memory(), psutil.disk_usage(str(_existing(self._folder)))
            free.add_metric(host, float(machine.available))
            memory.add_metric(host, float(machine.total))
            disk_free.add_metric(host, float(place.free))
            disk.add_metric(host, float(place.total))
        yield from (cores, resident, share, free, memory, disk_free, disk, disk_io)


def _existing(folder: Path) -> Path:
    """The folder, or its nearest parent that exists."""
    there = Path(os.path.abspath(folder))  # noqa: PTH100 - `resolve` would follow links
    return next((one for one in (there, *there.parents) if one.exists()), Path(there.anchor or "."))
