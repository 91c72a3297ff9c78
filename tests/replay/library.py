"""Histories on disk: one event per line, without a trace of who recorded them, zipped when they are long."""

import base64
import gzip
import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from temporalio.client import Client

HISTORIES = Path(__file__).with_name("histories")
README = Path(__file__).with_name("README.md")
ZIPPED_FROM_BYTES = 50_000
# What the SDK noted for itself (`sdkMetadata`) stays: it decides how a history is replayed.
UNWANTED = ("stackTrace", "identity", "lastWorkerVersionStamp", "workerVersion", "header")

HEAD = """# Recorded histories

Each path through the workflows is recorded once, on a real engine; `python worker_main.py verify` replays every
history under the workflows of today. The files are `histories/PATH.WORKFLOW.json`, zipped when they are long.

`make record` plays every path and writes the histories and the table below; that takes about three minutes on two
cores. `python -m tests.replay.record --only NAME` plays the paths whose name contains NAME.

**A new path** is a function under `@scenario("why it is here")` in `scenarios/`, in the file of its noun. It gets a
`World` (a pool of emulators whose stages are stand-ins) and brings about what is to be recorded; `keep=` names the
workflows whose histories are kept. Then `python -m tests.replay.record --only its_name`, and commit what it wrote.

| path | why it is here |
|---|---|
"""


async def write(client: Client, scenario: str, workflow_id: str) -> list[str]:
    """All runs of a workflow, oldest first, as files. Returns their names."""
    runs = [run async for run in client.list_workflows(f"WorkflowId = '{workflow_id}'")]
    runs.sort(key=lambda run: run.start_time)
    title = f"{scenario}.{re.sub(r'[^A-Za-z0-9_-]', '-', workflow_id)}"
    names: list[str] = []
    for number, run in enumerate(runs, 1):
        history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
        if any(e.HasField("workflow_task_completed_event_attributes") for e in history.events):
            names.append(save(f"{title}.{number}" if len(runs) > 1 else title, history.to_json_dict()))
    return names


def save(title: str, document: Mapping[str, Any], hide: Mapping[str, str] | None = None) -> str:
    """Write one history; `hide` says what must not stand in it, and what stands there instead."""
    words = hide or {}
    events = ",\n".join(json.dumps(clean(event, words), separators=(",", ":")) for event in document["events"])
    text = '{"events":[\n' + events + "\n]}\n"
    raw = text.encode()
    HISTORIES.mkdir(exist_ok=True)
    name = f"{title}.json"
    if len(raw) > ZIPPED_FROM_BYTES:
        name, raw = f"{name}.gz", gzip.compress(raw, mtime=0)
    (HISTORIES / name).write_bytes(raw)
    return name


def clean(value: Any, words: Mapping[str, str]) -> Any:
    """Without stack traces and identities; payloads are looked into."""
    if isinstance(value, dict):
        kept = {k: clean(v, words) for k, v in value.items() if k not in UNWANTED}
        data = kept.get("data")
        if "metadata" in kept and isinstance(data, str):
            plain = base64.b64decode(data)
            kept["data"] = base64.b64encode(_hidden(plain.decode("utf-8", "surrogateescape"), words)).decode()
        return kept
    if isinstance(value, list):
        return [clean(one, words) for one in value]
    return _hidden(value, words).decode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _hidden(text: str, words: Mapping[str, str]) -> bytes:
    for word, instead in words.items():
        text = text.replace(word, instead)
    return text.encode("utf-8", "surrogateescape")


def write_readme(rows: Sequence[tuple[str, str]]) -> None:
    lines = "".join(f"| `{name}` | {why} |\n" for name, why in rows)
    README.write_text(HEAD + lines, encoding="utf-8")


def forget(scenario: str) -> None:
    """Remove what an earlier recording of this path left."""
    for old in HISTORIES.glob(f"{scenario}.*"):
        old.unlink()


def keep_only(scenarios: Collection[str]) -> None:
    """Remove histories whose path is gone."""
    for name in {path.name.partition(".")[0] for path in HISTORIES.glob("*.json*")} - set(scenarios):
        forget(name)
