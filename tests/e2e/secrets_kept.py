"""Texts planted in an instance that encrypts, and the search for them in all that Temporal keeps."""

import base64
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
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


def stand_with_secrets(tmp_path: Path) -> Stand:
    flow = tmp_path / "flows" / "asks_secretly"
    flow.mkdir(parents=True)
    (flow / "flow.yaml").write_text(FLOW)
    one = Stand(tmp_path / "data", PROGRAM)
    one.environment |= {
        PLANTED["reference"]: PLANTED["credential"],
        "DROIDHERD_FLOWS__PATHS": json.dumps([str(tmp_path / "flows")]),
    }
    return one


def reached(http: httpx.Client, task: str, *states: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def there() -> bool:
        found.update(http.get(f"/api/tasks/{task}").raise_for_status().json())
        return found["state"] in states

    assert eventually(there), found
    return found


def set_account(http: httpx.Client) -> None:
    record = {"credentials": {"password": f"env:{PLANTED['reference']}"}, "note": PLANTED["note"]}
    http.put("/api/accounts/ann", json=record).raise_for_status()


def begin(http: httpx.Client) -> str:
    """A task that waits for an answer."""
    body = {"type": "asks_secretly", "account": "ann", "params": {"pin": PLANTED["parameter"]}}
    task = http.post("/api/tasks", json=body).raise_for_status().json()["id"]
    reached(http, task, "waiting")
    return task


def live_through(http: httpx.Client) -> str:
    """Everything that says something of somebody. Returns a task that still waits."""
    set_account(http)
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


async def search(address: str, *also: str) -> None:
    """Of all workflows and schedules, of these kinds among others."""
    client = await Client.connect(address, namespace="droidherd")
    found = {where: content async for where, content in kept(client)}
    kinds = {where.partition("/")[0].partition(" ")[0] for where in found}
    assert {"dispatcher", "emulator", "host", "account", *also} <= kinds
    assert any(b"binary/encrypted" in content for content in found.values())
    leaks = [
        (where, name)
        for where, content in found.items()
        for name, text in PLANTED.items()
        if any(one in content for one in spellings(text))
    ]
    assert [] == leaks
    assert not any(b"Traceback" in one or b"/droidherd/" in one for one in found.values()), "nor where code failed"


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
