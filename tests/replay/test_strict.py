"""Every recorded history, and with it every path, in the SDK's sandbox, where a forbidden call fails.

Neither `workflows` nor `droidherd` is passed through there: `worker_main.py verify --strict`. `make test` takes every
sixth history, `make test-more` the others.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.replay import library

ROOT = Path(__file__).parents[2]
ONE_STAGE = "one_stage.task.json"
PARTS = 6
TREE = ("droidherd", "workflows", "activities", "api", "worker_main.py")
FORBIDDEN = {"time.time": "import time\ntime.time()", "random.random": "import random\nrandom.random()"}


def verify(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(root / "worker_main.py"), "verify", "--json", *arguments],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=root,
    )


def diverged(done: "subprocess.CompletedProcess[str]") -> list[str]:
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return [one["diverged"] for one in results if one["diverged"]]


def plant(module: Path, call: str) -> None:
    """Make every function of a module begin with this call."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body[:0] = ast.parse(call).body
    module.write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A tree of its own, in which a test may plant what does not belong. Only what it plants is compiled anew."""
    for name in TREE:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.png"))
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("part", [0, *[pytest.param(part, marks=pytest.mark.more) for part in range(1, PARTS)]])
def test_every_history_replays_in_the_sandbox_of_the_sdk(part: int):
    paths = sorted(library.HISTORIES.iterdir())[part::PARTS]
    done = verify(ROOT, "--strict", *map(str, paths))
    assert [] == diverged(done)
    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("module", ["droidherd/domain/task/lifecycle.py", "workflows/task/workflow.py"])
@pytest.mark.parametrize("call", FORBIDDEN)
def test_a_forbidden_call_fails_in_the_sandbox_and_only_there(copied: Path, module: str, call: str):
    history = str(library.HISTORIES / ONE_STAGE)
    plant(copied / module, FORBIDDEN[call])
    assert (0, []) == ((lean := verify(copied, history)).returncode, diverged(lean))
    strict = verify(copied, "--strict", history)
    assert 1 == strict.returncode
    assert call in diverged(strict)[0]
