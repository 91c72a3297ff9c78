"""One writer per process: how many write at once, how long they wait, what stays free."""

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from droidherd.artifacts import writer as module
from droidherd.artifacts.store import DirectoryStore
from droidherd.artifacts.writer import Writer
from droidherd.domain.errors import BadParametersError, DiskFullError, Verdict, WriterBusyError


class Usage(NamedTuple):
    """As the standard library says it."""

    total: int
    used: int
    free: int


class SlowDisk:
    """`fsync` waits until it is let go, and counts who waits in it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.let_go = threading.Event()
        self.entered = threading.Semaphore(0)
        self.now = self.most = 0
        self._lock = threading.Lock()
        monkeypatch.setattr(os, "fsync", self._fsync)

    def _fsync(self, _: int) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.entered.release()
        self.let_go.wait(20)
        with self._lock:
            self.now -= 1


def put_all(store: DirectoryStore, count: int) -> list[threading.Thread]:
    threads = [threading.Thread(target=store.put, args=(f"t{n}", "a.png", b"x")) for n in range(count)]
    for thread in threads:
        thread.start()
    return threads


def streamed(store: DirectoryStore, *pieces: bytes, then: Callable[[], None] = lambda: None) -> None:
    with store.stream("t1", "a.bin", size_max=100) as out:
        for piece in pieces:
            out.write(piece)
        then()


def test_no_more_than_so_many_write_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    disk = SlowDisk(monkeypatch)
    threads = put_all(DirectoryStore(tmp_path, writer=Writer(at_once=2, wait_s=20)), 6)
    for _ in range(2):
        assert disk.entered.acquire(timeout=10)
    assert not disk.entered.acquire(timeout=0.2)
    disk.let_go.set()
    for thread in threads:
        thread.join(timeout=20)
    assert 2 == disk.most
    assert 6 == len(list(tmp_path.glob("*/a.png")))


def test_stores_of_a_process_share_their_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    disk, writer = SlowDisk(monkeypatch), Writer(at_once=1, wait_s=0.05)
    (thread,) = put_all(DirectoryStore(tmp_path / "one", writer=writer), 1)
    assert disk.entered.acquire(timeout=10)
    with pytest.raises(WriterBusyError):
        DirectoryStore(tmp_path / "other", writer=writer).put("t1", "a.png", b"x")
    disk.let_go.set()
    thread.join(timeout=20)


def test_who_gets_no_turn_in_time_hears_why_and_may_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    disk = SlowDisk(monkeypatch)
    store = DirectoryStore(tmp_path, writer=Writer(at_once=1, wait_s=0.05))
    (thread,) = put_all(store, 1)
    assert disk.entered.acquire(timeout=10)
    with pytest.raises(WriterBusyError) as error:
        store.put("t9", "b.png", b"x")
    assert Verdict.RETRYABLE == error.value.verdict
    assert "no turn to write within 0.05 s: 1 writes are under way" in error.value.what
    assert "limits.writes_at_once" in error.value.remedy
    disk.let_go.set()
    thread.join(timeout=20)
    store.put("t9", "b.png", b"x")
    assert [] == list(tmp_path.glob("*/.part-*"))


def test_a_stream_holds_nobody_up_while_it_waits_for_its_next_piece(tmp_path: Path):
    store = DirectoryStore(tmp_path, writer=Writer(at_once=1, wait_s=0.05))
    with store.stream("t1", "a.bin", size_max=100) as out:
        out.write(b"one")
        store.put("t2", "b.png", b"x")
        out.write(b"two")
    assert (b"onetwo", b"x") == (store.get("t1", "a.bin"), store.get("t2", "b.png"))


def test_a_large_stream_reaches_the_disk_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    synced: list[int] = []
    monkeypatch.setattr(module, "SYNC_EVERY", 1000)
    monkeypatch.setattr(os, "fsync", synced.append)
    with DirectoryStore(tmp_path).stream("t1", "a.bin", size_max=10_000) as out:
        for _ in range(10):
            out.write(b"x" * 500)
    assert 6 == len(synced)


def test_a_stream_that_is_broken_off_leaves_nothing(tmp_path: Path):
    store = DirectoryStore(tmp_path)
    store.put("t1", "a.bin", b"old")

    def cut() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        streamed(store, b"new", then=cut)
    assert (b"old", ["a.bin"]) == (store.get("t1", "a.bin"), os.listdir(tmp_path / "t1"))  # noqa: PTH208


def test_a_stream_is_seen_only_when_it_is_whole(tmp_path: Path):
    store = DirectoryStore(tmp_path)
    with store.stream("t1", "a.bin", size_max=100) as out:
        out.write(b"new")
        assert () == store.list("t1")
    assert [3] == [ref.size for ref in store.list("t1")]


def test_a_stream_has_a_size_it_may_not_exceed(tmp_path: Path):
    store = DirectoryStore(tmp_path)
    with pytest.raises(BadParametersError, match="101 bytes are more than 100"):
        streamed(store, b"x" * 100, b"y")
    assert () == store.list("t1")


def test_what_would_not_leave_the_reserve_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    free = [1000]

    def usage(_: Path) -> Usage:
        return Usage(10_000, 0, free[0])

    monkeypatch.setattr(shutil, "disk_usage", usage)
    store = DirectoryStore(tmp_path, writer=Writer(reserve_bytes=900))
    store.put("t1", "a.png", b"x" * 100)
    with pytest.raises(DiskFullError) as error:
        store.put("t1", "b.png", b"x" * 101)
    assert (Verdict.FINAL, True) == (error.value.verdict, "limits.disk_reserve_bytes" in error.value.remedy)
    free[0] = 0
    with pytest.raises(DiskFullError):
        store.put("t1", "c.png", b"x")
    assert ["a.png"] == [ref.name for ref in store.list("t1")]


def test_a_file_outside_of_the_store_leaves_the_reserve_as_well(tmp_path: Path):
    path = tmp_path / "on-its-way"
    with Writer().file(path, 100) as file:
        file.write(b"whole")
    assert b"whole" == path.read_bytes()
    with pytest.raises(DiskFullError, match="stay so"), Writer(reserve_bytes=2**60).file(path, 100) as file:
        file.write(b"x")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_under_a_stream_is_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int):
    def full(_: int) -> None:
        raise OSError(code, "no")

    store = DirectoryStore(tmp_path)
    with pytest.raises(DiskFullError, match="no space left"):
        streamed(store, b"x", then=lambda: monkeypatch.setattr(os, "fsync", full))
    assert [] == os.listdir(tmp_path / "t1")  # noqa: PTH208
