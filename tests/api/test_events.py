"""A task's audit: as JSON, and as a stream that lives as long as the task."""

import json
import re
from datetime import UTC, datetime
from typing import Any, cast

import httpx
import pytest

from api.tasks import service
from droidherd.contracts.tasks import EventView, TaskView
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.tasks import TaskReading, TasksClient
from tests.api.test_tasks import submit, until
from tests.api.world import World

STREAM = {"accept": "text/event-stream"}


def test_the_audit_says_who_changed_what_and_why(world: World, http: httpx.Client):
    with world.holding("audit-1"):
        task_id = submit(http, "audit-1").json()["id"]
        until(http, task_id, "running")
        http.post(f"/api/tasks/{task_id}/cancel", json={"actor": "ann", "reason": "enough"})
        until(http, task_id, "cancelled")
    audit = http.get(f"/api/tasks/{task_id}/events").json()
    assert ["created", "admitted", "granted", "cancelled"] == [one["event"] for one in audit["events"]]
    last = audit["events"][-1]
    assert ("ann", "enough", "running", "cancelled") == (last["actor"], last["reason"], last["before"], last["after"])
    assert sorted(one["id"] for one in audit["events"]) == [one["id"] for one in audit["events"]]


def test_a_stream_follows_a_task_to_its_end(world: World, http: httpx.Client):
    with world.holding("stream-1"):
        task_id = submit(http, "stream-1").json()["id"]
        until(http, task_id, "running")
        seen: list[dict[str, Any]] = []
        with http.stream("GET", f"/api/tasks/{task_id}/events", headers=STREAM) as stream:
            assert "text/event-stream; charset=utf-8" == stream.headers["content-type"]
            for message in _messages(stream):
                seen.append(message)
                if message["event"] == "granted":
                    world.hands.held.discard("stream-1")
    assert ["created", "admitted", "granted", "completed", "end"] == [one["event"] for one in seen]
    assert "completed" == seen[-1]["data"]["state"]


def test_a_broken_stream_goes_on_where_it_broke(http: httpx.Client):
    task_id = submit(http).json()["id"]
    until(http, task_id, "completed")
    with http.stream("GET", f"/api/tasks/{task_id}/events", headers=STREAM) as stream:
        whole = list(_messages(stream))
    headers = STREAM | {"last-event-id": whole[0]["id"]}
    with http.stream("GET", f"/api/tasks/{task_id}/events", headers=headers) as stream:
        assert whole[1:] == list(_messages(stream))
    headers = STREAM | {"last-event-id": "rubbish"}
    with http.stream("GET", f"/api/tasks/{task_id}/events", headers=headers) as stream:
        assert whole == list(_messages(stream))


def _messages(stream: httpx.Response) -> Any:
    message: dict[str, Any] = {}
    for line in stream.iter_lines():
        name, _, value = line.partition(": ")
        if not line and message:
            yield message
            message = {}
        elif name in {"id", "event"}:
            message[name] = value
        elif name == "data":
            message["data"] = json.loads(value)


class Absent:
    """Tasks whose worker answers from the third question on."""

    def __init__(self, whole: TaskReading) -> None:
        self.whole, self.asked = whole, 0

    async def audit(self, task_id: str) -> TaskReading:
        self.asked += 1
        written = self.whole.view.model_copy(update={"events": ()})
        return self.whole if self.asked > 2 else TaskReading(written, open=False, stale=True)


@pytest.mark.parametrize(("patience_s", "last"), [(60.0, ["completed", "end"]), (-1.0, ["end"])])
async def test_a_stream_waits_for_a_worker_that_knows_the_last_events(
    monkeypatch: pytest.MonkeyPatch, patience_s: float, last: list[str]
):
    monkeypatch.setattr(service, "POLL_S", 0.0)
    monkeypatch.setattr(service, "POLL_MAX_S", 0.0)
    monkeypatch.setattr(service, "LAST_EVENTS_S", patience_s)
    now = datetime.now(UTC)
    event = EventView(at=now, event="completed", before="running", after="completed", actor="droidherd")
    view = TaskView(task_id="t", type="x", state=TaskStatus.COMPLETED, created_at=now, updated_at=now, events=(event,))
    tasks = cast("TasksClient", Absent(TaskReading(view, open=False)))
    sent = b"".join([piece async for piece in service.event_stream(tasks, "t", "")]).decode()
    assert last == re.findall(r"event: (\w+)", sent)
