"""Submitting, reading, changing and listing tasks over HTTP."""

import httpx


def test_a_submission_is_answered_with_its_id_and_runs_to_its_end(http: httpx.Client):
    made = http.post("/api/tasks", json={"type": "tap_once", "account": "sub-1"})
    assert 201 == made.status_code, made.text
    task_id = made.json()["id"]
    assert f"/api/tasks/{task_id}" == made.headers["location"]
    read = http.get(f"/api/tasks/{task_id}", params={"wait": "20s"})
    assert (200, "completed") == (read.status_code, read.json()["state"]), read.text
    assert [("completed", "hands")] == [(one["outcome"], one["worker"]) for one in read.json()["attempts"]]
