"""Requests that schemathesis makes from the OpenAPI document, judged by all of its checks."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import httpx

TASK_VERBS = ("cancel", "answer", "retry", "rollback", "pause", "resume", "prioritize")
LINES = (422,)
"""Of bodies: who ordered it and why are lines of readable characters, and whole numbers are not written as 1.0.

Which characters those are follows Unicode's categories (`str.isprintable`), which no portable pattern can name.
"""
CURSOR = (422,)
"""A cursor belongs to the query whose page gave it."""
FILTERS = (422,)
"""A bulk action has to name one filter at least, which OpenAPI cannot say of parameters; and see `CURSOR`."""
HOST_AWAY = (422,)
"""The host of the emulator refuses, or is away."""
TASK_STATE = (409,)
"""The state of the task decides what can be done with it."""
TASK_TYPE = (422,)
"""Which types there are, what their parameters are and which policies they take is up to the flows of the instance.

And whether an emulator of the pool meets the requirements, whether a time is past, and what a cron expression means.
"""
TASK = (409, *TASK_TYPE)
"""The id is in use, or another task of the account is in the way."""
OF_STATE: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "GET /api/accounts": CURSOR,
        "GET /api/audit": CURSOR,
        "GET /api/subscriptions": CURSOR,
        "GET /api/subscriptions/{id}/tasks": CURSOR,
        "GET /api/tasks": CURSOR,
        "POST /api/bulk/{action}": FILTERS,
        "POST /api/emulators/{emulator_id}/recover": HOST_AWAY,
        "POST /api/emulators/{emulator_id}/restart": HOST_AWAY,
        "POST /api/maintenance/cleanup": (404,),  # the pool that its body names
        "POST /api/subscriptions": TASK,
        "POST /api/subscriptions/{id}/download": TASK,
        "POST /api/subscriptions/{id}/run": TASK,
        "POST /api/subscriptions/{id}/resume": TASK_STATE,
        "PUT /api/subscriptions/{id}": TASK_TYPE,
        "PATCH /api/subscriptions/{id}": TASK_TYPE,
        "POST /api/tasks": TASK,
        **{f"POST /api/tasks/{{task_id}}/{verb}": TASK_STATE for verb in TASK_VERBS},
        **{f"POST /api/requests/{{task_id}}/{verb}": TASK_STATE for verb in ("cancel", "prioritize")},
    }
)
"""By operation: what a valid request may be answered with, because state decides what no schema can know.

Nothing but 2xx, and 404 for a name of which there is nothing, is accepted from any other operation.
"""
TIMEOUT_S = 1_200.0
SEED = 1
REQUEST_S = "30"
"""Not less for an answer: some wait for a worker, and how soon it comes is up to the machine."""


@dataclass(frozen=True)
class Fuzzed:
    """What came of it."""

    requests: int
    code: int
    report: str


def fuzz(url: str, folder: Path, *, examples: int, key: str = "") -> Fuzzed:
    """Send requests to every operation: each limit of its schema, and `examples` at random, valid and invalid."""
    config = folder / "schemathesis.toml"
    config.write_text(_config(url, key))
    header = ["--header", f"Authorization: Bearer {key}"] if key else []
    before = _served(url, key)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", f"{url}/openapi.json"),
            *("--checks", "all", "--max-examples", str(examples), "--seed", str(SEED), "--continue-on-failure"),
            *(
                "--suppress-health-check",
                "all",
                "--no-color",
                "--request-timeout",
                REQUEST_S,
                "--max-response-time",
                REQUEST_S,
                "--warnings",
                "off",
            ),
            *header,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return Fuzzed(_served(url, key) - before, done.returncode, done.stdout + done.stderr)


def _config(url: str, key: str) -> str:
    """What each operation may answer to a valid request, as schemathesis reads it."""
    document = httpx.get(f"{url}/openapi.json", headers={"x-api-key": key}, timeout=60).json()
    known = {
        f"{method.upper()} {path}": one for path, ones in document["paths"].items() for method, one in ones.items()
    }
    if strangers := OF_STATE.keys() - known.keys():
        raise ValueError(f"there is no operation {min(strangers)}")
    config: list[str] = []
    for name, operation in known.items():
        names = "{" in name or any(one["name"] == "pool" for one in operation.get("parameters", ()))
        lines_of_text = LINES if "requestBody" in operation else ()
        statuses = ["2xx", *(["404"] if names else []), *map(str, {*OF_STATE.get(name, ()), *lines_of_text})]
        config += ["[[operations]]", f"include-name = {json.dumps(name)}"]
        config += [f"checks.positive_data_acceptance.expected-statuses = {json.dumps(statuses)}", ""]
    return "\n".join(config)


def _served(url: str, key: str) -> int:
    """Requests so far."""
    text = httpx.get(f"{url}/metrics", headers={"x-api-key": key}, timeout=60).text
    return int(sum(map(float, re.findall(r"^droidherd_http\w*_seconds_count\{.*\} (\S+)$", text, re.MULTILINE))))
