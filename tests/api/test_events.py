"""A task's audit: as JSON, and as a stream that lives as long as the task."""

import json
from typing import Any

import httpx

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
    assert ["admitted", "granted", "cancelled"] == [one["event"] for one in audit["events"]]
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
    assert ["admitted", "granted", "completed", "end"] == [one["event"] for one in seen]
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
