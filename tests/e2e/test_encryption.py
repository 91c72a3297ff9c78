"""An instance that encrypts: what was planted is found in no history, and its key nowhere but in its file."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cli.stand import Stand
from tests.e2e.secrets_kept import PLANTED, live_through, search, shown, stand_with_secrets


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    one = stand_with_secrets(tmp_path)
    yield one
    one.run("down", "--now")


def of_the_engine(data: Path) -> list[str]:
    """Files of the database that hold what was planted."""
    files = [path for path in (data / "temporal").rglob("*") if path.is_file()]
    assert files
    return [path.name for path in files for text in PLANTED.values() if text.encode() in path.read_bytes()]


def with_the_key(data: Path, key: str) -> list[str]:
    """Files that hold the key."""
    found: list[str] = []
    for root, _, names in os.walk(data):
        found += [name for name in names if key.encode() in (Path(root) / name).read_bytes()]
    return sorted(found)


def test_nothing_planted_is_found_in_what_temporal_keeps(stand: Stand):
    at = stand.up("--virtual", "1", "--encrypt", "--ui")
    with httpx.Client(base_url=at["api"], timeout=120) as http:
        task = live_through(http)
        asyncio.run(search(at["temporal"], "subscription"))
        origin = at["temporal_ui"].partition("/namespaces")[0]
        settings = httpx.get(f"{origin}/api/v1/settings", timeout=60).json()
        assert f"{at['api']}/codec" == settings["Codec"]["Endpoint"]
        asked = http.post("/codec/decode", json={"payloads": []}, headers={"origin": origin})
        assert (200, origin) == (asked.status_code, asked.headers.get("access-control-allow-origin"))
    decoded = shown(at, task, "--codec-endpoint", f"{at['api']}/codec")
    assert PLANTED["parameter"] in decoded, "what is searched is there, for those who may read it"
    assert PLANTED["parameter"] not in shown(at, task)

    file = stand.data / "encryption.keys"
    first = file.read_text().split()[1]
    assert 0 == stand.run("down").returncode
    assert ["encryption.keys"] == with_the_key(stand.data, first)
    assert [] == of_the_engine(stand.data)
