"""A canary for a password: after runs through a whole farm, it stands on the emulator and nowhere else."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from temporalio.client import Client

from droidherd.contracts import names
from droidherd.contracts.accounts import AccountInput, AccountRecord, SetAccount
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.evidence.recording import read
from droidherd.flows.catalogue import GALLERY
from droidherd.flowtools.replay import replay
from tests.support.farm import Farm, farm

CANARY = "Canary7 it's 100%s"
NAMES = ("good", "fails", "unset", "unnamed")
FLOW = """
flow: {name}
app: com.example.herd
recorded: 1280x720
policy: {{time_limit: 60s}}
stages:
  - stage: enter
    on_ambiguous: repeat
    steps:
      - stop_app: {{}}
      - start_app: {{then: {{image: sign_in.png, within: 15s}}}}
      - tap: {{image: password_empty.png}}
      - type: {{text: {{secret: {secret}}}, then: {{gone: password_empty.png, within: 5s}}}}
      - screenshot: {{name: typed}}
{more}
"""
NEVER = "      - wait: {gone: sign_in.png, within: 500ms}"


def write(folder: Path, name: str, secret: str, more: str = "") -> None:
    """A flow that signs nobody in, and types."""
    (folder / name).mkdir(parents=True)
    (folder / name / "flow.yaml").write_text(FLOW.format(name=name, secret=secret, more=more))
    for image in ("sign_in.png", "password_empty.png"):
        shutil.copy(GALLERY / "sign_in" / image, folder / name)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Farm]:
    flows = tmp_path / "flows"
    write(flows, "good", "password")
    write(flows, "fails", "pin", NEVER)
    write(flows, "unset", "lost")
    write(flows, "unnamed", "other")
    (tmp_path / "pin").write_text(CANARY + "\n")
    monkeypatch.setenv("ANN_PASSWORD", CANARY)
    monkeypatch.setenv("DROIDHERD_CREDENTIALS__DIRECTORY", str(tmp_path))
    monkeypatch.setenv("DROIDHERD_TELEMETRY__TRACES", "console")
    monkeypatch.setenv("DROIDHERD_TELEMETRY__LOG_LEVEL", "DEBUG")
    with farm(tmp_path, 1, flows=flows) as one:
        yield one


async def record(client: Client, credentials: dict[str, str]) -> AccountRecord:
    """As a foreign client would."""
    account = await client.start_workflow(
        names.Workflow.ACCOUNT, AccountInput(), id=names.account_id("ann"), task_queue=names.FLEET_QUEUE
    )
    return await account.execute_update(
        names.Update.SET, SetAccount(credentials=credentials), result_type=AccountRecord
    )


async def histories(client: Client) -> AsyncIterator[str]:
    """Everything the engine keeps: inputs, results, failures, memos, attributes."""
    async for run in client.list_workflows():
        history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
        converter = client.data_converter.payload_converter
        for event in history.events:
            yield str(event)
        yield json.dumps(await run.memo(), default=str) + str(converter)


def spellings() -> list[str]:
    """However it might be quoted on its way."""
    return [CANARY, CANARY.replace(" ", "%s"), CANARY.replace("'", "'\\''"), "Canary7"]


def holds(content: bytes) -> bool:
    return any(one.encode() in content for one in spellings())


async def test_a_secret_stands_on_the_emulator_and_nowhere_else(place: Farm) -> None:
    client = await place.client()
    await place.wake(client)
    await place.all_up(client)
    references = {
        "password": "env:ANN_PASSWORD", "pin": f"file:{place.data}/pin", "lost": "env:ANN_LOST",
    }  # fmt: skip
    await record(client, references)
    states: dict[str, TaskStatus] = {}
    errors: dict[str, str] = {}
    for name in NAMES:
        await place.submit(client, name, name, account="ann")
        view = await place.ended(client, name)
        states[name] = view.state
        errors[name] = f"{view.error.kind}: {view.error.message} ({view.error.remedy})" if view.error else ""
    assert [TaskStatus.COMPLETED, *[TaskStatus.FAILED] * 3] == [states[name] for name in NAMES], errors
    assert "ScreenNotReachedError" in errors["fails"]
    assert "CredentialError: env:ANN_LOST: is not set on this worker" in errors["unset"]
    assert "BadParametersError: account ann: has no credential other" in errors["unnamed"]
    typed = [one.line for one in place.journal(place.emulators[0]) if "Canary7" in one.line]
    assert 2 <= len(typed), "it was typed by the one that completed and by the one that failed"
    assert place.worker.stop() == 0
    kept = [text async for text in histories(client)]
    assert "env:ANN_PASSWORD" in "".join(kept), "what is searched is what the engine keeps"
    assert [] == [text[:300] for text in kept if holds(text.encode())]
    files = await asyncio.to_thread(leaks, place.data)
    assert [] == files
    await asyncio.to_thread(replayed, place.data)


def replayed(data: Path) -> None:
    """What the one that failed left says how it came to that, without what was typed."""
    recorded = read(data / "artifacts" / "fails")
    assert "step 6: sign_in.png did not go away" in recorded.end
    assert recorded.part is not None
    assert 4 == len(recorded.part.behind) + len(recorded.acts()), "what the frame buffer had no time for is behind"
    assert {"***"} >= {str(act.args["text"]) for act in recorded.acts() if act.kind == "type"}
    done = replay(recorded, data / "flows" / "fails")
    assert ((), len(recorded.acts())) == (done.differences, done.acts), (done.notes, done.log)


def leaks(data: Path) -> list[str]:
    """Files that hold it, or are called like it: logs, spans, artifacts, journals of tasks, the engine's database."""
    allowed = {data / "pin", *(data / "virtual").rglob("*")}  # the emulator's own disk: there it was typed
    found: list[str] = []
    for root, _, files in os.walk(data):
        for file in files:
            path = Path(root) / file
            if path not in allowed and (holds(file.encode()) or holds(path.read_bytes())):
                found.append(str(path))
    assert "stage enter begins" in "".join(one.read_text() for one in (data / "artifacts").rglob("log-*.jsonl"))
    assert "run_stage" in (data / "worker.log").read_text(), "spans and logs of the worker are searched"
    return found
