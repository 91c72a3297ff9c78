"""Requests that schemathesis makes from the OpenAPI document, judged by all of its checks."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx

EXCEPTIONS = """
# The state of the pool decides: what a schema allows may be refused today and accepted tomorrow.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429", "503"]
"""
TIMEOUT_S = 1_200.0
SEED = 1


@dataclass(frozen=True)
class Fuzzed:
    """What came of it."""

    requests: int
    code: int
    report: str


def fuzz(url: str, folder: Path, *, examples: int, key: str = "") -> Fuzzed:
    """Send requests to every operation: each limit of its schema, and `examples` at random, valid and invalid."""
    config = folder / "schemathesis.toml"
    config.write_text(EXCEPTIONS)
    header = ["--header", f"Authorization: Bearer {key}"] if key else []
    before = _served(url, key)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", f"{url}/openapi.json"),
            *("--checks", "all", "--max-examples", str(examples), "--seed", str(SEED), "--continue-on-failure"),
            *("--suppress-health-check", "all", "--no-color", "--request-timeout", "30", "--warnings", "off"),
            *header,
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return Fuzzed(_served(url, key) - before, done.returncode, done.stdout + done.stderr)


def _served(url: str, key: str) -> int:
    """Requests so far."""
    text = httpx.get(f"{url}/metrics", headers={"x-api-key": key}, timeout=60).text
    return int(sum(map(float, re.findall(r"^droidherd_http\w*_seconds_count\{.*\} (\S+)$", text, re.MULTILINE))))
