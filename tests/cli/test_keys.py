"""`droidherd key`: no key is lost by a command, and none is shown."""

import base64
import json
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from droidherd.cli.local import key_file
from droidherd.domain.errors import BadParametersError
from droidherd.engine.encryption import FILE_MAX, KEYS_MAX, EncryptionKeys, make_key_file
from droidherd.settings import KEYS_FILE, load
from tests.support.terminal import Terminal


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    make_key_file(data / KEYS_FILE)
    return data


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(capsys, monkeypatch)


def keys_in(data: Path) -> EncryptionKeys:
    return EncryptionKeys.of(load(data=data))


def document(printed: str) -> Any:
    return json.loads(printed[printed.index("{") :])


def test_a_new_key_encrypts_and_the_one_before_still_decrypts(data: Path, terminal: Terminal):
    before = keys_in(data)
    code, printed = terminal("key", "add", "--data", str(data), "--json")
    after, answer = keys_in(data), document(printed)
    assert (0, "k2", {"k1", "k2"}) == (code, after.active, set(after.secrets))
    assert before.secrets["k1"] == after.secrets["k1"]
    assert [{"id": "k2", "encrypts": True}, {"id": "k1", "encrypts": False}] == answer["keys"]
    assert (str(data / KEYS_FILE), "`droidherd up`") == (answer["file"], answer["next"])
    assert 0o600 == stat.S_IMODE((data / KEYS_FILE).stat().st_mode)


def test_no_command_shows_a_key(data: Path, terminal: Terminal):
    for words in ("add", "add k9 --last", "use k9", "list", "remove k1", "remove k1 --yes"):
        _, printed = terminal("key", *words.split(), "--data", str(data))
        secrets = [base64.b64encode(one).decode() for one in keys_in(data).secrets.values()]
        assert [] == [one for one in secrets if one in printed]
    assert ("k9", {"k2", "k9"}) == (keys_in(data).active, set(keys_in(data).secrets))


def test_on_several_machines_a_key_reads_before_it_writes(data: Path, terminal: Terminal):
    terminal("key", "add", "--last", "--data", str(data))
    assert ("k1", {"k1", "k2"}) == (keys_in(data).active, set(keys_in(data).secrets))
    terminal("key", "use", "k2", "--data", str(data))
    assert ("k2", {"k1", "k2"}) == (keys_in(data).active, set(keys_in(data).secrets))


@pytest.mark.parametrize("key", ["k1", "k7"])
def test_the_key_that_encrypts_and_an_unknown_one_are_not_removed(data: Path, terminal: Terminal, key: str):
    before = (data / KEYS_FILE).read_bytes()
    code, printed = terminal("key", "remove", key, "--yes", "--data", str(data))
    assert (1, True) == (code, key in printed)
    assert before == (data / KEYS_FILE).read_bytes()


def test_a_key_is_not_removed_before_somebody_says_so(data: Path, terminal: Terminal):
    key_file.add_key(data / KEYS_FILE)
    code, printed = terminal("key", "remove", "k1", "--data", str(data))
    assert (2, True) == (code, "docs/security.md" in printed)
    assert {"k1", "k2"} == set(keys_in(data).secrets)


def test_an_instance_without_a_file_of_keys_says_what_to_do(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    code, printed = terminal("key", "add", "--data", str(tmp_path / "none"))
    assert (2, True) == (code, "droidherd up --encrypt" in printed)
    monkeypatch.setenv("DROIDHERD_ENCRYPTION__KEYS", f"k1 {base64.b64encode(b'1' * 32).decode()}")
    code, printed = terminal("key", "add", "--data", str(tmp_path / "none"))
    assert (2, True) == (code, "DROIDHERD_ENCRYPTION__KEYS" in printed)


def test_comments_and_links_are_kept(data: Path):
    file, link = data / KEYS_FILE, data / "link"
    file.write_text(f"# für uns\n\n{file.read_text()}# the end")
    link.symlink_to(file)
    assert "k2" == key_file.add_key(link)
    key_file.use_key(link, "k1")
    key_file.remove_key(link, "k2")
    assert link.is_symlink()
    lines = file.read_text().splitlines()
    assert (["# für uns", "", "# the end"], "k1") == (lines[:2] + lines[3:], lines[2].split()[0])


def test_no_key_is_called_one_that_encrypts_while_nothing_is_encrypted(
    data: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DROIDHERD_ENCRYPTION__WRITE", "false")
    for words in ("add", "use k1", "list"):
        code, printed = terminal("key", *words.split(), "--data", str(data))
        assert (0, True) == (code, "`encryption.write` is off" in printed)
        assert "encrypts" not in printed
        _, printed = terminal("key", "list", "--data", str(data), "--json")
        assert [False, False] == [one["encrypts"] for one in document(printed)["keys"]]
    assert "" == keys_in(data).active


@pytest.mark.parametrize("words", ["add", "add k9 --last", "use k2", "remove k2 --yes"])
def test_a_command_says_who_has_to_start_anew_to_read_the_keys(data: Path, terminal: Terminal, words: str):
    key_file.add_key(data / KEYS_FILE, last=True)
    _, printed = terminal("key", *words.split(), "--data", str(data))
    assert "every worker and API reads its keys when it starts" in " ".join(printed.split())


def test_the_file_stays_with_its_owner(data: Path):
    """Only root can give a file to somebody else: anybody else sees that it stays theirs."""
    owner = (65534, 65534) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(data / KEYS_FILE, *owner)
    key_file.add_key(data / KEYS_FILE)
    found = (data / KEYS_FILE).stat()
    assert owner == (found.st_uid, found.st_gid)


def make_another(file: Path) -> None:
    make_key_file(file.with_name("new.keys"))


@pytest.mark.parametrize("change", [key_file.add_key, make_another])
def test_a_key_is_on_the_disk_with_the_name_of_its_file(
    data: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
):
    synced: list[bool] = []

    def note(descriptor: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))

    monkeypatch.setattr(os, "fsync", note)
    change(data / KEYS_FILE)
    assert [False, True] == synced, "first what stands in it, then its name"


def test_commands_at_once_lose_no_key(data: Path):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(key_file.add_key, [data / KEYS_FILE] * 16))
    assert {"k1", *made} == set(keys_in(data).secrets)
    assert 17 == len({"k1", *made})


def test_a_file_that_is_full_or_broken_stays_as_it_is(data: Path):
    file = data / KEYS_FILE
    for number in range(KEYS_MAX - 1):
        key_file.add_key(file, f"x{number}")
    full = file.read_bytes()
    with pytest.raises(BadParametersError, match="remove the oldest"):
        key_file.add_key(file)
    assert (full, True) == (file.read_bytes(), len(full) < FILE_MAX)
    file.write_text("k1 nonsense\n")
    with pytest.raises(BadParametersError, match="entry 1"):
        key_file.add_key(file)
    assert "k1 nonsense\n" == file.read_text()
    for name in ("no id", "a/b", "-"):
        with pytest.raises(BadParametersError):
            key_file.add_key(file, name)
