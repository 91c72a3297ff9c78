"""The store as seen by a cleanup."""

import os
from pathlib import Path

import pytest

from droidherd.artifacts.store import MARK, DirectoryStore, MissingArtifactError
from droidherd.domain.errors import BadParametersError
from droidherd.domain.retention import Folder, Shelf


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "artifacts")


def test_the_store_is_what_a_cleanup_asks_for(store: DirectoryStore):
    shelf: Shelf = store
    assert [] == list(shelf.folders())


def test_a_tasks_artifacts_go_together_and_only_its_own(store: DirectoryStore, tmp_path: Path):
    store.put("t1", "a.png", b"123")
    store.put("t1", "b.log", b"4567")
    store.put("t2", "a.png", b"x")
    assert (7, 7) == (store.size("t1"), store.remove("t1"))
    assert ((), 0, 0) == (store.list("t1"), store.size("t1"), store.remove("t1"))
    with pytest.raises(MissingArtifactError):
        store.get("t1", "a.png")
    assert b"x" == store.get("t2", "a.png")
    assert {"t2", MARK} == set(os.listdir(tmp_path / "artifacts"))  # noqa: PTH208


def test_what_a_rollback_needs_is_measured_apart_and_left_when_the_rest_goes(store: DirectoryStore):
    store.put("t1", "before-1-0-7-1-0.bin", b"12345")
    store.put("t1", "1-0-1-frame.png", b"123")
    store.put("t1", "log-1-7-0-1.jsonl", b"12")
    (folder,) = store.folders()
    assert (10, 5) == (folder.size, folder.before)
    assert (5, 0, 0) == (store.thin("t1"), store.thin("t1"), store.thin("unknown"))
    assert (["before-1-0-7-1-0.bin"], b"12345") == (
        [ref.name for ref in store.list("t1")],
        store.get("t1", "before-1-0-7-1-0.bin"),
    )


def test_who_reads_an_artifact_reads_it_to_the_end(store: DirectoryStore):
    store.put("t1", "a.log", b"x" * 100_000)
    with store.open("t1", "a.log") as file:
        store.remove("t1")
        assert 100_000 == len(file.read())


def test_folders_are_measured_with_their_last_change(store: DirectoryStore, tmp_path: Path):
    store.put("t1", "a.png", b"123")
    store.put("t1", "b.png", b"4567")
    for path, moment in ((tmp_path / "artifacts/t1", 50), (tmp_path / "artifacts/t1/a.png", 100)):
        os.utime(path, (moment, moment))
    os.utime(tmp_path / "artifacts/t1/b.png", (70, 70))
    os.utime(tmp_path / "artifacts/t1", (50, 50))
    assert [Folder("t1", 7, 100_000)] == list(store.folders())


def test_what_is_no_tasks_folder_is_passed_over_and_never_removed(store: DirectoryStore, tmp_path: Path):
    root = tmp_path / "artifacts"
    store.put("t1", "a.png", b"1")
    (root / "photos" / "2024").mkdir(parents=True)
    (root / "photos" / "a.png").write_bytes(b"mine")
    (root / ".hidden").mkdir()
    (root / "a b").mkdir()
    (root / "notes.txt").write_text("mine")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_bytes(b"mine")
    (root / "link").symlink_to(tmp_path / "secret")
    assert ["t1"] == [folder.task_id for folder in store.folders()]
    assert [0, 0, 0] == [store.remove(name) for name in ("photos", "link", "notes.txt")]
    assert (b"mine", b"mine") == ((root / "photos/a.png").read_bytes(), (tmp_path / "secret/key").read_bytes())


@pytest.mark.parametrize("name", ["", "..", ".", "../x", "a/b", "/etc", ".hidden"])
def test_a_name_that_leads_elsewhere_is_refused(store: DirectoryStore, name: str):
    for call in (store.size, store.remove, store.thin):
        with pytest.raises(BadParametersError):
            call(name)


def test_a_new_store_says_that_it_is_one(store: DirectoryStore, tmp_path: Path):
    assert "" == store.ours()
    store.put("t1", "a.png", b"1")
    assert ("", True) == (store.ours(), (tmp_path / "artifacts" / MARK).exists())


def test_a_directory_that_held_something_else_is_not_taken_for_a_store(tmp_path: Path):
    (tmp_path / "holiday.png").write_bytes(b"mine")
    store = DirectoryStore(tmp_path)
    store.put("t1", "a.png", b"1")
    assert f"{tmp_path} may hold more than artifacts" in store.ours()
    store.mark()
    assert "" == store.ours()


def test_a_removal_that_was_broken_off_is_finished(store: DirectoryStore, tmp_path: Path):
    store.put("t1", "a.png", b"1")
    (tmp_path / "artifacts" / "t1").rename(tmp_path / "artifacts" / ".gone-1")
    assert [] == list(store.folders())
    store.purge()
    assert [MARK] == os.listdir(tmp_path / "artifacts")  # noqa: PTH208
