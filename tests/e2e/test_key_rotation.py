"""The key of an instance is changed by the very commands of docs/security.md."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client

from droidherd.cli.local.supervise import READY_S
from tests.cli.stand import ROOT, Stand, eventually
from tests.e2e.secrets_kept import PLANTED, begin, kept, reached, search, set_account, stand_with_secrets

KEY_ID = re.compile(rb"encryption-key-id\x12.(\w+)", re.DOTALL)


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    """With `droidherd` on its path, as people have it."""
    one = stand_with_secrets(tmp_path)
    one.environment |= {
        "PATH": f"{Path(sys.executable).parent}:{one.environment['PATH']}",
        "DROIDHERD_DATA": str(one.data),
        "DROIDHERD_VIRTUAL": "1",
    }
    yield one
    one.run("down", "--now")


def documented() -> str:
    """The commands that change a key."""
    text = (ROOT / "docs/security.md").read_text(encoding="utf-8").partition("### A new key")[2]
    return text.partition("```sh\n")[2].partition("```")[0]


def answered(http: httpx.Client) -> str:
    """A task that asked, was answered, and failed."""
    task = begin(http)
    http.post(f"/api/tasks/{task}/answer", json={"choice": PLANTED["answer"]}).raise_for_status()
    reached(http, task, "failed")
    return task


def read(http: httpx.Client, task: str) -> str:
    """Empty while nobody answers."""
    try:
        return http.get(f"/api/tasks/{task}").text
    except httpx.TransportError:
        return ""


async def keys_of(address: str, task: str) -> set[str]:
    """With which keys the history of a task was written."""
    client = await Client.connect(address, namespace="droidherd")
    found = {
        name.decode() async for where, one in kept(client) if where.startswith(task) for name in KEY_ID.findall(one)
    }
    return found - {""}


def test_a_key_is_changed_as_documented_and_the_old_one_is_missed_by_name(stand: Stand):
    at = stand.up("--encrypt")
    file = stand.data / "encryption.keys"
    old = file.read_text().split()[0]
    with httpx.Client(base_url=at["api"], timeout=60) as http:
        set_account(http)
        first = answered(http)
    assert {old} == asyncio.run(keys_of(at["temporal"], first))

    bash = shutil.which("bash")
    assert bash
    line = [bash, "-e", "-c", documented()]
    done = subprocess.run(
        line, env=stand.environment, cwd=stand.data, capture_output=True, text=True, timeout=200, check=False
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    assert ["k2", old] == [one.split()[0] for one in file.read_text().splitlines()]
    with httpx.Client(base_url=at["api"], timeout=60) as http:
        assert PLANTED["failure"] in http.get(f"/api/tasks/{first}").raise_for_status().text
        second = answered(http)
    assert PLANTED["failure"] in stand.run("task", "show", first, "--json").stdout
    assert {"k2"} == asyncio.run(keys_of(at["temporal"], second))
    asyncio.run(search(at["temporal"]))

    file.write_text(file.read_text().splitlines()[0] + "\n")
    for name in ("worker", "api"):  # whose successors read the keys anew
        os.kill(stand.processes()[name].pid, signal.SIGKILL)
    missing = f"encrypted with the key '{old}', which this process does not have"
    with httpx.Client(base_url=at["api"], timeout=60) as http:
        assert eventually(lambda: missing in read(http, first))
        assert "put that key back into `encryption.keys_file` (docs/security.md)" in read(http, first)
        assert PLANTED["failure"] in read(http, second)
    assert missing in stand.run("task", "show", first, "--json").stdout
    stand.run("down")
    began_s = time.monotonic()
    starts = stand.run("up", "--detach", "--json")
    assert time.monotonic() - began_s < READY_S
    assert missing in " ".join((starts.stdout + starts.stderr).split())
