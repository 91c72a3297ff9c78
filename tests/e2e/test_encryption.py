"""An instance that encrypts: what was planted is found in no history, and its key nowhere but in its file."""

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.api.workflowservice.v1 import DescribeScheduleRequest
from temporalio.client import Client

from droidherd.cli.local.embedded import find_program
from droidherd.contracts.names import Attribute
from tests.cli.stand import Stand, eventually

PLANTED = {
    "parameter": "canary-of-a-parameter",
    "recurring": "canary-of-a-subscription",
    "reference": "CANARY_OF_A_REFERENCE",
    "credential": "canary-of-a-credential",
    "question": "canary-of-a-question",
    "answer": "canary-of-an-answer",
    "failure": "canary-of-a-failure",
    "reason": "canary-of-a-reason",
    "note": "canary-of-a-note",
}
FLOW = f"""
flow: asks_secretly
about: Types a word, asks a person, and fails.
app: com.example.herd
params:
  pin: {{type: string, about: typed before it asks}}
policy: {{time_limit: 60s}}
stages:
  - stage: only
    steps:
      - start_app: {{}}
      - type: {{text: "${{pin}}"}}
      - ask: {{what: "{PLANTED["question"]}?", choices: [{PLANTED["answer"]}, other], within: 10m, into: said}}
      - tap: {{percent: [20, 91]}}
      - fail: {{what: "{PLANTED["failure"]}"}}
"""
PROGRAM = [sys.executable, "-P", "-m", "droidherd.cli"]


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    flow = tmp_path / "flows" / "asks_secretly"
    flow.mkdir(parents=True)
    (flow / "flow.yaml").write_text(FLOW)
    one = Stand(tmp_path / "data", PROGRAM)
    one.environment |= {
        PLANTED["reference"]: PLANTED["credential"],
        "DROIDHERD_FLOWS__PATHS": json.dumps([str(tmp_path / "flows")]),
    }
    yield one
    one.run("down", "--now")


