"""What is no subscription is refused before anything is made, and the answer names the field."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Schedule, ScheduleActionStartWorkflow, ScheduleIntervalSpec, ScheduleSpec

from droidherd.cli.local.embedded import EmbeddedTemporal
from droidherd.contracts.subscriptions import WaitingTask
from droidherd.contracts.tasks import TaskView
from tests.api.recurring import ALL, NEVER, add, kind
from tests.api.test_input import NASTY
from tests.api.world import World

TASK: dict[str, Any] = {"type": "tap_once"}


NOW = datetime(2026, 1, 2, tzinfo=UTC)


def hours(count: float) -> datetime:
    return NOW + timedelta(hours=count)


@pytest.mark.parametrize(
    ("state", "times", "since"),
    [
        ("queued", {}, hours(0)),
        ("paused", {"attempts": [{"n": 1, "started": hours(1), "ended": hours(2)}], "updated_at": hours(3)}, hours(2)),
        ("waiting", {"attempts": [{"n": 1, "started": hours(1)}], "updated_at": hours(3)}, hours(3)),
        ("retry_pending", {"attempts": [{"n": 1, "ended": hours(1)}], "retry_at": hours(4)}, hours(4)),
        ("pending", {"not_before": hours(9)}, hours(9)),
        ("running", {"attempts": [{"n": 1, "started": hours(1)}]}, None),
        ("rollback_running", {}, None),
        ("completed", {}, None),
    ],
)
def test_a_task_waits_from_when_it_ran_last(state: str, times: dict[str, Any], since: datetime | None):
    given = {"task_id": "t", "type": "tap_once", "state": state, "created_at": NOW, "updated_at": NOW, **times}
    waits = WaitingTask.of(TaskView.model_validate(given))
    assert since == waits.since
    assert (since is not None and since <= hours(4)) is waits.is_stuck(3600, hours(5))
    assert not waits.is_stuck(0, hours(500))


def post(http: httpx.Client, body: Any) -> httpx.Response:
    return http.post(ALL, content=json.dumps(body).encode(), headers={"content-type": "application/json"})


def fields(answer: httpx.Response) -> list[str]:
    assert (422, "invalid-input") == kind(answer), answer.text
    return [one["field"] for one in answer.json()["errors"]]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**NEVER}, "task"),
        ({"task": TASK}, "cron"),
        ({"task": TASK, "cron": "0 5 * * *", "every_s": 60}, "cron"),
        ({"task": TASK, "cron": "0 5 * *"}, "cron"),
        ({"task": TASK, "cron": "0 25 * * *"}, "cron"),
        ({"task": TASK, "cron": "0 0 31 2 *"}, "cron"),
        ({"task": TASK, "cron": "CRON_TZ=UTC 0 5 * * *"}, "cron"),
        ({"task": TASK, "cron": "x" * 201}, "cron"),
        ({"task": TASK, "every_s": 0}, "cron"),
        ({"task": TASK, "every_s": -1}, "every_s"),
        ({"task": TASK, "every_s": 0.5}, "every_s"),
        ({"task": TASK, "every_s": 10**30}, "every_s"),
        ({"task": TASK, "every_s": 60, "offset_s": 60}, "offset_s"),
        ({"task": TASK, "cron": "0 5 * * *", "offset_s": 60}, "offset_s"),
        ({"task": TASK, "cron": "0 5 * * *", "time_zone": "Mars/Base"}, "time_zone"),
        ({"task": TASK, "cron": "0 5 * * *", "time_zone": "../../etc/passwd"}, "time_zone"),
        ({"task": TASK, **NEVER, "jitter_s": -1}, "jitter_s"),
        ({"task": TASK, **NEVER, "overlap": "allow_all"}, "overlap"),
        ({"task": TASK, **NEVER, "overlap": "terminate_other"}, "overlap"),
        ({"task": TASK, **NEVER, "catch_up_s": 9}, "catch_up_s"),
        ({"task": TASK, **NEVER, "catchup_s": 90}, "catchup_s"),
        ({"task": TASK, **NEVER, "actor": "ann\nbob"}, "actor"),
        ({"task": {}, **NEVER}, "task.type"),
        ({"task": {"type": "no_such_type"}, **NEVER}, "task.type"),
        ({"task": {**TASK, "params": {"down": 101}}, **NEVER}, "task.params.down"),
        ({"task": {**TASK, "params": {"up": 1}}, **NEVER}, "task.params.up"),
        ({"task": {**TASK, "params": {"down": 10**400}}, **NEVER}, "task.params.down"),
        ({"task": {**TASK, "account": "a b"}, **NEVER}, "task.account"),
        ({"task": {**TASK, "pool": "nowhere"}, **NEVER}, "task.pool"),
        ({"task": {**TASK, "emulator": "nobody"}, **NEVER}, "task.emulator"),
        ({"task": {**TASK, "priority": 11}, **NEVER}, "task.priority"),
        ({"task": {**TASK, "policy": {"retrys": 1}}, **NEVER}, "task.policy.retrys"),
        ({"task": {**TASK, "mutex": ["a", "b", "c", "d"]}, **NEVER}, "task.mutex"),
        ({"task": {**TASK, "mutex": ["shop", "subscription.other"]}, **NEVER}, "task.mutex.1"),
        ({"task": {**TASK, "not_before": "2030-01-01T00:00:00Z"}, **NEVER}, "task.not_before"),
        ({"task": {**TASK, "expires_at": "2030-01-01T00:00:00Z"}, **NEVER}, "task.expires_at"),
        ({"task": {**TASK, "actor": "ann"}, **NEVER}, "task.actor"),
        ({"task": {**TASK, "id": "x"}, **NEVER}, "task.id"),
        ({"id": "x" * 41, "task": TASK, **NEVER}, "id"),
        ({"id": "../x", "task": TASK, **NEVER}, "id"),
        ([], "body"),
    ],
)
def test_what_does_not_fit_names_its_field(http: httpx.Client, body: Any, field: str):
    assert field in fields(post(http, body))


def test_what_is_not_json_is_malformed(http: httpx.Client):
    for method, path in (("POST", ALL), ("PUT", f"{ALL}/x"), ("PATCH", f"{ALL}/x")):
        answer = http.request(method, path, content=b"{", headers={"content-type": "application/json"})
        assert answer.status_code in {400, 404}, (method, answer.text)


@pytest.mark.parametrize("nasty", NASTY)
def test_no_id_gets_through_that_is_no_id(http: httpx.Client, nasty: str):
    assert ["id"] == fields(post(http, {"id": nasty, "task": TASK, **NEVER}))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("PUT", ""),
        ("PATCH", ""),
        ("DELETE", ""),
        ("GET", "/tasks"),
        ("POST", "/run"),
        ("POST", "/download"),
        ("POST", "/pause"),
        ("POST", "/resume"),
    ],
)
@pytest.mark.parametrize("unknown", ["nobody", "no%20body", "x" * 100])
def test_an_unknown_one_is_not_found(http: httpx.Client, method: str, path: str, unknown: str):
    body = {"task": TASK, **NEVER} if method in {"PUT", "PATCH"} else None
    answer = http.request(method, f"{ALL}/{unknown}{path}", json=body)
    assert (404, "not-found") == kind(answer), answer.text


def test_a_schedule_of_somebody_else_is_not_ours_to_change(world: World, http: httpx.Client, name: str):
    action = ScheduleActionStartWorkflow("Other", "x", id=name, task_queue="other")
    spec = ScheduleSpec(intervals=[ScheduleIntervalSpec(timedelta(days=1))])
    world.run(world.client.create_schedule(f"subscription/{name}", Schedule(action=action, spec=spec)))
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/run")):
        assert (404, "not-found") == kind(http.request(method, f"{ALL}/{name}{path}"))
    world.run(world.client.get_schedule_handle(f"subscription/{name}").delete())


def test_an_id_that_is_taken_is_a_conflict(http: httpx.Client, name: str):
    add(http, name)
    again = post(http, {"id": name, "task": TASK, **NEVER})
    assert ((409, "id-taken"), name) == (kind(again), again.json()["subscription"])
    assert name == http.get(f"{ALL}/{name}").json()["task"]["account"], "the first one stays as it is"


def test_a_repeat_with_the_same_key_stays_one_subscription(http: httpx.Client, name: str):
    headers = {"idempotency-key": name}
    first, again = (http.post(ALL, json={"task": TASK, **NEVER}, headers=headers) for _ in range(2))
    assert (201, 201, first.json()["id"]) == (first.status_code, again.status_code, again.json()["id"])
    other = http.post(ALL, json={"task": TASK, "every_s": 60}, headers=headers)
    assert (422, "key-reused") == kind(other)
    assert 1 == len(http.get(f"{ALL}/{first.json()['id']}").json()["changes"])
    http.delete(f"{ALL}/{first.json()['id']}")


def test_without_an_id_one_is_made(http: httpx.Client):
    made = http.post(ALL, json={"task": TASK, **NEVER})
    assert f"{ALL}/{made.json()['id']}" == made.headers["location"]
    assert 200 == http.delete(made.headers["location"]).status_code


def test_a_change_is_judged_like_a_new_one_and_nothing_changes(http: httpx.Client, name: str):
    before = add(http, name)
    for method, body, field in (
        ("PUT", {"task": TASK}, "cron"),
        ("PUT", {"id": "other", "task": TASK, **NEVER}, "id"),
        ("PATCH", {"cron": "0 5 * * *", "every_s": 60}, "cron"),
        ("PATCH", {"task": {"params": {}}}, "task.type"),
        ("PATCH", {"time_zone": "Mars/Base"}, "time_zone"),
        ("PATCH", {"paws": True}, "paws"),
        ("PATCH", {"every_s": None}, "every_s"),
        ("PATCH", [], "body"),
    ):
        assert field in fields(http.request(method, f"{ALL}/{name}", json=body)), (method, body)
    assert before["changes"] == http.get(f"{ALL}/{name}").json()["changes"]


def test_what_to_do_with_the_task_is_finish_or_cancel(http: httpx.Client, name: str):
    add(http, name)
    assert ["tasks"] == fields(http.delete(f"{ALL}/{name}", params={"tasks": "kill"}))
    assert 200 == http.get(f"{ALL}/{name}").status_code


# --- who is away -------------------------------------------------------------------------------------------------


@pytest.fixture
def quiet(temporal_server: EmbeddedTemporal, temporal_namespace: str, tmp_path: Path) -> Iterator[World]:
    """An API and an engine; no worker."""
    with World(temporal_server.address, temporal_namespace, tmp_path, answer_s=0.3) as world:
        yield world


def test_without_workers_a_subscription_is_made_run_and_deleted(quiet: World):
    """The engine keeps it and starts what is due; the workers do it when they are back."""
    with httpx.Client(base_url=quiet.url, timeout=30) as http:
        add(http, "late")
        ran = http.post(f"{ALL}/late/run").json()
        assert ("started", True) == (ran["outcome"], http.get(f"{ALL}/late").json()["running"])
        gone = http.delete(f"{ALL}/late", params={"tasks": "cancel"})
        assert (200, "") == (gone.status_code, gone.json()["running"])
        quiet.work()
        add(http, "other")
        http.post(f"{ALL}/other/run")
        assert 404 == http.get(f"/api/tasks/{ran['task_id']}").status_code, "it was cancelled before it began"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("POST", ""),
        ("GET", "/s"),
        ("PATCH", "/s"),
        ("DELETE", "/s"),
        ("GET", "/s/tasks"),
        ("POST", "/s/run"),
    ],
)
def test_without_an_engine_it_says_so(tmp_path: Path, method: str, path: str):
    world = World("127.0.0.1:9", "nobody", tmp_path, answer_s=0.3)
    world.alone = True
    with world:
        body = {"task": TASK, **NEVER} if method in {"POST", "PATCH"} and path != "/s/run" else None
        answer = httpx.request(method, f"{world.url}{ALL}{path}", json=body, timeout=30)
        assert ((503, "engine-away"), "10") == (kind(answer), answer.headers["retry-after"])
