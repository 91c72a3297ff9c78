import errno
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from droidherd.artifacts.names import checked_name, content_type_of
from droidherd.artifacts.store import DirectoryStore, MissingArtifactError
from droidherd.domain.errors import BadParametersError, DiskFullError, FinalError
from droidherd.domain.ports import ArtifactRef, Artifacts

BAD_NAMES = [
    "", ".", "..", "../x", "a/b", "a\\b", "/etc/passwd", ".hidden", "a\0b", "a\nb", "a b", "C:x", "con", "NUL.png",
    "é.png", "😀", "x" * 121, "a.", "-rf", "'x'", "x;y",
]  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "artifacts")


def test_the_store_is_what_the_port_asks_for(store: DirectoryStore) -> None:
    port: Artifacts = store
    assert ArtifactRef("a.png", 3, "image/png") == port.put("task-1", "a.png", b"abc", "image/png")


def test_what_was_put_is_got_and_listed_by_name(store: DirectoryStore) -> None:
    store.put("task-1", "b.log", b"words")
    store.put("task-1", "a.png", b"")
    assert b"words" == store.get("task-1", "b.log")
    expected = (ArtifactRef("a.png", 0, "image/png"), ArtifactRef("b.log", 5, "text/plain; charset=utf-8"))
    assert expected == store.list("task-1")


def test_a_task_without_artifacts_has_an_empty_list(store: DirectoryStore) -> None:
    assert () == store.list("nobody")


def test_a_task_does_not_see_what_another_left(store: DirectoryStore) -> None:
    store.put("task-1", "a.png", b"1")
    with pytest.raises(MissingArtifactError, match=r"task-2 has no artifact a\.png"):
        store.get("task-2", "a.png")
    assert () == store.list("task-2")


def test_the_same_name_put_again_holds_what_was_put_last(store: DirectoryStore) -> None:
    store.put("task-1", "a.png", b"first")
    store.put("task-1", "a.png", b"second")
    assert b"second" == store.get("task-1", "a.png")
    assert 1 == len(store.list("task-1"))


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_is_not_one_plain_file_is_refused(store: DirectoryStore, tmp_path: Path, name: str) -> None:
    for call in (lambda: store.put("task-1", name, b"x"), lambda: store.get("task-1", name), lambda: store.list(name)):
        with pytest.raises(BadParametersError, match="is not a name of an"):
            call()
    with pytest.raises(BadParametersError):
        store.put(name, "a.png", b"x")
    assert [] == list(tmp_path.rglob("*"))


@given(st.text(max_size=200))
def test_a_name_that_passes_stays_inside_its_folder(name: str) -> None:
    try:
        good = checked_name(name)
    except BadParametersError:
        return
    assert name == good
    assert "/store/task" == os.path.dirname(os.path.normpath(f"/store/task/{good}"))  # noqa: PTH120


@pytest.mark.parametrize(
    ("expected", "name"),
    [
        ("image/png", "a.PNG"),
        ("application/json", "a.b.json"),
        ("application/x-ndjson", "log-1.jsonl"),
        ("application/octet-stream", "noext"),
        ("text/html; charset=utf-8", "a.evidence.html"),
    ],
)
def test_the_content_type_follows_from_the_name(expected: str, name: str) -> None:
    assert expected == content_type_of(name)


def test_a_content_type_that_contradicts_the_name_is_refused(store: DirectoryStore) -> None:
    with pytest.raises(BadParametersError, match=r"text/html does not go with the name a\.png"):
        store.put("task-1", "a.png", b"<script>", "text/html")


def test_a_symbolic_link_in_the_store_is_not_followed(store: DirectoryStore, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"secret")
    store.put("task-1", "a.png", b"x")
    (tmp_path / "artifacts" / "task-1" / "b.png").symlink_to(tmp_path / "secret.png")
    (tmp_path / "artifacts" / "task-2").symlink_to(tmp_path)
    for task, name in (("task-1", "b.png"), ("task-2", "secret.png")):
        with pytest.raises(BadParametersError, match="leads out of the store"):
            store.get(task, name)
    assert ["a.png"] == [ref.name for ref in store.list("task-1")]


def test_what_is_too_large_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path, size_max=4)
    with pytest.raises(BadParametersError, match="5 bytes are more than 4"):
        store.put("task-1", "a.png", b"12345")
    assert () == store.list("task-1")


def test_a_task_leaves_a_bounded_number_but_may_replace_what_it_left(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path, count_max=2)
    for name in ("a.png", "b.png", "a.png"):
        store.put("task-1", name, b"x")
    with pytest.raises(FinalError, match="2 artifacts already"):
        store.put("task-1", "c.png", b"x")


def test_a_full_disk_says_so_and_leaves_what_was_there(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("task-1", "a.png", b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError, match="no space left"):
        store.put("task-1", "a.png", b"new")
    monkeypatch.undo()
    assert b"old" == store.get("task-1", "a.png")
    assert ["a.png"] == [path.name for path in (tmp_path / "artifacts" / "task-1").iterdir()]


def test_a_reader_sees_the_old_or_the_new_and_never_a_part(store: DirectoryStore) -> None:
    contents = {bytes([char]) * 200_000 for char in b"abcd"}
    store.put("task-1", "a.png", next(iter(contents)))

    def write() -> None:
        for content in sorted(contents) * 5:
            store.put("task-1", "a.png", content)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert store.get("task-1", "a.png") in contents
    for writer in writers:
        writer.join(timeout=10)


def test_an_artifact_is_streamed_from_an_open_file(store: DirectoryStore) -> None:
    store.put("task-1", "a.log", b"line 1\nline 2\n")
    with store.open("task-1", "a.log") as file:
        assert [b"line 1\n", b"line 2\n"] == list(file)


def test_what_is_written_in_pieces_appears_whole_when_the_block_ends_well(
    store: DirectoryStore, tmp_path: Path
) -> None:
    with store.stream("task-1", "a.bin", size_max=1_000_000) as file:
        for _ in range(10):
            file.write(b"x" * 100_000)
        assert () == store.list("task-1")
    assert b"x" * 1_000_000 == store.get("task-1", "a.bin")
    assert ["a.bin"] == [path.name for path in (tmp_path / "artifacts" / "task-1").iterdir()]


def test_whoever_raises_while_writing_leaves_nothing(store: DirectoryStore, tmp_path: Path) -> None:
    def write() -> None:
        with store.stream("task-1", "a.bin", size_max=1_000_000) as file:
            file.write(b"x")
            raise FinalError("changed while it was read")

    with pytest.raises(FinalError):
        write()
    assert [] == [*(tmp_path / "artifacts" / "task-1").iterdir()]
