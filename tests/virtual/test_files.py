"""The file system of an emulator: nothing leaves its folder, failures are those of Android."""

import errno
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from droidherd.virtual.files import EmulatorFiles, normal

NAMES = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=20)


def files_in(folder: Path) -> EmulatorFiles:
    return EmulatorFiles(folder / "files", {"/proc/uptime": lambda: b"41.0 1\n"}, lambda pid: pid == 5)


@pytest.fixture
def files(tmp_path: Path) -> EmulatorFiles:
    return files_in(tmp_path)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(names=st.lists(NAMES, min_size=1, max_size=4))
def test_any_name_is_kept_as_it_is_inside_its_folder(tmp_path_factory: pytest.TempPathFactory, names: list[str]):
    root = tmp_path_factory.mktemp("files")
    files = files_in(root)
    for name in names:
        path = f"/sdcard/{name}"
        if normal(path) in {"/", "/sdcard"}:
            continue
        files.append(path, name.encode())
        assert name.encode() == files.read(path)[-len(name.encode()) :]
        assert name in files.names("/sdcard")
    outside = [path for path in root.rglob("*") if path.is_file() and root / "files" / "sdcard" != path.parent]
    assert [] == outside


def test_dots_do_not_lead_out(files: EmulatorFiles):
    for path in ("/sdcard/../../../etc/passwd", "/sdcard/../etc", "/../x"):
        with pytest.raises(OSError, match=r"No such file|Read-only") as problem:
            files.append(path, b"x")
        assert problem.value.errno in {errno.ENOENT, errno.EROFS}


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("/system/x", errno.EROFS), ("/x", errno.EROFS), ("/data/x", errno.EACCES), ("/proc/x", errno.EACCES),
        ("/sdcard/no/x", errno.ENOENT), ("/sdcard", errno.EISDIR), (f"/sdcard/{'x' * 300}", errno.ENAMETOOLONG),
    ],
)  # fmt: skip
def test_writing_fails_as_on_android(files: EmulatorFiles, path: str, number: int):
    with pytest.raises(OSError) as problem:  # noqa: PT011 - the number is looked at
        files.truncate(path)
    assert number == problem.value.errno


def test_the_second_name_of_the_card_is_the_card(files: EmulatorFiles):
    files.append("/storage/emulated/0/x", b"1")
    assert b"1" == files.read("/sdcard/x")


def test_a_full_disk_takes_nothing_more(files: EmulatorFiles):
    files.append("/sdcard/x", b"1")
    files.full = True
    with pytest.raises(OSError, match="No space left"):
        files.append("/sdcard/x", b"2")
    assert b"1" == files.read("/sdcard/x")
    files.remove("/sdcard/x", recursive=False)


def test_generated_files_are_read_and_never_written(files: EmulatorFiles):
    assert (b"41.0 1\n", "file", 7) == (
        files.read("/proc/uptime"),
        files.kind("/proc/uptime"),
        files.size("/proc/uptime"),
    )
    assert ("directory", "") == (files.kind("/proc/5"), files.kind("/proc/6"))
    with pytest.raises(OSError, match="Permission denied"):
        files.truncate("/proc/uptime")


def test_files_are_there_again_after_a_restart(tmp_path: Path):
    files_in(tmp_path).append("/data/local/tmp/j", b"begin\n")
    assert b"begin\n" == files_in(tmp_path).read("/data/local/tmp/j")
