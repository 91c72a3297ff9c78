"""The keys: read, or refused with what to do, and never shown."""

import base64
from pathlib import Path
from typing import Any

import pytest

from droidherd.domain.errors import BadParametersError
from droidherd.engine.encryption import EncryptionKeys, make_key_file
from droidherd.settings import KEYS_FILE, EncryptionSettings, Settings, load

ONE, TWO = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))


def settings(tmp_path: Path, **group: Any) -> Settings:
    return Settings(data=tmp_path, encryption=EncryptionSettings(**group))


def written(tmp_path: Path, text: str, mode: int = 0o600) -> Settings:
    file = tmp_path / "keys"
    file.write_text(text)
    file.chmod(mode)
    return settings(tmp_path, keys_file=str(file))


def refusal(given: Settings) -> str:
    with pytest.raises(BadParametersError) as raised:
        EncryptionKeys.of(given)
    return str(raised.value)


def test_the_first_key_encrypts_and_all_decrypt(tmp_path: Path):
    keys = EncryptionKeys.of(written(tmp_path, f"# since May\nk2 {TWO}\n\nk1 {ONE}\n"))
    assert ("k2", {"k2": b"\x02" * 32, "k1": b"\x01" * 32}) == (keys.active, keys.secrets)
    assert keys == EncryptionKeys.of(settings(tmp_path, keys=f"k2 {TWO}, k1 {ONE}"))


def test_without_writing_what_is_encrypted_can_still_be_read(tmp_path: Path):
    keys = EncryptionKeys.of(settings(tmp_path, keys=f"k1 {ONE}", write=False))
    assert ("", ["k1"]) == (keys.active, list(keys.secrets))


def test_without_any_key_nothing_is_encrypted(tmp_path: Path):
    assert EncryptionKeys() == EncryptionKeys.of(settings(tmp_path))


def test_a_key_in_the_data_directory_is_found_and_never_made_twice(tmp_path: Path):
    file = tmp_path / "data" / KEYS_FILE
    make_key_file(file)
    content = file.read_text()
    make_key_file(file)
    assert (content, 0o600) == (file.read_text(), file.stat().st_mode & 0o777)
    assert "k1" == EncryptionKeys.of(Settings(data=tmp_path / "data")).active


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "has no key"),
        ("# k1\n", "has no key"),
        (ONE, "entry 1 is not an id and a key"),
        (f"k1 {ONE} more", "entry 1 is not an id and a key"),
        (f"k1 {ONE}\nk1 {TWO}", "entry 2 has the id of an earlier one"),
        (f"k1 {ONE[:20]}\n", "entry 1 has a key of 15 bytes"),
        (f"k1 {ONE[:21]}\n", "entry 1 has a key that is not base64"),
        (f"k1 {ONE[:-4]}äöü=\n", "entry 1 has a key that is not base64"),
        (f"{ONE} k1\n", "entry 1 has no id"),
        ("\n".join(f"k{number} {ONE}" for number in range(65)), "has more than 64 keys"),
        ("x" * 20_000, "is larger than 16384 bytes"),
    ],
)
def test_a_malformed_key_is_refused_with_what_to_do_and_not_shown(tmp_path: Path, text: str, expected: str):
    message = refusal(written(tmp_path, text))
    assert expected in message
    assert "openssl rand -base64 32" in message or "remove the oldest" in message
    assert ONE[:12] not in message


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int):
    assert f"chmod 600 {tmp_path}/keys" in refusal(written(tmp_path, f"k1 {ONE}", mode))


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    message = refusal(settings(tmp_path, keys_file=str(tmp_path / "none")))
    assert str(tmp_path / "none") in message
    assert "cannot be read" in message


def test_two_places_for_keys_are_one_too_many(tmp_path: Path):
    assert "set one of them" in refusal(settings(tmp_path, keys=f"k1 {ONE}", keys_file="keys"))


@pytest.mark.parametrize("name", ["ENCRYPTION__KEY", "ENCRYPTION__WRITE", "API__PORT"])
def test_settings_that_make_no_sense_show_no_key(monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setenv(f"DROIDHERD_{name}", f"k1 {ONE}")
    with pytest.raises(ValueError, match=name.rpartition("__")[2].lower()) as raised:
        load()
    assert ONE[:12] not in str(raised.value)


def test_keys_are_not_part_of_what_settings_show(tmp_path: Path):
    given = settings(tmp_path, keys=f"k1 {ONE}")
    assert ONE not in repr(given) + repr(EncryptionKeys.of(given))