def reached(http: httpx.Client, task: str, *states: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def there() -> bool:
        found.update(http.get(f"/api/tasks/{task}").raise_for_status().json())
        return found["state"] in states

    assert eventually(there), found
    return found


def begin(http: httpx.Client) -> str:
    """A task that waits for an answer."""
    body = {"type": "asks_secretly", "account": "ann", "params": {"pin": PLANTED["parameter"]}}
    task = http.post("/api/tasks", json=body).raise_for_status().json()["id"]
    reached(http, task, "waiting")
    return task


def live_through(http: httpx.Client) -> str:
    """Everything that says something of somebody. Returns a task that still waits."""
    record = {"credentials": {"password": f"env:{PLANTED['reference']}"}, "note": PLANTED["note"]}
    http.put("/api/accounts/ann", json=record).raise_for_status()
    first = begin(http)
    answer = {"choice": PLANTED["answer"], "reason": PLANTED["reason"]}
    http.post(f"/api/tasks/{first}/answer", json=answer).raise_for_status()
    assert PLANTED["failure"] in json.dumps(reached(http, first, "failed")["error"])
    recurring = {"type": "asks_secretly", "account": "bob", "params": {"pin": PLANTED["recurring"]}}
    subscription = {"id": "daily", "task": recurring, "every_s": 86_400}
    http.post("/api/subscriptions", json=subscription).raise_for_status()
    http.post("/api/emulators/virtual-1/drain", json={"reason": PLANTED["reason"]}).raise_for_status()
    http.post("/api/subscriptions/daily/run").raise_for_status()
    http.post("/api/emulators/virtual-1/undrain", json={"reason": PLANTED["reason"]}).raise_for_status()
    found: list[str] = []

    def listed() -> bool:
        tasks = http.get("/api/tasks", params={"account": "bob"}).raise_for_status().json()["tasks"]
        found[:] = [one["id"] for one in tasks]
        return bool(found)

    assert eventually(listed)
    run = found[0]
    reached(http, run, "waiting")
    http.post(f"/api/tasks/{run}/cancel", json={"reason": PLANTED["reason"]}).raise_for_status()
    reached(http, run, "cancelled")
    return begin(http)


async def kept(client: Client) -> AsyncIterator[tuple[str, bytes]]:
    """Everything that Temporal tells of its workflows and schedules, as it has it."""
    async for run in client.list_workflows():
        handle = client.get_workflow_handle(run.id, run_id=run.run_id)
        yield run.id, run.raw_info.SerializeToString()
        yield run.id, (await handle.describe()).raw_description.SerializeToString()
        async for event in handle.fetch_history_events():
            yield f"{run.id} {event.event_id}", event.SerializeToString()
        known = {pair.key.name for pair in run.typed_search_attributes.search_attributes}
        assert {*Attribute, "BuildIds"} >= {name for name in known if not name.startswith("Temporal")}
    async for schedule in await client.list_schedules():
        request = DescribeScheduleRequest(namespace=client.namespace, schedule_id=schedule.id)
        yield schedule.id, (await client.workflow_service.describe_schedule(request)).SerializeToString()


def spellings(text: str) -> list[bytes]:
    """The text, and what base64 makes of it wherever it begins."""
    plain = text.encode()
    coded = [base64.b64encode(b"\0" * shift + plain)[(4 * shift + 2) // 3 :] for shift in range(3)]
    return [plain, *[one[1:-4] for one in coded]]


async def search(address: str) -> None:
    client = await Client.connect(address, namespace="droidherd")
    found = {where: content async for where, content in kept(client)}
    kinds = {where.partition("/")[0].partition(" ")[0] for where in found}
    assert {"dispatcher", "emulator", "host", "account", "subscription"} <= kinds
    assert any(b"binary/encrypted" in content for content in found.values())
    leaks = [
        (where, name)
        for where, content in found.items()
        for name, text in PLANTED.items()
        if any(one in content for one in spellings(text))
    ]
    assert [] == leaks
    assert not any(b"Traceback" in one or b"/droidherd/" in one for one in found.values()), "nor where code failed"


def of_the_engine(data: Path) -> list[str]:
    """Files of the database that hold what was planted."""
    files = [path for path in (data / "temporal").rglob("*") if path.is_file()]
    assert files
    return [path.name for path in files for text in PLANTED.values() if text.encode() in path.read_bytes()]


def with_the_key(data: Path, key: str) -> list[str]:
    """Files that hold the key."""
    found: list[str] = []
    for root, _, names in os.walk(data):
        found += [name for name in names if key.encode() in (Path(root) / name).read_bytes()]
    return sorted(found)


def test_nothing_planted_is_found_in_what_temporal_keeps(stand: Stand):
    at = stand.up("--virtual", "1", "--encrypt", "--ui")
    with httpx.Client(base_url=at["api"], timeout=120) as http:
        task = live_through(http)
        asyncio.run(search(at["temporal"]))
        origin = at["temporal_ui"].partition("/namespaces")[0]
        settings = httpx.get(f"{origin}/api/v1/settings", timeout=60).json()
        assert f"{at['api']}/codec" == settings["Codec"]["Endpoint"]
        asked = http.post("/codec/decode", json={"payloads": []}, headers={"origin": origin})
        assert (200, origin) == (asked.status_code, asked.headers.get("access-control-allow-origin"))
    decoded = shown(at, task, "--codec-endpoint", f"{at['api']}/codec")
    assert PLANTED["parameter"] in decoded, "what is searched is there, for those who may read it"
    assert PLANTED["parameter"] not in shown(at, task)

    file = stand.data / "encryption.keys"
    first = file.read_text().split()[1]
    assert 0 == stand.run("down").returncode
    assert ["encryption.keys"] == with_the_key(stand.data, first)
    assert [] == of_the_engine(stand.data)


def shown(at: dict[str, Any], task: str, *words: str) -> str:
    """What Temporal's own command shows of a task."""
    line = [
        str(find_program()),
        "workflow",
        "show",
        "--workflow-id",
        task,
        "--output",
        "json",
        "--address",
        at["temporal"],
    ]
    done = subprocess.run(
        [*line, "--namespace", "droidherd", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert 0 == done.returncode, done.stderr
    decoded = [base64.b64decode(one) for one in texts(json.loads(done.stdout))]
    return done.stdout + b"".join(decoded).decode(errors="replace")


def texts(value: Any) -> Iterator[str]:
    """The data of every payload."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "data" and isinstance(inner, str):
                yield inner
            else:
                yield from texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner)
