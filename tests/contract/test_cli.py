"""The commands of docs/contract.md, run as they are written, by the `temporal` program and nothing else."""

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from droidherd.cli.local.embedded import find_program
from tests.api.world import World

PAGE = Path(__file__).parents[2] / "docs" / "contract.md"
LIMIT_S = 120


def commands(text: str) -> list[list[str]]:
    """Every line of every `sh` block."""
    text = text.replace("emulator/virtual-1", "emulator/e1")  # which this world has
    blocks = [part.partition("```")[0] for part in text.split("```sh\n")[1:]]
    lines = [shlex.split(line) for block in blocks for line in block.splitlines()]
    return [words for words in lines if words[0] == "temporal"]


def run(herd: World, words: list[str]) -> Any:
    temporal = herd.settings.temporal
    environment = os.environ | {"TEMPORAL_ADDRESS": temporal.address, "TEMPORAL_NAMESPACE": temporal.namespace}
    line = [str(find_program()), *words[1:], "--output", "json"]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert 0 == done.returncode, (words, done.stdout, done.stderr)
    return json.loads(done.stdout) if done.stdout.strip() else None


def until(ask: Callable[[], Any], wanted: str) -> None:
    end = time.monotonic() + LIMIT_S
    while wanted not in json.dumps(ask()):
        assert time.monotonic() < end, wanted
        time.sleep(0.05)


def test_the_commands_of_the_page_do_what_it_says(herd: World):
    lines = commands(PAGE.read_text(encoding="utf-8"))
    assert 21 == len(lines)
    view = ["temporal", "workflow", "query", "--workflow-id", "my-task-1", "--name", "view"]
    after = {"start": "running", "pause": "paused", "control": "running", "cancel": "cancelled"}
    answers: dict[str, Any] = {}
    with herd.holding("player-42"):
        for words in lines:
            name = words[words.index("--name") + 1] if "--name" in words else words[2]
            if name == "list":
                until(lambda words=words: run(herd, words), "my-task-1")
            answers[name] = run(herd, words)
            if name in after:
                until(lambda: run(herd, view), f'"state": "{after[name]}"')
    assert "my-task-1" in json.dumps(answers["admission"])
    assert "resume" not in json.dumps(answers["control"].get("failure", ""))
    assert ["my-task-1"] == [one["execution"]["workflowId"] for one in answers["list"]]
    assert '"pool": "default"' in json.dumps(answers["queue"])
    assert '"account": "player-42"' in json.dumps(answers["account"])
    assert '"note": "mine"' in json.dumps(answers["view"])
