"""What is done beside the dispatcher stands in the pool's audit: accounts, subscriptions, bulk orders, cleanups."""

from typing import Any

import httpx
import pytest

from tests.api.recurring import ALL, add, run
from tests.api.test_figures import audit
from tests.api.test_tasks import submit, until
from tests.api.waiting import eventually
from tests.api.world import World


def audit_lines(http: httpx.Client, actor: str) -> list[tuple[str, str, str]]:
    """Oldest first."""
    return [(one["action"], one["reason"], one["detail"]) for one in reversed(audit(http, actor=actor))]


def wait_for_entries(http: httpx.Client, actor: str, count: int) -> list[tuple[str, str, str]]:
    """Once so much was said."""
    return eventually(lambda: found if len(found := audit_lines(http, actor)) >= count else None)


def test_records_of_accounts_set_and_removed(http: httpx.Client):
    by = {"actor": "records-ann", "reason": "audit"}
    record = {"emulator": "e2", "credentials": {"password": "env:ANN_PASSWORD"}}
    assert 200 == http.put("/api/accounts/records-1", json={**record, **by}).status_code
    assert 200 == http.request("DELETE", "/api/accounts/records-1", json=by).status_code
    assert [
        ("account_set", "audit", "records-1: bound to e2; credentials: password"),
        ("account_removed", "audit", "records-1"),
    ] == wait_for_entries(http, "records-ann", 2)


def test_a_pool_nobody_knows_has_no_audit(http: httpx.Client):
    for answer in (
        http.put("/api/accounts/records-2", params={"pool": "nowhere"}, json={}),
        http.delete("/api/accounts/records-2", params={"pool": "nowhere"}),
        http.post("/api/maintenance/cleanup", json={"pool": "nowhere"}),
    ):
        assert (404, "no pool `nowhere`") == (answer.status_code, answer.json()["detail"])
    assert None is http.get("/api/accounts/records-2").json()["record"]


def test_a_subscription_from_its_making_to_its_end(http: httpx.Client, name: str):
    by = {"actor": f"records-{name}", "reason": "audit"}
    add(http, name, cron="30 5 * * *", **by)
    http.patch(f"{ALL}/{name}", json={"overlap": "buffer_one", **by})
    http.post(f"{ALL}/{name}/pause", json=by)
    http.post(f"{ALL}/{name}/resume", json=by)
    ran = http.post(f"{ALL}/{name}/run", json=by).json()["task_id"]
    until(http, ran, "completed")
    http.request("DELETE", f"{ALL}/{name}", json=by)
    assert 404 == http.get(f"{ALL}/{name}").status_code
    what = ("created", "changed", "paused", "resumed", "run", "deleted")
    which = f"{name}: tap_once for {name}, 30 5 * * * UTC"
    assert [(f"subscription_{one}", "audit", which) for one in what] == wait_for_entries(http, by["actor"], len(what))
    (one,) = audit(http, task=ran)
    assert ("subscription_run", f"/api/tasks/{ran}/events") == (one["action"], one["task_events"])


def test_a_subscription_that_is_asked_for_again_is_made_once(http: httpx.Client, name: str):
    body = {"task": {"type": "tap_once"}, "every_s": 86_400, "actor": f"records-{name}"}
    headers = {"Idempotency-Key": f"key-{name}"}
    made = [http.post(ALL, json=body, headers=headers) for _ in range(2)]
    assert [201, 201] == [one.status_code for one in made]
    http.request("DELETE", f"{ALL}/{made[0].json()['id']}", json={"actor": f"records-{name}"})
    lines = wait_for_entries(http, f"records-{name}", 2)
    assert ["subscription_created", "subscription_deleted"] == [action for action, _, _ in lines]


def test_what_was_refused_is_not_reported_as_done(http: httpx.Client, name: str):
    add(http, name, actor="records-ben")
    assert 409 == http.post(f"{ALL}/{name}/resume", json={"actor": f"records-{name}"}).status_code
    assert 409 == http.post(ALL, json={"id": name, "task": {"type": "scan"}, "every_s": 60}).status_code
    run(http, name)
    assert [] == audit_lines(http, f"records-{name}")


