"""A TypeScript client with npm's `@temporalio/client`, docs/schemas and nothing of ours walks the whole contract."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.api_server import api_server
from tests.support.farm import farm

HERE = Path(__file__).parent / "typescript"
SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
FLOWS = Path(__file__).parents[1] / "e2e" / "flows"
INSTALL_TIMEOUT_S, RUN_TIMEOUT_S = 300, 400
AWAY = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH", "E404")
"""What npm says where there is no registry, or one without these packages."""
NOT_STARTED = {"DispatcherWorkflow start", "EmulatorWorkflow start", "SubscriptionRunWorkflow start"}
"""A farm starts these itself; a client that sends `wake` may start a dispatcher."""


def run(folder: Path, *words: str, limit_s: float, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=limit_s, check=False
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the client, compiled with `tsc --strict` against the published types."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("MISSING: node and npm (Debian: apt-get install nodejs npm); the TypeScript client was not run")
    folder = tmp_path_factory.mktemp("typescript")
    for path in HERE.iterdir():
        shutil.copy(path, folder)
    shutil.copytree(SCHEMAS, folder / "schemas")
    done = run(folder, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", limit_s=INSTALL_TIMEOUT_S)
    if done.returncode and any(word in done.stderr for word in AWAY):
        pytest.skip(f"MISSING: npm's registry; the TypeScript client was not run: {done.stderr[-300:]}")
    assert 0 == done.returncode, done.stdout + done.stderr
    done = run(folder, node, "node_modules/typescript/bin/tsc", "--strict", limit_s=INSTALL_TIMEOUT_S)
    assert 0 == done.returncode, done.stdout + done.stderr
    return folder


def test_the_client_walks_the_whole_contract_and_every_payload_fits(built: Path, tmp_path: Path) -> None:
    with farm(tmp_path, 2, in_memory=True, flows=FLOWS) as place, api_server(place) as api:
        where = {"ADDRESS": place.engine.address, "NAMESPACE": place.namespace, "API_URL": api.url}
        more = {"SCHEMAS": str(built / "schemas"), "EMULATOR": place.emulators[0]}
        done = run(built, "node", "built/walk.js", limit_s=RUN_TIMEOUT_S, **where, **more)
        assert 0 == done.returncode, done.stdout + done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert spoken() == {*report["called"]} | NOT_STARTED
    assert 100 < sum(report["checked"].values())


def spoken() -> set[str]:
    """Everything that the index says a client may do."""
    found: set[str] = set()
    for workflow, one in json.loads((SCHEMAS / "index.json").read_text(encoding="utf-8"))["workflows"].items():
        found.add(f"{workflow} start")
        for group, word in (("signals", "signal"), ("updates", "update"), ("queries", "query")):
            found |= {f"{workflow} {word} {name}" for name in one[group]}
    return found


def test_the_lock_file_of_the_typescript_client_names_no_registry():
    text = (HERE / "package-lock.json").read_text(encoding="utf-8")
    assert "integrity" in text
    assert "resolved" not in text
    assert "://" not in text
