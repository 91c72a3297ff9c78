"""README and docs, typed by a newcomer: a fresh copy, a fresh home, one instance, every block in order as it stands.

Addresses are those that the instance says it has, since a test cannot have the usual ports for itself.
`tests/docs/blocks.py` says which pages other tests run, and lists the blocks that cannot run here.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from itertools import takewhile
from pathlib import Path

import httpx
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
        free["TEMPORAL__UI"] = "true"
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
        self._up: subprocess.Popen[bytes] | None = None

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

    def make(self, target: str, *flags: str) -> list[str]:
        """With the virtual environment of this run: what `make setup` does comes from PyPI, which no test may need."""
        return ["make", f"VENV={sys.prefix}", "-o", f"{sys.prefix}/.stamp", *flags, target]

    def up(self) -> None:
        """As README says: in the foreground, so that somebody else looks when it is up."""
        with (self.folder / "up.txt").open("wb") as printed:
            self._up = subprocess.Popen(
                self.make("up"), cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                stdout=printed, stderr=printed, start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + LIMIT_S
        ready = self.folder / ".droidherd" / "ready.json"
        while not ready.exists():
            text = (self.folder / "up.txt").read_text()
            assert self._up.poll() is None, text
            assert time.monotonic() < until, text
            time.sleep(0.2)
        self.addresses = {name: str(value) for name, value in json.loads(ready.read_text()).items()}

    def down(self, *how: str) -> int:
        """How `make up` ended."""
        self.types(["droidherd", "down", *how])
        return self._up.wait(LIMIT_S) if self._up is not None else 0

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
        one.down("--now")


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


def test_the_demo_of_the_readme_runs_with_make(clone: Clone):
    """Beside the instance that is up: it finds ports of its own."""
    done = clone.types(clone.make("demo"))
    assert 0 == done.returncode, done.stdout[-3000:] + done.stderr[-3000:]


def test_every_documented_make_target_is_one(clone: Clone):
    """What `make` would do, and not more: `make test` is this very suite, and the others take up to hours."""
    text = "\n".join((clone.folder / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))
    named = set(re.findall(r"(?:^|`|=1 )make ([a-z-]+)", text, re.MULTILINE))
    assert {"demo", "up", "setup", "test", "test-more"} <= named
    for target in sorted(named):
        done = clone.types(clone.make(target, "-n"))
        assert (0, "") == (done.returncode, done.stderr), target


def test_every_address_that_is_printed_answers(clone: Clone):
    printed = (clone.folder / "up.txt").read_text()
    urls = json.loads(clone.types(["droidherd", "status", "--json"]).stdout)["urls"]
    assert {"api", "docs", "temporal", "namespace", "temporal_ui"} <= set(urls)
    assert [] == [name for name in ("api", "docs", "temporal", "temporal_ui") if urls[name] not in printed]
    assert {200} == {httpx.get(urls[name], timeout=30).status_code for name in ("api", "docs", "temporal_ui")}
    assert f"/namespaces/{urls['namespace']}/" in urls["temporal_ui"]
    ui = urls["temporal_ui"].partition("/namespaces/")[0]
    assert 200 == httpx.get(f"{ui}/api/v1/namespaces/{urls['namespace']}", timeout=30).status_code
    asked = ["temporal", "workflow", "count", "--address", urls["temporal"], "--namespace", urls["namespace"]]
    assert 0 == clone.types(asked).returncode


def test_a_second_instance_beside_the_first_has_other_addresses(clone: Clone):
    done = clone.types(["droidherd", "up", "--data", "other", "--detach", "--json"])
    try:
        assert 0 == done.returncode, done.stdout + done.stderr
        second = json.loads(done.stdout)
        assert {True} == {second[name] != clone.addresses[name] for name in ("api", "docs", "temporal")}
        assert 200 == httpx.get(second["api"], timeout=30).status_code
    finally:
        clone.types(["droidherd", "down", "--now", "--data", "other"])


def test_it_goes_down_as_it_came_up(clone: Clone):
    """The last one: `make up` ends well when somebody takes it down."""
    assert 0 == clone.down()
    assert 3 == clone.types(["droidherd", "status"]).returncode
