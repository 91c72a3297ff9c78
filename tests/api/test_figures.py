"""Statistics and audit over HTTP, and lanes as they are set there."""

from typing import Any

import httpx
import pytest
from temporalio.client import Client

from droidherd.contracts import names
from droidherd.contracts.queue import CommandResult, OperatorCommand
from tests.api.test_tasks import submit, until
from tests.api.waiting import eventually
from tests.api.world import POOL, World


def stats(http: httpx.Client, kind: str = "tap_once") -> dict[str, Any]:
    page = http.get("/api/stats", params={"type": kind}).json()
    none: dict[str, Any] = {"count": 0, "completed": 0, "failed": 0, "run": {"count": 0}}
    return next(iter(page["types"]), none)


def audit(http: httpx.Client, **query: Any) -> list[dict[str, Any]]:
    answer = http.get("/api/audit", params=query)
    assert 200 == answer.status_code, answer.text
    entries: list[dict[str, Any]] = answer.json()["entries"]
    return entries


def test_what_tasks_do_is_counted_by_type_and_in_total(world: World, http: httpx.Client):
    eventually(lambda: not http.get("/api/queue").json()["running"])  # whoever ended before is counted by then
    before, total = stats(http), http.get("/api/stats").json()["total"]["count"]
    for number in range(3):
        until(http, submit(http, f"stats-{number}").json()["id"], "completed")
    world.hands.broken.add("stats-broken")
    until(http, submit(http, "stats-broken").json()["id"], "failed")
    after = eventually(lambda: found if (found := stats(http))["count"] == before["count"] + 4 else None)
    assert (3, 1) == (after["completed"] - before["completed"], after["failed"] - before["failed"])
    assert after["completed"] / (after["completed"] + after["failed"]) == pytest.approx(after["success_rate"], abs=1e-3)
    timed = after["count"] - after["cancelled"]
    assert timed == after["run"]["count"] == after["wait"]["count"]
    assert 0 < after["run"]["p50_s"] <= after["run"]["p95_s"]
    page = http.get("/api/stats").json()
    assert (POOL, total + 4) == (page["pool"], page["total"]["count"])
    assert page["since"].endswith("Z")


