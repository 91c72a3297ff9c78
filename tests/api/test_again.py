"""Tasks that ended and go on, over HTTP: retry, rollback; and a cancel that waits for nothing."""

from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.api.test_tasks import URN, submit, until
from tests.api.world import World


def failed(world: World, http: httpx.Client, account: str) -> str:
    with world.breaking(account):
        task_id = submit(http, account).json()["id"]
        until(http, task_id, "failed")
    return task_id


def test_a_failed_task_is_tried_again_and_both_runs_are_shown(world: World, http: httpx.Client):
    task_id = failed(world, http, "again-1")
    again = http.post(f"/api/tasks/{task_id}/retry", json={"actor": "ann", "reason": "fixed"})
    assert 200 == again.status_code, again.text
    read = http.get(f"/api/tasks/{task_id}", params={"wait": "60s"}).json()
    assert ("completed", ["failed", "completed"]) == (read["state"], [one["outcome"] for one in read["attempts"]])
    assert 2 == len({one["run"] for one in read["attempts"]})
    events = http.get(f"/api/tasks/{task_id}/events").json()["events"]
    assert ("ann", "fixed") == next((e["actor"], e["reason"]) for e in events if e["event"] == "manual_retry")
    assert "failed" in [one["event"] for one in events]


def test_what_the_table_does_not_allow_is_refused_with_the_present_state(world: World, http: httpx.Client):
    task_id = submit(http, "again-3").json()["id"]
    until(http, task_id, "completed")
    refused = http.post(f"/api/tasks/{task_id}/retry")
    assert (409, "completed") == (refused.status_code, refused.json()["state"])
    assert "retry is not possible while completed; possible now: rollback" == refused.json()["detail"]
    with world.holding("again-4"):
        running = submit(http, "again-4").json()["id"]
        until(http, running, "running")
        assert 409 == http.post(f"/api/tasks/{running}/retry").status_code
    assert 404 == http.post("/api/tasks/nobody/retry").status_code
    assert 404 == http.post("/api/tasks/nobody/rollback").status_code


def test_of_two_who_try_again_at_once_one_does_and_the_other_hears_so(world: World, http: httpx.Client):
    task_id = failed(world, http, "again-5")
    with world.holding("again-5"), ThreadPoolExecutor(2) as threads:
        answers = [one.status_code for one in threads.map(http.post, [f"/api/tasks/{task_id}/retry"] * 2)]
        assert [200, 409] == sorted(answers)
    events = http.get(f"/api/tasks/{task_id}", params={"wait": "60s"}) and http.get(f"/api/tasks/{task_id}/events")
    assert 1 == [one["event"] for one in events.json()["events"]].count("manual_retry")


def test_a_forced_cancel_does_not_wait_for_what_runs(world: World, http: httpx.Client):
    with world.holding("again-6"):
        task_id = submit(http, "again-6").json()["id"]
        until(http, task_id, "running")
        assert 200 == http.post(f"/api/tasks/{task_id}/cancel", json={"force": True, "actor": "ann"}).status_code
        until(http, task_id, "cancelled")
    following = submit(http, "again-6", on_busy="queue").json()["id"]
    assert "completed" == until(http, following, "completed")["state"]


def test_a_completed_task_that_changed_nothing_rolls_back_to_nothing(http: httpx.Client):
    task_id = submit(http, "again-7").json()["id"]
    until(http, task_id, "completed")
    assert 200 == http.post(f"/api/tasks/{task_id}/rollback", json={"actor": "ann"}).status_code
    assert "rollback_completed" == until(http, task_id, "rollback_completed", "rollback_failed")["state"]
    refused = http.post(f"/api/tasks/{task_id}/rollback")
    assert (409, URN + "illegal-transition") == (refused.status_code, refused.json()["type"])


def test_a_task_that_runs_is_cancelled_and_rolled_back(world: World, http: httpx.Client):
    with world.holding("again-8"):
        task_id = submit(http, "again-8").json()["id"]
        until(http, task_id, "running")
        assert 200 == http.post(f"/api/tasks/{task_id}/rollback", json={"actor": "ann"}).status_code
        assert "rollback_completed" == until(http, task_id, "rollback_completed")["state"]
    events = http.get(f"/api/tasks/{task_id}/events").json()["events"]
    assert ["cancelled", "rollback_asked"] == [one["event"] for one in events if one["actor"] == "ann"]
