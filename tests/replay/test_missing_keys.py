"""A key that was removed too early: whatever of a history it had encrypted, its run waits for it, and is not replaced.

Each place of a history that holds something for the workflow is encrypted by itself, in every workflow that has it.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.client import WorkflowHistory
from temporalio.common import RawValue
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.worker import Replayer

from droidherd.engine.connection import converter_of
from droidherd.engine.encryption import EncryptionKeys
from droidherd.testing import replay
from droidherd.worker.workflow_workers import WORKFLOWS
from tests.replay import library
from workflows.guard import GuardedRunner

pytestmark = pytest.mark.more

OLD = EncryptionKeys("k1", {"k1": b"1" * 32})
BOTH = EncryptionKeys("k2", {"k2": b"2" * 32, "k1": b"1" * 32})
NEW = EncryptionKeys("k2", {"k2": b"2" * 32})
SIGNAL = "workflow_execution_signaled"
"""Anybody may send one, with any key: it is dropped. A run that heard it before then diverges, and waits."""
PLACES = (
    "workflow_execution_started.input",
    "workflow_execution_started.last_completion_result",
    "activity_task_completed.result",
    "activity_task_failed.failure",
    "activity_task_timed_out.failure",
    "child_workflow_execution_completed.result",
    "child_workflow_execution_failed.failure",
    "marker_recorded.details",
    "marker_recorded.failure",
    "workflow_execution_update_accepted.accepted_request",
    f"{SIGNAL}.input",
)


class Witness:
    def __init__(self) -> None:
        self.failed: list[str] = []

    def on_failed(self, run_id: str, workflow_id: str, kind: str, error: str) -> None:
        self.failed.append(error)

    def on_late(self, run_id: str, workflow_id: str, kind: str, error: str) -> None:
        self.failed.append(error)

    def on_advanced(self, run_id: str, kind: str, *, replayed: bool) -> None:
        """Not asked here."""


def payloads_in(value: Any) -> Iterator[Payload]:
    """What droidherd encrypts of it. In a marker the SDK's core keeps something for itself, under `data`."""
    if isinstance(value, Payload):
        yield value
    elif isinstance(value, Mapping):
        yield from payloads_in([one for name, one in value.items() if name != "data"])
    elif isinstance(value, Message):
        yield from payloads_in([one for _, one in value.ListFields()])
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for one in value:
            yield from payloads_in(one)


def found_at(event: Any, place: str) -> list[Payload]:
    """With the message of a failure, which is encrypted as a payload of its own."""
    kind, _, part = place.partition(".")
    if event.WhichOneof("attributes") != f"{kind}_event_attributes":
        return []
    value = getattr(getattr(event, f"{kind}_event_attributes"), part)
    while isinstance(value, Failure) and value.message:
        value.encoded_attributes.metadata["encoding"], value.encoded_attributes.data = b"json/plain", b"{}"
        if not value.HasField("cause"):
            break
        value = value.cause
    return [one for one in payloads_in(value) if one.metadata.get("encoding")]


async def seal(history: WorkflowHistory, place: str) -> None:
    """Encrypt what stands in this place, in all events."""
    for one in [payload for event in history.events for payload in found_at(event, place)]:
        (sealed,) = await converter_of(OLD).encode([RawValue(one)])
        one.CopyFrom(sealed)


def with_each_place() -> list[tuple[str, str, Path]]:
    """For each workflow and place the shortest history that has something there."""
    recorded = sorted(map(replay.read, replay.find([library.HISTORIES])), key=lambda one: len(one.history.events))
    found: dict[tuple[str, str], Path] = {}
    for one in recorded:
        for place in PLACES:
            if one.begun() and any(found_at(event, place) for event in one.history.events):
                found.setdefault((one.workflow, place), one.path)
    return [(workflow, place, path) for (workflow, place), path in found.items()]


async def played(path: Path, place: str, keys: EncryptionKeys) -> tuple[str, list[str]]:
    """Why it cannot go on, and what was noted to have it replaced."""
    history, witness = replay.read(path).history, Witness()
    await seal(history, place)
    replayer = Replayer(
        workflows=WORKFLOWS,
        data_converter=converter_of(keys),
        workflow_runner=GuardedRunner(witness=witness),
        debug_mode=True,
        runtime=Runtime(telemetry=TelemetryConfig(logging=None)),
    )
    result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
    return str(result.replay_failure or ""), witness.failed


async def test_a_run_waits_for_the_key_of_whatever_it_needs():
    wrong: list[str] = []
    kinds = set[str]()
    for workflow, place, path in with_each_place():
        why, noted = await played(path, place, NEW)
        kinds.add(workflow)
        if noted or ("the key 'k1'" not in why and not place.startswith(SIGNAL)):
            wrong.append(f"{workflow} {place} ({path.name}): {noted or why[:300] or 'it goes on'}")
        if (back := await played(path, place, BOTH)) != ("", []):
            wrong.append(f"{workflow} {place} ({path.name}), with the key: {back}")
    assert [] == wrong
    assert 7 == len(kinds)