def test_the_total_of_statistics_is_that_of_the_types_asked_for(http: httpx.Client):
    until(http, submit(http, "stats-one").json()["id"], "completed")
    until(http, submit(http, "stats-two", type="long_walk").json()["id"], "completed")

    def asked(*kinds: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        page = http.get("/api/stats", params={"type": [*kinds]}).json()
        return page["total"], page["types"]

    one, both = eventually(
        lambda: (
            (found[0], found[1])
            if len((found := (asked("tap_once"), asked("tap_once", "long_walk")))[1][1]) == 2
            else None
        )
    )
    assert one[0] == {**one[1][0], "type": ""}
    assert both[0]["count"] == sum(kind["count"] for kind in both[1]) > one[0]["count"]
    assert both[0]["run"]["count"] == sum(kind["run"]["count"] for kind in both[1])
    assert both[0]["run"]["p50_s"] is None
    assert 0 == asked("nobody_ran_this")[0]["count"]


def test_a_type_nobody_ran_has_no_line(http: httpx.Client):
    assert [] == http.get("/api/stats", params={"type": "nobody_ran_this"}).json()["types"]
    assert 422 == http.get("/api/stats", params={"type": "a b"}).status_code
    assert 404 == http.get("/api/stats", params={"pool": "nowhere"}).status_code


def test_prometheus_shows_the_same_counts(http: httpx.Client):
    until(http, submit(http, "metric-1").json()["id"], "completed")

    def shown() -> tuple[dict[str, Any], str] | None:
        """At a moment in which nothing is counted."""
        counts, page = stats(http), http.get("/metrics").text
        return (counts, page) if counts["completed"] and counts == stats(http) else None

    known, text = eventually(shown)
    labels = 'pool="default",type="tap_once"'
    assert f'droidherd_attempts_total{{outcome="completed",{labels}}} {known["completed"]}.0' in text
    assert f'droidherd_run_seconds_bucket{{le="+Inf",{labels}}} {known["run"]["count"]}.0' in text
    assert f"droidherd_run_seconds_count{{{labels}}} {known['run']['count']}.0" in text
    assert "# TYPE droidherd_wait_seconds histogram" in text
    assert 'droidherd_process_memory_bytes{host="local",process="api"} ' in text
    assert 'droidherd_host_disk_free_bytes{host="local"} ' in text


def test_every_order_stands_in_the_audit_with_who_when_and_why(http: httpx.Client):
    by = {"actor": "audit-ann", "reason": "release"}
    http.post("/api/queue/pause", json={**by, "lane": "account"})
    task = submit(http, "audit-1").json()["id"]
    until(http, task, "queued")
    http.post(f"/api/tasks/{task}/prioritize", json=by)
    http.post("/api/queue/capacity", json={**by, "lane": "account", "capacity": 7})
    http.post("/api/queue/order", json={**by, "lane": "account", "order": "priority"})
    http.post("/api/queue/order", json={**by, "lane": "account", "order": "arrival"})
    http.post("/api/queue/capacity", json={**by, "lane": "account", "capacity": 100})
    http.post("/api/queue/resume", json=by)
    entries = audit(http, actor="audit-ann")
    orders = ["lane_resumed", "lane_capacity", "lane_ordering", "lane_ordering", "lane_capacity", "prioritized"]
    assert [*orders, "lane_paused"] == [one["action"] for one in entries]
    assert {"release"} == {one["reason"] for one in entries}
    assert sorted([one["at"] for one in entries], reverse=True) == [one["at"] for one in entries]
    (one,) = audit(http, task=task)
    assert ("prioritized", task, f"/api/tasks/{task}/events") == (one["action"], one["task"], one["task_events"])
    until(http, task, "completed")


def test_the_audit_is_read_in_pages(http: httpx.Client):
    for number in range(5):
        http.post("/api/queue/capacity", json={"actor": "pages", "lane": "account", "capacity": 90 + number})
    query: dict[str, Any] = {"actor": "pages", "action": "lane_capacity", "limit": 2}
    seen: list[int] = []
    cursor = ""
    for _ in range(3):
        page = http.get("/api/audit", params={**query, "cursor": cursor}).json()
        seen += [one["id"] for one in page["entries"]]
        cursor = page["cursor"]
    assert ("", 5, sorted(set(seen), reverse=True)) == (cursor, len(seen), seen)
    assert 422 == http.get("/api/audit", params={"cursor": "x"}).status_code
    assert 422 == http.get("/api/audit", params={"limit": 0}).status_code
    refused = http.get("/api/audit", params={"cursor": "9999999999999999999"})
    assert (422, ["cursor"]) == (refused.status_code, [one["field"] for one in refused.json()["errors"]])
    http.post("/api/queue/capacity", json={"lane": "account", "capacity": 100})


def test_without_keys_the_body_says_who_it_is_and_somebody_else_is_somebody(http: httpx.Client):
    http.post("/api/queue/pause", json={"lane": "nobody-there", "reason": "who-am-i"})
    http.post("/api/queue/resume", json={"lane": "nobody-there"})
    assert "somebody" == next(one["actor"] for one in audit(http) if one["reason"] == "who-am-i")


def test_what_a_foreign_client_orders_is_audited_with_the_name_it_gives(world: World, http: httpx.Client):
    async def order(client: Client) -> CommandResult:
        handle = client.get_workflow_handle(names.dispatcher_id(POOL))
        command = OperatorCommand(actor="cron", reason="nightly", lane="foreign")
        return await handle.execute_update(names.Update.PAUSE_LANE, command, result_type=CommandResult)

    assert world.run(order(world.client)).done
    assert ["foreign"] == [one["lane"] for one in audit(http, actor="cron")]
    http.post("/api/queue/resume", json={"lane": "foreign"})


def test_a_lane_nobody_was_in_yet_can_be_paused(http: httpx.Client):
    paused = http.post("/api/queue/pause", json={"lane": "fresh", "actor": "ann", "reason": "not yet"}).json()
    assert (True, True) == (paused["done"], "nobody is in lane fresh yet" in paused["detail"])
    task = submit(http, "fresh-1", lane="fresh").json()["id"]
    assert "lane fresh is paused by ann: not yet" == until(http, task, "queued")["why"]
    http.post("/api/queue/resume", json={"lane": "fresh"})
    until(http, task, "completed")


def test_a_paused_pool_pauses_lanes_that_come_later_too(http: httpx.Client):
    http.post("/api/queue/pause", json={"actor": "system:disk_full", "reason": "host h1"})
    task = submit(http, "later-1", lane="later").json()["id"]
    assert "paused by system:disk_full" in until(http, task, "queued")["why"]
    page = http.get("/api/queue").json()
    assert ("system:disk_full", "host h1") == (page["paused_by"], page["paused_why"])
    http.post("/api/queue/resume", json={"lane": "later", "actor": "ann"})
    until(http, task, "completed")
    http.post("/api/queue/resume", json={"actor": "system:disk_full"})
    assert [""] * len(lanes(http)) == [one["paused_by"] for one in lanes(http).values()]


def lanes(http: httpx.Client) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in http.get("/api/queue").json()["lanes"]}


