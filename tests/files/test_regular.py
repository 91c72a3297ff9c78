import os
from collections.abc import Callable
from pathlib import Path

import pytest

from api.auth import UnsafeSettingsError, keys_of
from droidherd.artifacts.apk import read_apk
from droidherd.artifacts.store import DirectoryStore, MissingArtifactError
from droidherd.cli.commands.flow_runs import secrets_of
from droidherd.cli.errors import CliError
from droidherd.domain.errors import BadParametersError, FlowError
from droidherd.emulator.inventory import FILE, Inventory
from droidherd.engine.encryption import read_private
from droidherd.evidence.recording import read
from droidherd.files.regular import file_problem, open_regular, read_regular
from droidherd.flows.loading.document import read_document
from droidherd.settings import Api, load
from droidherd.vision.pixels import read_image


def pipe_at(path: Path) -> Path:
    os.mkfifo(path, 0o600)
    return path


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    return pipe_at(tmp_path / "pipe")


def endless_link(path: Path) -> Path:
    path.symlink_to("/dev/zero")
    return path


SPECIAL: list[Callable[[Path], Path]] = [pipe_at, endless_link]


@pytest.mark.parametrize("make", SPECIAL)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], Path]):
    with pytest.raises(OSError, match="it is not a regular file"):
        open_regular(make(tmp_path / "a"))


def test_a_file_above_the_limit_is_refused(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"12345")
    assert b"12345" == read_regular(tmp_path / "a", 5)
    with pytest.raises(OSError, match="it has more than 4 bytes"):
        read_regular(tmp_path / "a", 4)


def test_a_file_that_hides_its_size_is_bounded_too():
    with pytest.raises(OSError, match="it has more than 4 bytes"):
        read_regular(Path("/proc/self/status"), 4)  # its size is said to be 0


def test_a_link_out_of_the_folder_is_named_and_not_opened(tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "beside").write_bytes(b"1")
    (folder / "real").write_bytes(b"1")
    (folder / "inside").symlink_to("real")
    (folder / "outside").symlink_to(tmp_path / "beside")
    (folder / "circle").symlink_to("circle")
    assert "" == file_problem(folder / "inside", folder, 1)
    assert "it leads outside its folder" == file_problem(folder / "outside", folder, 1)
    assert "" != file_problem(folder / "circle", folder, 1)
    assert "it has more than 0 bytes" == file_problem(folder / "real", folder, 0)


def test_a_pipe_in_the_place_of_a_file_blocks_no_reader(pipe: Path, tmp_path: Path):
    (tmp_path / "task").mkdir()
    pipe_at(tmp_path / "task" / "a.png")
    pipe_at(tmp_path / FILE)
    for kind, reader in (
        (OSError, lambda: read_document(pipe)),
        (OSError, lambda: read_apk(pipe)),
        (FlowError, lambda: read_image(pipe)),
        (BadParametersError, lambda: read_private(pipe)),
        (BadParametersError, lambda: read(pipe)),
        (BadParametersError, lambda: Inventory(tmp_path).load()),
        (UnsafeSettingsError, lambda: keys_of(Api(key_file=str(pipe)))),
        (UnsafeSettingsError, lambda: keys_of(Api(keys_file=str(pipe)))),
        (MissingArtifactError, lambda: DirectoryStore(tmp_path).get("task", "a.png")),
        (CliError, lambda: secrets_of([("pin", f"file:{pipe}")])),
    ):
        with pytest.raises(kind):
            reader()


def test_settings_in_a_file_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with (tmp_path / "droidherd.toml").open("wb") as file:
        file.truncate(2 << 20)
    monkeypatch.setenv("DROIDHERD_CONFIG", str(tmp_path / "droidherd.toml"))
    with pytest.raises(ValueError, match="cannot be read: it has more than"):
        load()
