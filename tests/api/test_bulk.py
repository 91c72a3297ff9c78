"""One action for many tasks."""

from collections.abc import Iterator

import httpx
import pytest

from tests.api.test_tasks import submit, until
from tests.api.waiting import eventually
from tests.api.world import World


@pytest.fixture(autouse=True)
def paused(http: httpx.Client) -> Iterator[None]:
    """A lane exists once somebody was in it."""
    until(http, submit(http, "bulk-first").json()["id"], "completed")
    assert 200 == http.post("/api/queue/pause", json={"lane": "account"}).status_code
    yield
    http.post("/api/queue/resume")


def _listed(http: httpx.Client, label: str, count: int) -> bool:
    return len(http.get("/api/tasks", params={"label": label}).json()["tasks"]) == count


def test_all_that_fit_are_cancelled_and_nobody_else(http: httpx.Client):
    mine = [submit(http, f"bulk-{n}", labels={"bulk": "mine"}).json()["id"] for n in range(3)]
    other = submit(http, "bulk-other", labels={"bulk": "other"}).json()["id"]
    eventually(lambda: _listed(http, "bulk=mine", 3))
    params = {"label": "bulk=mine"}
    dry = http.post("/api/bulk/cancel", params={**params, "dry_run": True}).json()
    assert (True, sorted(mine), []) == (dry["dry_run"], sorted(dry["tasks"]), dry["refused"])
    assert "queued" == until(http, mine[0], "queued")["state"]
    done = http.post("/api/bulk/cancel", params=params, json={"actor": "ann", "reason": "over"}).json()
    assert (sorted(mine), False) == (sorted(done["tasks"]), done["more"])
    for task_id in mine:
        until(http, task_id, "cancelled")
    events = http.get(f"/api/tasks/{mine[0]}/events").json()["events"]
    assert ("cancelled", "ann", "over") == tuple(events[-1][key] for key in ("event", "actor", "reason"))
    http.post("/api/queue/resume")
    until(http, other, "completed")


def test_many_are_done_in_portions_and_none_twice(http: httpx.Client):
    mine = [submit(http, f"bulk-part-{n}", labels={"bulk": "part"}).json()["id"] for n in range(5)]
    eventually(lambda: _listed(http, "bulk=part", 5))
    paused: list[str] = []
    portion = {"cursor": "", "more": True}
    sizes: list[int] = []
    while portion["more"]:
        params = {"label": "bulk=part", "limit": 2, "cursor": portion["cursor"]}
        portion = http.post("/api/bulk/pause", params=params).json()
        sizes.append(len(portion["tasks"]))
        paused += portion["tasks"]
    assert ([2, 2, 1], sorted(mine)) == (sizes, sorted(paused))
    assert sorted(mine) == sorted(http.post("/api/bulk/cancel", params={"label": "bulk=part"}).json()["tasks"])


def test_who_cannot_is_named_with_the_reason(http: httpx.Client):
    waits = submit(http, "bulk-refused", labels={"bulk": "refused"}).json()["id"]
    until(http, waits, "queued")
    eventually(lambda: _listed(http, "bulk=refused", 1))
    answer = http.post("/api/bulk/resume", params={"label": "bulk=refused"}).json()
    assert ([], waits) == (answer["tasks"], answer["refused"][0]["task_id"])
    assert "resume is not possible while queued" in answer["refused"][0]["why"]
    http.post("/api/queue/resume")
    until(http, waits, "completed")


def test_all_that_failed_are_tried_again_by_filter(world: World, http: httpx.Client):
    http.post("/api/queue/resume")
    labels = {"bulk": "again"}
    with world.breaking("bulk-again"):
        failed = submit(http, "bulk-again", labels=labels).json()["id"]
        until(http, failed, "failed")
    fine = submit(http, "bulk-fine", labels=labels).json()["id"]
    until(http, fine, "completed")
    params = {"label": "bulk=again"}
    eventually(lambda: [failed] == http.post("/api/bulk/retry", params={**params, "dry_run": True}).json()["tasks"])
    assert [failed] == http.post("/api/bulk/retry", params=params, json={"actor": "ann"}).json()["tasks"]
    assert 2 == len(until(http, failed, "completed")["attempts"])


def test_tried_again_alone_or_by_filter_a_task_acts_for_its_account(world: World, http: httpx.Client):
    http.post("/api/queue/resume")
    body = {"type": "daily_reward", "account": "bulk-acts", "labels": {"bulk": "acts"}}
    with world.breaking("bulk-acts"):
        task_id = http.post("/api/tasks", json=body).json()["id"]
        until(http, task_id, "failed")
        assert http.post(f"/api/tasks/{task_id}/retry").is_success
        until(http, task_id, "failed")
    params = {"label": "bulk=acts"}
    eventually(lambda: [task_id] == http.post("/api/bulk/retry", params={**params, "dry_run": True}).json()["tasks"])
    assert [task_id] == http.post("/api/bulk/retry", params=params).json()["tasks"]
    done = until(http, task_id, "completed")
    runs = {one["run"] for one in done["attempts"]}
    assert ("bulk-acts", "bulk-acts", 3) == (done["account"], done["params"]["account"], len(runs))


def test_all_that_wait_are_put_in_front_by_filter(http: httpx.Client):
    labels = {"bulk": "front"}
    first, second = (submit(http, f"bulk-front-{n}", labels=labels if n else {}).json()["id"] for n in range(2))
    assert 1 == until(http, first, "queued")["position"]
    eventually(lambda: _listed(http, "bulk=front", 1))
    assert [second] == http.post("/api/bulk/prioritize", params={"label": "bulk=front"}).json()["tasks"]
    eventually(lambda: 1 == http.get(f"/api/tasks/{second}").json()["position"])
    http.post("/api/queue/resume")
    for task_id in (first, second):
        until(http, task_id, "completed")


def test_those_put_in_front_keep_their_order(http: httpx.Client):
    labels = {"bulk": "line"}
    before = submit(http, "bulk-line-0").json()["id"]
    line = [submit(http, f"bulk-line-{n}", labels=labels).json()["id"] for n in range(1, 13)]
    eventually(lambda: _listed(http, "bulk=line", len(line)))
    http.post("/api/bulk/prioritize", params={"label": "bulk=line"})
    waiting = [one["task_id"] for one in http.get("/api/queue", params={"lane": "account"}).json()["queue_info"]]
    assert [*line, before] == [one for one in waiting if one in {*line, before}]
    http.post("/api/bulk/cancel", params={"lane": "account"})


def test_everything_is_never_meant_by_nothing(http: httpx.Client):
    refused = http.post("/api/bulk/cancel")
    assert (422, "state") == (refused.status_code, refused.json()["errors"][0]["field"])


@pytest.mark.parametrize("action", ["delete", "CANCEL", "rollback"])
def test_an_unknown_action_is_refused(http: httpx.Client, action: str):
    assert 422 == http.post(f"/api/bulk/{action}", params={"type": "tap_once"}).status_code


@pytest.mark.parametrize("path", ["/api/bulk/cancel?type=tap_once&dryrun=1", "/api/bulk/cancel?type=tap_once&acount=x"])
def test_a_misspelt_question_does_nothing(http: httpx.Client, path: str):
    refused = http.post(path)
    assert 422 == refused.status_code
    assert path.rpartition("&")[2].partition("=")[0] == refused.json()["errors"][0]["field"]
    assert 422 == http.get("/api/tasks", params={"stat": "failed"}).status_code
