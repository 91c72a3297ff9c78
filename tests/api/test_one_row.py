"""Lists, counts and bulk actions speak of tasks, and not of their runs."""

from typing import Any

import httpx

from tests.api.test_again import failed
from tests.api.test_tasks import submit, until
from tests.api.waiting import eventually
from tests.api.world import World

OVER = ("completed", "rollback_completed")


def listed(http: httpx.Client, **params: Any) -> tuple[list[str], int]:
    """The ids of all pages, and the count."""
    ids: list[str] = []
    cursor, count = "", 0
    while True:
        page = http.get("/api/tasks", params={**params, "cursor": cursor, "count": True}).json()
        ids += [one["id"] for one in page["tasks"]]
        cursor, count = page["cursor"], page["count"]
        if not cursor:
            return ids, count


def retried(world: World, http: httpx.Client, account: str, state: str = "completed", times: int = 1) -> str:
    """A task that failed, was tried again so often, and ended like this."""
    task_id = failed(world, http, account)
    for number in range(times):
        last = number == times - 1
        if state == "failed" or not last:
            with world.breaking(account):
                http.post(f"/api/tasks/{task_id}/retry").raise_for_status()
                until(http, task_id, "failed")
        else:
            http.post(f"/api/tasks/{task_id}/retry").raise_for_status()
            until(http, task_id, state)
    return task_id


def test_a_task_that_was_retried_and_completed_is_one_row(world: World, http: httpx.Client):
    task_id = retried(world, http, "one-row-1", times=2)
    mine = {"account": "one-row-1"}
    eventually(lambda: listed(http, **mine, state="completed") == ([task_id], 1))
    assert ([task_id], 1) == listed(http, **mine)
    assert ([], 0) == listed(http, **mine, state="failed")
    assert ([task_id], 1) == listed(http, **mine, state=["failed", "completed"])
    assert "completed" == http.get("/api/tasks", params=mine).json()["tasks"][0]["state"]
    assert "completed" == http.get("/api/accounts/one-row-1").json()["last_run"]["state"]


def test_a_task_that_failed_again_is_one_row(world: World, http: httpx.Client):
    task_id = retried(world, http, "one-row-2", "failed", times=2)
    assert eventually(lambda: listed(http, account="one-row-2", state="failed") == ([task_id], 1))


def test_a_task_that_runs_again_is_not_failed(world: World, http: httpx.Client):
    task_id = failed(world, http, "one-row-3")
    with world.holding("one-row-3"):
        http.post(f"/api/tasks/{task_id}/retry").raise_for_status()
        until(http, task_id, "running")
        eventually(lambda: listed(http, account="one-row-3", state="running") == ([task_id], 1))
        assert ([], 0) == listed(http, account="one-row-3", state="failed")
        assert ([task_id], 1) == listed(http, account="one-row-3")


def test_a_bulk_retry_leaves_out_what_was_retried_by_hand(world: World, http: httpx.Client):
    done = retried(world, http, "one-row-4")
    still = failed(world, http, "one-row-5")

    def chosen(account: str) -> list[str]:
        return http.post("/api/bulk/retry", params={"account": account, "dry_run": True}).json()["tasks"]

    eventually(lambda: listed(http, account="one-row-4", state="completed") == ([done], 1))
    eventually(lambda: listed(http, account="one-row-5", state="failed") == ([still], 1))
    assert ([], [still]) == (chosen("one-row-4"), chosen("one-row-5"))
    assert "completed" == http.get(f"/api/tasks/{done}").json()["state"]


def test_pages_of_any_size_have_each_task_once(world: World, http: httpx.Client):
    labels = {"one-row": "pages"}
    mine = [submit(http, f"one-row-p{n}", labels=labels).json()["id"] for n in range(3)]
    for n in range(3, 6):
        with world.breaking(f"one-row-p{n}"):
            mine.append(submit(http, f"one-row-p{n}", labels=labels).json()["id"])
            until(http, mine[-1], "failed")
        http.post(f"/api/tasks/{mine[-1]}/retry").raise_for_status()
    for task_id in mine:
        until(http, task_id, "completed")
    label = {"label": "one-row=pages"}
    eventually(lambda: listed(http, **label, state="completed")[1] == len(mine))
    for limit in (1, 2, 4, 50):
        found, count = listed(http, **label, limit=limit)
        assert (sorted(mine), len(mine)) == (sorted(found), count), limit


def test_no_label_of_a_user_passes_for_a_rerun(http: httpx.Client):
    task_id = submit(http, "one-row-6", labels={"rerun": "rerun"}).json()["id"]
    until(http, task_id, "completed")
    assert eventually(lambda: listed(http, account="one-row-6", state="completed") == ([task_id], 1))