def test_an_order_by_priority_is_effective_at_once_and_taken_back_as_well(http: httpx.Client):
    http.post("/api/queue/pause", json={"lane": "account"})
    ids = [submit(http, f"order-{n}", priority=9 - n).json()["id"] for n in range(3)]
    for one in ids:
        until(http, one, "queued")

    def line() -> list[str]:
        return [row["task_id"] for row in http.get("/api/queue").json()["queue_info"]]

    assert ids == line()
    http.post("/api/queue/order", json={"lane": "account", "order": "priority", "actor": "ann"})
    assert ids[::-1] == line()
    assert ("priority", "ann") == (lanes(http)["account"]["order"], lanes(http)["account"]["order_by"])
    http.post("/api/queue/order", json={"lane": "account", "order": "arrival"})
    assert (ids, "") == (line(), lanes(http)["account"]["order_by"])
    http.post("/api/queue/resume")
    for one in ids:
        until(http, one, "completed")


@pytest.mark.parametrize(
    ("body", "field"),
    [({"order": "priority"}, "lane"), ({"lane": "a"}, "order"), ({"lane": "a", "order": "random"}, "order")],
)
def test_an_order_that_makes_no_sense_is_refused_by_name(http: httpx.Client, body: dict[str, str], field: str):
    refused = http.post("/api/queue/order", json=body)
    assert (422, field) == (refused.status_code, refused.json()["errors"][0]["field"])


@pytest.mark.parametrize(
    ("fields", "priority"),
    [({}, 2), ({"origin": "schedule"}, 5), ({"origin": "maintenance"}, 8), ({"origin": "schedule", "priority": 3}, 3)],
)
def test_who_says_no_priority_gets_that_of_its_origin(http: httpx.Client, fields: dict[str, Any], priority: int):
    made = http.post("/api/tasks", params={"wait": "60s"}, json={"type": "tap_once", **fields})
    assert (priority, "completed") == (made.json()["task"]["priority"], made.json()["task"]["state"])


def test_a_request_is_a_task_under_its_older_name(http: httpx.Client):
    http.post("/api/queue/pause", json={"lane": "account"})
    first, second = (submit(http, f"request-{number}").json()["id"] for number in range(2))
    until(http, second, "queued")
    assert 200 == http.post(f"/api/requests/{second}/prioritize", json={"actor": "ann"}).status_code
    assert [second, first] == [row["task_id"] for row in http.get("/api/queue").json()["queue_info"]]
    cancelled = http.post(f"/api/requests/{first}/cancel", json={"actor": "ann", "reason": "old name"})
    assert (200, "cancelled") == (cancelled.status_code, until(http, first, "cancelled")["state"])
    assert 404 == http.post("/api/requests/nobody/cancel").status_code
    http.post("/api/queue/resume")
    until(http, second, "completed")
