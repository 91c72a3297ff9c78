"""Accounts over HTTP: their records, the emulator they are bound to, disabled and enabled."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from api.accounts.schemas import NextRun, next_of, next_runs
from droidherd.contracts.subscriptions import SubscriptionRow
from droidherd.contracts.tasks import TaskView
from droidherd.domain.task.lifecycle import TaskStatus
from tests.api.test_tasks import submit, until
from tests.api.waiting import eventually
from tests.api.world import World

CANARY = "hunter2-canary"
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def put(http: httpx.Client, account: str, **record: Any) -> dict[str, Any]:
    answer = http.put(f"/api/accounts/{account}", json=record)
    assert 200 == answer.status_code, answer.text
    return answer.json()


def test_the_first_put_makes_the_record_and_the_next_replaces_it_whole(http: httpx.Client):
    secret = {"password": "env:ANN_PASSWORD", "pin": "file:/run/secrets/pin"}
    made = put(http, "rec-1", emulator="e2", credentials=secret, note="the first", actor="bob")
    record = made["record"]
    assert ("idle", "e2", secret, "bob") == (
        made["state"],
        record["emulator"],
        record["credentials"],
        record["changed_by"],
    )
    put(http, "rec-1", note="another")
    now = http.get("/api/accounts/rec-1").json()["record"]
    assert ("", {}, "another") == (now["emulator"], now["credentials"], now["note"])
    assert 200 == http.request("DELETE", "/api/accounts/rec-1").status_code
    gone = http.get("/api/accounts/rec-1").json()
    assert ("idle", None) == (gone["state"], gone["record"])
    assert 404 == http.delete("/api/accounts/rec-1").status_code
    assert "again" == put(http, "rec-1", note="again")["record"]["note"]
    http.delete("/api/accounts/rec-1")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"credentials": {"password": CANARY}}, "credentials"),
        ({"credentials": {"password": f"http://{CANARY}"}}, "credentials"),
        ({"credentials": {"password": f"file:{CANARY}"}}, "credentials"),
        ({"credentials": {CANARY: "env:A"}}, "credentials"),
        ({"credentials": {f"p{n}": "env:A" for n in range(17)}}, "credentials"),
        ({"credentials": {"password": "env:DROIDHERD_API__KEY"}}, "credentials"),
        ({"emulator": "nowhere"}, "emulator"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_no_reference_is_refused_and_not_repeated(http: httpx.Client, body: dict[str, Any], field: str):
    refused = http.put("/api/accounts/rec-2", json=body)
    assert (422, field) == (refused.status_code, refused.json()["errors"][0]["field"])
    assert CANARY not in refused.text
    assert http.get("/api/accounts/rec-2").json()["record"] is None


def test_a_task_of_a_bound_account_runs_there_and_nowhere_else(world: World, http: httpx.Client):
    put(http, "bound-1", emulator="e3")
    for _ in range(3):
        task = submit(http, "bound-1").json()["id"]
        assert "e3" == until(http, task, "completed")["attempts"][-1]["emulator"]
    eventually(lambda: http.get("/api/accounts/bound-1").json()["last_emulator"] == "e3")
    with world.holding("bound-1"):
        runs = submit(http, "bound-1").json()["id"]
        until(http, runs, "running")
        now = http.get("/api/accounts/bound-1").json()
        assert ("running", "e3", runs) == (now["state"], now["emulator"], now["running_task"])
    until(http, runs, "completed")
    named = submit(http, "bound-1", emulator="e1").json()["id"]
    assert "e1" == until(http, named, "completed")["attempts"][-1]["emulator"]
    http.delete("/api/accounts/bound-1")


def test_a_planned_task_stays_where_its_account_was_bound_until_tried_anew(http: httpx.Client):
    put(http, "moved-1", emulator="e3")
    http.post("/api/queue/pause", json={"lane": "account"})
    stays, goes = (submit(http, "moved-1", on_busy="queue").json()["id"] for _ in range(2))
    for task_id in (stays, goes):
        until(http, task_id, "queued")
    put(http, "moved-1", emulator="e1")
    fresh = submit(http, "moved-1", on_busy="queue").json()["id"]
    assert http.post(f"/api/tasks/{goes}/cancel").is_success
    until(http, goes, "cancelled")
    assert http.post(f"/api/tasks/{goes}/retry").is_success
    http.post("/api/queue/resume")
    ran = {task: until(http, task, "completed")["attempts"][-1]["emulator"] for task in (stays, fresh, goes)}
    assert {stays: "e3", fresh: "e1", goes: "e1"} == ran
    http.delete("/api/accounts/moved-1")


def test_nobody_is_bound_by_a_task_of_somebody_else(http: httpx.Client):
    refused = http.post("/api/tasks", json={"type": "associate", "account": "bob", "params": {"account": "ann"}})
    assert (422, "params.account") == (refused.status_code, refused.json()["errors"][0]["field"])
    assert "names 'ann', and the task acts for account bob" in refused.text
    recurs = {"task": {"type": "associate", "account": "bob", "params": {"account": "ann"}}, "every_s": 60}
    refused = http.post("/api/subscriptions", json=recurs)
    assert (422, "task.params.account") == (refused.status_code, refused.json()["errors"][0]["field"])


def test_a_disabled_account_waits_and_says_why_until_it_is_enabled(http: httpx.Client):
    done = http.post("/api/accounts/off-1/disable", json={"actor": "bob", "reason": "banned"})
    assert (200, True) == (done.status_code, done.json()["done"])
    task = submit(http, "off-1").json()["id"]
    assert "account off-1 is disabled by bob: banned" == until(http, task, "queued")["why"]
    now = http.get("/api/accounts/off-1").json()
    assert ("disabled", "bob", "banned", [task]) == (
        now["state"], now["disabled"]["by"], now["disabled"]["reason"], now["queued_tasks"],
    )  # fmt: skip
    eventually(lambda: task in http.get("/api/accounts/off-1").json()["next_run"]["task"])
    audit = http.get("/api/audit", params={"action": "account_disabled"}).json()["entries"]
    assert ("off-1", "bob", "banned") == (audit[0]["detail"], audit[0]["actor"], audit[0]["reason"])
    assert 200 == http.post("/api/accounts/off-1/disable", json={"actor": "bob", "reason": "banned"}).status_code
    assert audit == http.get("/api/audit", params={"action": "account_disabled"}).json()["entries"]
    assert "" == http.post("/api/accounts/off-1/enable", json={"actor": "bob"}).json()["detail"]
    until(http, task, "completed")
    assert "account off-1 was not disabled" == http.post("/api/accounts/off-1/enable").json()["detail"]


def test_disabling_can_cancel_what_there_is(world: World, http: httpx.Client):
    with world.holding("off-2"):
        runs = submit(http, "off-2").json()["id"]
        until(http, runs, "running")
        waits = submit(http, "off-2", on_busy="queue").json()["id"]
        until(http, waits, "queued")
        open_ = {"account": "off-2", "state": ["running", "queued"]}
        eventually(lambda: len(http.get("/api/tasks", params=open_).json()["tasks"]) == 2)
        done = http.post("/api/accounts/off-2/disable", json={"tasks": "cancel"}).json()
        assert {runs, waits} == set(done["tasks"])
        for one in (runs, waits):
            until(http, one, "cancelled")
    http.post("/api/accounts/off-2/enable")


def test_the_list_is_paged_and_filtered(http: httpx.Client):
    for number in range(3):
        put(http, f"list-{number}", note="listed")

    def listed(**query: Any) -> list[str]:
        found: list[str] = []
        cursor = ""
        while True:
            page = http.get("/api/accounts", params={"limit": 2, "cursor": cursor, **query}).json()
            assert len(page["accounts"]) <= 2
            found += [str(one["account"]) for one in page["accounts"] if one["account"].startswith("list-")]
            cursor = page["cursor"]
            if not cursor:
                return sorted(found)

    eventually(lambda: listed() == ["list-0", "list-1", "list-2"])
    for name in ("list-1", "list-never-set"):
        http.post(f"/api/accounts/{name}/disable", json={"actor": "bob"})
    assert ["list-0", "list-2"] == listed(disabled="false")
    assert ["list-1", "list-never-set"] == listed(disabled="true")
    row = next(one for one in http.get("/api/accounts?disabled=true").json()["accounts"] if one["account"] == "list-1")
    assert ("disabled", "listed") == (row["state"], row["record"]["note"])
    for name in ("list-1", "list-never-set"):
        http.post(f"/api/accounts/{name}/enable")
    assert 422 == http.get("/api/accounts?cursor=made-up").status_code


def test_a_name_that_can_be_none_names_nothing(http: httpx.Client):
    assert 404 == http.get("/api/accounts/a%20b").status_code
    assert 404 == http.post("/api/accounts/a%20b/disable").status_code


def task(name: str, state: TaskStatus, at: datetime | None = None) -> TaskView:
    return TaskView(task_id=name, type="t", state=state, created_at=NOW, updated_at=NOW, not_before=at)


def name_of(run: NextRun | None) -> str:
    return run.task or run.subscription if run else ""


def test_the_next_run_is_the_earliest_of_what_waits():
    later = task("later", TaskStatus.PENDING, NOW + timedelta(hours=2))
    sooner = task("sooner", TaskStatus.PENDING, NOW + timedelta(hours=1))
    queued = task("queued", TaskStatus.QUEUED, NOW)
    runs = task("runs", TaskStatus.RUNNING)
    row = SubscriptionRow(id="nightly", next_times=(NOW + timedelta(days=1), NOW + timedelta(minutes=1)))
    due = next_runs([row, SubscriptionRow(id="paused")])
    assert "sooner" == name_of(next_of([later, runs, sooner]))
    assert "queued" == name_of(next_of([later, queued], due))
    assert "nightly" == name_of(next_of([later, sooner], due))
    assert None is next_of([runs])


def test_the_next_time_of_a_subscription_is_the_next_run(http: httpx.Client):
    task = {"type": "tap_once", "account": "due-1"}
    made = http.post("/api/subscriptions", json={"id": "due-1-nightly", "cron": "0 3 * * *", "task": task})
    assert 201 == made.status_code, made.text
    eventually(lambda: http.get("/api/accounts/due-1").json()["next_run"] is not None)
    due = http.get("/api/accounts/due-1").json()["next_run"]
    assert ("due-1-nightly", made.json()["next_times"][0]) == (due["subscription"], due["at"])
    http.request("DELETE", "/api/subscriptions/due-1-nightly")
