"""One wish for many tasks."""

from collections.abc import Iterator

import httpx
import pytest

from tests.api.test_tasks import submit, until
from tests.api.waiting import eventually


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


def test_who_cannot_is_named_with_the_reason(http: httpx.Client):
    waits = submit(http, "bulk-refused", labels={"bulk": "refused"}).json()["id"]
    until(http, waits, "queued")
    eventually(lambda: _listed(http, "bulk=refused", 1))
    answer = http.post("/api/bulk/resume", params={"label": "bulk=refused"}).json()
    assert ([], waits) == (answer["tasks"], answer["refused"][0]["task_id"])
    assert "resume is not possible while queued" in answer["refused"][0]["why"]
    http.post("/api/queue/resume")
    until(http, waits, "completed")


def test_everything_is_never_meant_by_nothing(http: httpx.Client):
    refused = http.post("/api/bulk/cancel")
    assert (422, "state") == (refused.status_code, refused.json()["errors"][0]["field"])


@pytest.mark.parametrize("action", ["delete", "CANCEL", "retry"])
def test_an_unknown_wish_is_refused(http: httpx.Client, action: str):
    assert 422 == http.post(f"/api/bulk/{action}", params={"type": "tap_once"}).status_code
