"""README and docs, typed by a newcomer: a fresh copy, a fresh home, one instance, every block in order as it stands.

Addresses are those that the instance says it has, since a test cannot have the usual ports for itself.
`tests/docs/blocks.py` says which pages other tests run, and lists the blocks that cannot run here.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from itertools import takewhile
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, blocks

LIMIT_S = 180
PAGES = list(dict.fromkeys(one.page for one in blocks() if not one.not_run and one.language in {"sh", "python"}))
CURL = '#!/bin/sh\nexec {curl} --fail-with-body --max-time 90 "$@"\n'
"""A refusal ends a command: curl alone ends with 0 whatever the answer is."""
LEAVE = "\n\nimport os, sys\n\nsys.stdout.flush()\nos._exit(0)\n"
"""As docs/contract.md says: Python's own exit crashes now and then in the threads of the SDK."""
USUAL = {
    "api": ("localhost:8800", "127.0.0.1:8800"),
    "temporal": ("localhost:7243", "127.0.0.1:7243"),
    "temporal_ui": ("localhost:8243", "127.0.0.1:8243"),
}


class Clone:
    """What git has of this tree, in a folder of its own, with a home that knows nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "droidherd"
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for name in filter(None, tracked.decode().split("\0")):
            if (ROOT / name).is_file():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.folder / name)
        guards, home = folder / "guards", folder / "home"
        guards.mkdir()
        home.mkdir()
        (guards / "curl").write_text(CURL.format(curl=shutil.which("curl")))
        (guards / "curl").chmod(0o755)
        path = (guards, Path(sys.executable).parent, *os.environ["PATH"].split(os.pathsep))
        free = {"TEMPORAL__ADDRESS": "127.0.0.1:0", "TEMPORAL__UI_PORT": "0", "TEMPORAL__METRICS_PORT": "0"}
        ours = {**free, "API__PORT": "0", "ADB__PORT": "0", "TIMING__DRAIN_S": "5"}
        self.environment = {
            **{f"DROIDHERD_{name}": value for name, value in ours.items()},
            "PATH": os.pathsep.join(map(str, path)),
            "PYTHONPATH": str(self.folder),
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "COLUMNS": "200",
            "USER": "newcomer",
            "LOGNAME": "newcomer",
            "ANN_PASSWORD": "secret",
        }
        self.addresses: dict[str, str] = {}

    def types(self, words: list[str], **more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            words,
            cwd=self.folder,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def up(self) -> None:
        done = self.types(["droidherd", "up", "--virtual", "2", "--detach", "--json"])
        assert 0 == done.returncode, done.stdout + done.stderr
        self.addresses = {name: str(value) for name, value in json.loads(done.stdout).items()}

    def here(self, text: str) -> str:
        """With the addresses of this instance."""
        for name, usual in USUAL.items():
            ours = self.addresses.get(name, "").rpartition("//")[2].partition("/")[0]
            for one in usual if ours else ():
                text = text.replace(one, ours)
        return text

    def runs(self, block: Block, before: str) -> str:
        """What went wrong; empty: nothing. `before` are settings that the page has made."""
        text = self.here(block.text)
        if block.language == "python":
            (self.folder / "example.py").write_text(text + LEAVE, encoding="utf-8")
            done = self.types(["bash", "-c", f"{before}\npython example.py"])
        else:
            report = "trap 'echo \"this line failed: $BASH_COMMAND\" >&2' ERR"
            done = self.types(["bash", "-c", f"set -eE -o pipefail\n{report}\n{before}\n{text}"])
        return "" if done.returncode == 0 else f"{block.place}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Generator[Clone]:
    one = Clone(tmp_path_factory.mktemp("newcomer"))
    try:
        one.up()
        yield one
    finally:
        one.types(["droidherd", "down", "--now"])


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_the_page_runs_as_it_stands(clone: Clone, page: str):
    wrong: list[str] = []
    exports = ""
    for block in blocks():
        if block.page != page or block.not_run or block.language not in {"sh", "python"}:
            continue
        if trouble := clone.runs(block, exports):
            wrong.append(trouble)
        exported = takewhile(lambda line: line.startswith("export "), clone.here(block.text).splitlines())
        exports += "\n".join(exported) + "\n"
    assert [] == wrong, "\n\n".join(wrong)