def test_a_run_that_was_refused_says_why_and_what_is_paused_still_has_an_end(
    world: World, http: httpx.Client, name: str
):
    add(http, name)
    by = {"actor": f"records-{name}", "reason": "audit"}
    with world.holding(name):
        until(http, run(http, name), "running")
        assert 409 == http.post(f"{ALL}/{name}/run", json=by).status_code
    http.post(f"{ALL}/{name}/pause", json=by)
    http.request("DELETE", f"{ALL}/{name}", json=by)
    lines = wait_for_entries(http, by["actor"], 4)
    assert ["run", "refused", "paused", "deleted"] == [one.removeprefix("subscription_") for one, _, _ in lines]
    assert "lets no other run wait" in lines[1][2]


def test_an_order_for_many_is_one_line_with_its_filter_and_count(http: httpx.Client):
    by = {"actor": "records-cem", "reason": "over"}
    http.post("/api/queue/pause", json={"lane": "account"})
    mine = [submit(http, f"records-bulk-{n}", labels={"records": "bulk"}).json()["id"] for n in range(2)]
    params: dict[str, Any] = {"label": "records=bulk", "type": "tap_once"}
    eventually(lambda: len(http.get("/api/tasks", params=params).json()["tasks"]) == 2)
    assert http.post("/api/bulk/cancel", params={**params, "dry_run": True}, json=by).is_success
    assert sorted(mine) == sorted(http.post("/api/bulk/cancel", params=params, json=by).json()["tasks"])
    http.post("/api/queue/resume")
    assert [("bulk_cancel", "over", "2 tasks: type=tap_once label=records=bulk")] == wait_for_entries(
        http, "records-cem", 1
    )


def test_the_tasks_that_go_with_a_disabled_account_are_such_an_order(http: httpx.Client):
    http.post("/api/accounts/records-off/disable", json={"tasks": "cancel", "actor": "records-dan", "reason": "banned"})
    http.post("/api/accounts/records-off/enable", json={"actor": "records-dan"})
    lines = wait_for_entries(http, "records-dan", 3)
    assert ("bulk_cancel", "banned", "0 tasks: account=records-off") in lines
    assert ["account_disabled", "bulk_cancel", "account_enabled"] == [action for action, _, _ in lines]


@pytest.fixture
def idle(http: httpx.Client) -> None:
    """No cleanup is under way."""
    eventually(
        lambda: all(one["state"] != "running" for one in http.get("/api/maintenance/cleanup").json()["cleanups"])
    )


@pytest.mark.usefixtures("idle")
def test_a_cleanup_says_who_wanted_it_and_what_went(http: httpx.Client):
    by = {"actor": "records-eva", "reason": "spring"}
    answer = http.post("/api/maintenance/cleanup", json={"dry_run": True, **by})
    assert "completed" == answer.json()["state"], answer.text
    (began, ended) = wait_for_entries(http, "records-eva", 2)
    assert (("cleanup_began", "spring", "dry run"), "cleanup_ended") == (began, ended[0])
    assert ended[2].startswith("dry run; ")
    assert ended[2].endswith(" bytes")


@pytest.mark.usefixtures("idle")
def test_whoever_joins_a_cleanup_under_way_is_named_as_well(world: World, http: httpx.Client):
    world.rest()
    try:
        for actor in ("records-fay", "records-gil"):
            answer = http.post(
                "/api/maintenance/cleanup", params={"wait": "0s"}, json={"dry_run": True, "actor": actor}
            )
            assert 202 == answer.status_code
    finally:
        world.work()
    assert [("cleanup_joined", "", "dry run")] == wait_for_entries(http, "records-gil", 1)
    assert ["cleanup_began", "cleanup_ended"] == [action for action, _, _ in wait_for_entries(http, "records-fay", 2)]
