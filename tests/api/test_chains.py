"""Chains, over HTTP."""

import httpx
import pytest

from tests.api.test_tasks import submit
from tests.api.waiting import eventually
from tests.api.world import World


def test_a_chain_is_submitted_at_once_and_listed_by_its_first(http: httpx.Client):
    task_id = submit(http, "chain-1", then=[{"type": "tap_once", "critical": True}]).json()["id"]
    first = http.get(f"/api/tasks/{task_id}", params={"wait": "60s"}).json()
    second = http.get(f"/api/tasks/{task_id}.2", params={"wait": "60s"}).json()
    assert ("completed", "completed") == (first["state"], second["state"])
    assert f"{task_id}.2" == first["following"]
    assert {"head": task_id, "place": 2, "previous": task_id} == second["chain"]
    eventually(lambda: {task_id, f"{task_id}.2"} == chained(http, task_id))


def test_what_follows_acts_for_the_account_of_the_first(http: httpx.Client):
    task_id = submit(http, "chain-3", then=[{"type": "daily_reward"}]).json()["id"]
    http.get(f"/api/tasks/{task_id}", params={"wait": "60s"})
    second = http.get(f"/api/tasks/{task_id}.2", params={"wait": "60s"}).json()
    assert ("chain-3", "chain-3", "completed") == (second["account"], second["params"]["account"], second["state"])


def chained(http: httpx.Client, head: str) -> set[str]:
    listed = http.get("/api/tasks", params={"label": f"chain={head}"}).json()["tasks"]
    return {one["task_id"] for one in listed}


def test_a_critical_failure_says_why_nothing_follows(world: World, http: httpx.Client):
    with world.breaking("chain-2"):
        task_id = submit(http, "chain-2", critical=True, then=[{"type": "tap_once"}]).json()["id"]
        ended = http.get(f"/api/tasks/{task_id}", params={"wait": "60s"}).json()
    assert ("failed", "it is critical, and failed") == (ended["state"], ended["chain_ends"])
    assert 404 == http.get(f"/api/tasks/{task_id}.2").status_code


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"then": [{"type": "tap_once"}, {"type": "nonsense"}]}, "then.1.type"),
        ({"then": [{"type": "tap_once", "params": {"nonsense": 1}}]}, "then.0.params.nonsense"),
        ({"then": [{}]}, "then.0.type"),
        ({"account": "bob", "then": [{"type": "associate", "params": {"account": "ann"}}]}, "then.0.params.account"),
        ({"then": [{"type": "associate"}]}, "account"),
        ({"then": [{"type": "tap_once"}] * 17}, "then"),
        ({"then": [{"type": "tap_once"}], "id": "x" * 63}, "id"),
        ({"chain": {"head": "a", "place": 2, "previous": "a"}}, "chain"),
    ],
)
def test_what_follows_is_judged_at_once(http: httpx.Client, fields: dict[str, object], field: str):
    refused = http.post("/api/tasks", json={"type": "tap_once", **fields})
    assert 422 == refused.status_code, refused.text
    assert [field] == [one["field"] for one in refused.json()["errors"]]
