import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from droidherd.cli.main import app
from droidherd.domain.errors import BadParametersError
from droidherd.processes import children
from droidherd.settings import load


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file of a person that others may read."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").touch(0o644)
    tmp_path.chmod(0o755)
    return tmp_path


def modes(folder: Path) -> tuple[int, int]:
    return folder.stat().st_mode & 0o777, (folder / "notes.txt").stat().st_mode & 0o777


@pytest.mark.parametrize("arguments", [["--data", ""], ["--data", "."], ["--data", ".", "--encrypt"]])
def test_up_leaves_a_folder_with_files_of_others_as_it_is(project: Path, arguments: list[str]):
    refused = CliRunner().invoke(app, ["up", *arguments])
    assert (2 if "" in arguments else 1) == refused.exit_code, refused.output
    assert (0o755, 0o644) == modes(project)
    assert ["notes.txt"] == [path.name for path in project.iterdir()]


def test_a_worker_leaves_a_folder_with_files_of_others_as_it_is(project: Path):
    children.enter_data_directory(project)
    (project / "artifacts").touch()
    assert (0o755, 0o644) == modes(project)
    assert 0o600 == (project / "artifacts").stat().st_mode & 0o777


def test_a_worker_closes_a_folder_of_its_own_to_others(tmp_path: Path):
    (tmp_path / "data").mkdir(0o755)
    children.enter_data_directory(tmp_path / "data")
    assert 0o700 == (tmp_path / "data").stat().st_mode & 0o777


def test_an_empty_name_of_the_data_directory_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DROIDHERD_DATA", "")
    with pytest.raises(ValueError, match="data must not be empty"):
        load()


def test_a_data_directory_stays_one_whatever_is_put_into_it(tmp_path: Path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "emulators.json").touch()
    children.take_data_directory(data)
    (data / "notes.txt").touch(0o644)
    children.take_data_directory(data)
    assert (0o700, 0o600) == modes(data)


def test_a_folder_with_files_of_others_is_named(project: Path):
    with pytest.raises(BadParametersError, match=r"notes\.txt"):
        children.take_data_directory(project)
