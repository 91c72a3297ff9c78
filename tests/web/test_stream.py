"""From a server to a disk in constant memory: the server, and who streams, are processes of their own."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.server import BLOCK

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
MORE_BYTES = 24 * 1024 * 1024
"""What one stream may hold beyond what a small one needed: pieces, buffers, not the file."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def origin() -> Iterator[str]:
    server = subprocess.Popen([sys.executable, str(HERE / "server.py")], stdout=subprocess.PIPE, env=ENVIRONMENT)
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{json.loads(server.stdout.readline())['port']}"
    finally:
        server.kill()
        server.wait(10)
        server.stdout.close()


def digest_of(count: int) -> str:
    digest = hashlib.sha256()
    while count > 0:
        digest.update(BLOCK[:count])
        count -= len(BLOCK)
    return digest.hexdigest()


@pytest.mark.parametrize("count", [200_000_000, pytest.param(2_000_000_000, marks=pytest.mark.long)])
def test_a_large_file_is_streamed_in_constant_memory(origin: str, tmp_path: Path, count: int):
    done = subprocess.run(
        [
            sys.executable,
            str(HERE / "fetch.py"),
            origin,
            "/bytes?count=1000000",
            f"/bytes?count={count}",
            str(tmp_path),
        ],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    result = json.loads(done.stdout)
    file = tmp_path / "task-1" / "file.bin"
    try:
        assert (count, digest_of(count)) == (result["size"], result["sha256"])
        assert (count, ["file.bin"]) == (file.stat().st_size, os.listdir(file.parent))  # noqa: PTH208
        assert 0 < result["peak"] < result["before"] + MORE_BYTES
    finally:
        file.unlink()
