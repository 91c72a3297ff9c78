"""The commands of docs/contract.md, run as they are written, by the `temporal` program and nothing else."""

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from droidherd.cli.local.embedded import find_program
from tests.api.world import World

PAGE = Path(__file__).parents[2] / "docs" / "contract.md"
LIMIT_S = 120


def commands(text: str) -> list[list[str]]:
    """Every line of every `sh` block."""
    text = text.replace("emulator/virtual-1", "emulator/e1")  # which this world has
    blocks = [part.partition("```")[0] for part in text.split("```sh\n")[1:]]
    lines = [shlex.split(line) for block in blocks for line in block.splitlines()]
    return [words for words in lines if words[0] in {"temporal", "curl"}]


def run(herd: World, words: list[str]) -> Any:
    if words[0] == "curl":
        return post(herd, words)
    temporal = herd.settings.temporal
    environment = os.environ | {"TEMPORAL_ADDRESS": temporal.address, "TEMPORAL_NAMESPACE": temporal.namespace}
    line = [str(find_program()), *words[1:], "--output", "json"]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert 0 == done.returncode, (words, done.stdout, done.stderr)
    return json.loads(done.stdout) if done.stdout.strip().startswith(("{", "[")) else done.stdout


def post(herd: World, words: list[str]) -> Any:
    """A line of curl, sent to the API of this world."""
    url = herd.url + next(word for word in words if word.startswith("localhost:8800")).removeprefix("localhost:8800")
    method = words[words.index("-X") + 1] if "-X" in words else "POST"
    answer = httpx.request(method, url, json=json.loads(words[words.index("--json") + 1]), timeout=LIMIT_S)
    assert answer.is_success, (words, answer.text)
    return answer.json() if answer.content else None


def until(ask: Callable[[], Any], wanted: str) -> None:
    end = time.monotonic() + LIMIT_S
    while wanted not in json.dumps(ask()):
        assert time.monotonic() < end, wanted
        time.sleep(0.05)


def listed(words: list[str]) -> str:
    """What a documented list has to show."""
    return "subscription-run/contract" if "SubscriptionRunWorkflow" in " ".join(words) else "my-task-1"


def test_the_commands_of_the_page_do_what_it_says(herd: World):
    lines = commands(PAGE.read_text(encoding="utf-8"))
    assert 30 == len(lines)
    view = ["temporal", "workflow", "query", "--workflow-id", "my-task-1", "--name", "view"]
    after = {"start": "running", "pause": "paused", "control": "running", "cancel": "cancelled"}
    answers: dict[tuple[str, str], str] = {}
    with herd.holding("player-42"):
        for words in lines:
            name = words[words.index("--name") + 1] if "--name" in words else words[2]
            whose = words[words.index("--workflow-id") + 1] if "--workflow-id" in words else ""
            if name == "list":
                until(lambda words=words: run(herd, words), listed(words))
            answers[whose, name] = json.dumps(run(herd, words))
            if name in after and whose == "my-task-1":
                until(lambda: run(herd, view), f'"state": "{after[name]}"')
    assert "my-task-1" in answers["my-task-1", "admission"]
    assert "failure" not in answers["my-task-1", "control"]
    assert '"pool": "default"' in answers["dispatcher/default", "queue"]
    assert '"account": "player-42"' in answers["dispatcher/default", "account"]
    assert '"note": "mine"' in answers["account/player-42", "view"]
    assert '"dry_run": true' in answers["maintenance/cleanup/by-hand", "view"]
