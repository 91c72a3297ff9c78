"""@devicefarmer/adbkit, from npm, drives the virtual emulator."""

import json
import os
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from droidherd.virtual.process import VirtualFleet
from tests.support.adbserver import PrivateAdb, free_port
from tests.virtual.test_clients import echo_server

pytestmark = pytest.mark.conformance

HERE = Path(__file__).parent
INSTALL_TIMEOUT_S, RUN_TIMEOUT_S = 300, 60


@pytest.fixture(scope="module")
def adbkit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script and what npm installed for it."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("MISSING: node and npm (Debian: apt-get install nodejs npm)")
    folder = tmp_path_factory.mktemp("adbkit")
    for name in ("package.json", "adbkit.js"):
        shutil.copy(HERE / name, folder / name)
    command = [npm, "install", "--no-audit", "--no-fund", "--no-package-lock"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    if done.returncode:
        pytest.skip(f"MISSING: @devicefarmer/adbkit, npm could not install it: {done.stderr[-500:]}")
    return folder


@pytest.fixture
def fleet(tmp_path: Path) -> Generator[VirtualFleet]:
    with VirtualFleet.start(count=1, state=tmp_path) as running:
        yield running


def test_adbkit_drives_a_virtual_emulator(adbkit: Path, fleet: VirtualFleet, private_adb: PrivateAdb):
    address = fleet.addresses["virtual-1"]
    private_adb.connect(address)
    inner = free_port()
    with echo_server() as echo:
        words = [str(private_adb.port), address, str(echo), str(inner)]
        command = [shutil.which("node") or "node", "adbkit.js", *words]
        done = subprocess.run(
            command, cwd=adbkit, env=os.environ, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
        )
    assert 0 == done.returncode, done.stderr
    seen = json.loads(done.stdout)
    seen["packages"] = "com.example.herd" in seen["packages"]
    expected = {
        "listed": True, "shell": "a\nVIRT0001\n", "missing": "rc 127\n", "properties": "33", "features": True,
        "packages": True, "state": "device", "path": True, "started": True, "focus": "3\n",
        "png": "PNG", "frame": [1280, 720, "rgba"], "stat": 200_000, "pulled": 200_000, "names": ["from-adbkit"],
        "tcp": "HELLO", "reverses": [f"tcp:{inner}"], "log": True, "installed": True, "absent": False,
    }  # fmt: skip
    assert expected == seen
