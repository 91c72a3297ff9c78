"""Submitting, reading and changing tasks over HTTP."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import WorkflowAlreadyStartedError

from droidherd.contracts import names
from droidherd.engine.task_options import NewTask
from tests.api.waiting import eventually
from tests.api.world import World

URN = "urn:droidherd:problem:"
LIMIT_S = 60.0


def submit(http: httpx.Client, account: str = "", **more: Any) -> httpx.Response:
    return http.post("/api/tasks", json={"type": "tap_once", "account": account, **more})


def until(http: httpx.Client, task_id: str, *states: str) -> dict[str, Any]:
    """The task, once it is in one of these states."""
    view: dict[str, Any] = {}
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        view = http.get(f"/api/tasks/{task_id}").json()
        if view.get("state") in states:
            return view
        time.sleep(0.05)
    raise AssertionError(f"{task_id} never became {states}: {view}")


def test_a_submission_is_answered_with_its_id_and_runs_to_its_end(http: httpx.Client):
    made = submit(http, "sub-1")
    assert 201 == made.status_code, made.text
    task_id = made.json()["id"]
    assert f"/api/tasks/{task_id}" == made.headers["location"]
    read = http.get(f"/api/tasks/{task_id}", params={"wait": "60s"})
    assert (200, "completed") == (read.status_code, read.json()["state"]), read.text
    assert [("completed", "hands")] == [(one["outcome"], one["worker"]) for one in read.json()["attempts"]]


def test_a_submission_may_wait_for_the_end(http: httpx.Client):
    made = http.post("/api/tasks", params={"wait": "60s"}, json={"type": "tap_once"})
    assert (201, "completed") == (made.status_code, made.json()["task"]["state"])


def test_a_wait_ends_when_its_time_is_over(world: World, http: httpx.Client):
    with world.holding("wait-1"):
        task_id = submit(http, "wait-1").json()["id"]
        until(http, task_id, "running")
        assert "running" == http.get(f"/api/tasks/{task_id}", params={"wait": "300ms"}).json()["state"]
    assert "completed" == http.get(f"/api/tasks/{task_id}", params={"wait": "60"}).json()["state"]


def test_a_busy_account_is_refused_with_the_task_that_holds_the_place(world: World, http: httpx.Client):
    with world.holding("busy-1"):
        holder = submit(http, "busy-1").json()["id"]
        until(http, holder, "running")
        refused = submit(http, "busy-1")
        problem = refused.json()
        assert (409, URN + "place-taken", holder) == (refused.status_code, problem["type"], problem["holder"])
        assert "application/problem+json" == refused.headers["content-type"]
        rejected = http.get(f"/api/tasks/{problem['task']}").json()
        assert ("rejected", "account_running") == (rejected["state"], rejected["error"]["kind"])
    until(http, holder, "completed")


def test_a_submitter_may_ask_to_queue_behind_a_busy_account(world: World, http: httpx.Client):
    with world.holding("line-1"):
        first = submit(http, "line-1").json()["id"]
        until(http, first, "running")
        second = submit(http, "line-1", on_busy="queue")
        assert 201 == second.status_code
        view = until(http, second.json()["id"], "queued")
        assert "line-1" in view["why"], view
    assert "completed" == http.get(f"/api/tasks/{view['task_id']}", params={"wait": "60s"}).json()["state"]


def test_a_task_is_paused_resumed_and_cancelled(world: World, http: httpx.Client):
    with world.holding("life-1"):
        task_id = submit(http, "life-1").json()["id"]
        until(http, task_id, "running")
        paused = http.post(f"/api/tasks/{task_id}/pause", json={"actor": "ann", "reason": "lunch"})
        assert (200, "pause") == (paused.status_code, paused.json()["intent"])
        assert "paused by ann: lunch" == until(http, task_id, "paused")["why"]
        assert 200 == http.post(f"/api/tasks/{task_id}/resume").status_code
        until(http, task_id, "running")
        assert 200 == http.post(f"/api/tasks/{task_id}/cancel", json={"actor": "bob"}).status_code
        ended = http.get(f"/api/tasks/{task_id}", params={"wait": "60s"}).json()
        assert "cancelled" == ended["state"]


@pytest.mark.parametrize("action", ["pause", "resume", "cancel"])
def test_what_is_not_possible_is_refused_with_the_state(http: httpx.Client, action: str):
    task_id = http.post("/api/tasks", params={"wait": "60s"}, json={"type": "tap_once"}).json()["id"]
    refused = http.post(f"/api/tasks/{task_id}/{action}")
    problem = refused.json()
    assert (409, URN + "illegal-transition", "completed") == (refused.status_code, problem["type"], problem["state"])


def test_a_running_task_cannot_be_resumed(world: World, http: httpx.Client):
    with world.holding("illegal-1"):
        task_id = submit(http, "illegal-1").json()["id"]
        until(http, task_id, "running")
        refused = http.post(f"/api/tasks/{task_id}/resume")
        assert (409, "running") == (refused.status_code, refused.json()["state"])
        assert "possible now: cancel, pause, rollback" in refused.json()["detail"]


@pytest.mark.parametrize("path", ["", "/events", "/log", "/artifacts", "/artifacts/a.png"])
def test_an_unknown_task_is_not_found(http: httpx.Client, path: str):
    assert 404 == http.get(f"/api/tasks/nobody{path}").status_code


@pytest.mark.parametrize("action", ["pause", "resume", "cancel"])
def test_an_unknown_task_cannot_be_changed(http: httpx.Client, action: str):
    assert (404, URN + "not-found") == _kind(http.post(f"/api/tasks/nobody/{action}"))


def test_a_workflow_that_is_no_task_is_not_found(http: httpx.Client):
    assert 404 == http.get("/api/tasks/dispatcher%2Fdefault").status_code


def test_a_failed_task_says_why(world: World, http: httpx.Client):
    world.hands.broken.add("broken-1")
    task_id = submit(http, "broken-1").json()["id"]
    ended = http.get(f"/api/tasks/{task_id}", params={"wait": "60s"}).json()
    assert ("failed", "FlowError") == (ended["state"], ended["error"]["kind"])


def test_a_terminated_task_shows_as_failed(world: World, http: httpx.Client):
    with world.holding("term-1"):
        task_id = submit(http, "term-1").json()["id"]
        until(http, task_id, "running")
        world.run(world.client.get_workflow_handle(task_id).terminate(reason="gone"))
    ended = http.get(f"/api/tasks/{task_id}", params={"wait": "60s"}).json()
    assert ("failed", "terminated") == (ended["state"], ended["error"]["kind"])
    assert ended["error"]["message"].endswith("was terminated in Temporal: gone")
    *_, before, last = http.get(f"/api/tasks/{task_id}/events").json()["events"]
    assert ("running", "temporal", "gone") == (before["after"], last["actor"], last["reason"])
    assert ["terminated"] == [one["outcome"] for one in ended["attempts"]]
    listed = eventually(lambda: _listed(http, account="term-1", state="failed"))
    assert [(task_id, "failed")] == listed
    assert [] == _listed(http, account="term-1", state="running")


# --- the same request twice -----------------------------------------------------------------------------------


def test_a_repeat_under_the_same_key_gets_the_same_answer(world: World, http: httpx.Client):
    with world.holding("key-1"):
        headers = {"idempotency-key": "order 66"}
        body = {"type": "tap_once", "account": "key-1"}
        first = http.post("/api/tasks", json=body, headers=headers)
        again = http.post("/api/tasks", json=body, headers=headers)
        assert (201, 201) == (first.status_code, again.status_code)
        assert first.json() == again.json()


def test_a_repeat_after_the_end_gets_the_same_answer(http: httpx.Client):
    headers = {"idempotency-key": "done and over"}
    first = http.post("/api/tasks", json={"type": "tap_once"}, headers=headers)
    http.get(f"/api/tasks/{first.json()['id']}", params={"wait": "60s"})
    again = http.post("/api/tasks", json={"type": "tap_once"}, headers=headers)
    assert (201, first.json()) == (again.status_code, again.json())


def test_a_late_repeat_gets_the_answer_of_the_request_that_came_in_time(http: httpx.Client):
    headers = {"idempotency-key": "late but known"}
    for seconds in (2, 10, 30):
        soon = datetime.now(UTC) + timedelta(seconds=seconds)
        body = {"type": "tap_once", "expires_at": soon.isoformat()}
        first = http.post("/api/tasks", json=body, headers=headers)
        if first.is_success:
            break  # otherwise the machine was too busy to take it in time
    while datetime.now(UTC) <= soon:
        time.sleep(0.05)
    again = http.post("/api/tasks", json=body, headers=headers)
    assert (201, first.json()) == (again.status_code, again.json())


def test_a_request_with_a_new_key_that_comes_too_late_is_refused(http: httpx.Client):
    body = {"type": "tap_once", "expires_at": "2020-01-01T00:00:00Z"}
    answer = http.post("/api/tasks", json=body, headers={"idempotency-key": "late and unknown"})
    assert (422, URN + "refused") == (answer.status_code, answer.json()["type"])


def test_a_repeat_of_a_refusal_is_refused_in_the_same_words(world: World, http: httpx.Client):
    with world.holding("key-2"):
        holder = submit(http, "key-2").json()["id"]
        until(http, holder, "running")
        body = {"type": "tap_once", "account": "key-2"}
        first = http.post("/api/tasks", json=body, headers={"idempotency-key": "refused"})
    until(http, holder, "completed")
    again = http.post("/api/tasks", json=body, headers={"idempotency-key": "refused"})
    assert (409, first.json()) == (again.status_code, again.json())


def test_another_body_under_the_same_key_is_a_mistake(http: httpx.Client):
    headers = {"idempotency-key": "twice"}
    http.post("/api/tasks", json={"type": "tap_once"}, headers=headers)
    other = http.post("/api/tasks", json={"type": "tap_once", "params": {"down": 3}}, headers=headers)
    assert (422, URN + "key-reused") == _kind(other)


def test_an_id_of_ones_own_is_taken_once(http: httpx.Client):
    assert 201 == submit(http, id="mine-1").status_code
    taken = submit(http, id="mine-1")
    assert (409, URN + "id-taken") == _kind(taken)
    assert "mine-1" == taken.json()["task"]


def test_an_unreadable_run_does_not_free_the_id_of_work_that_was_done(world: World, http: httpx.Client):
    """Whoever reaches Temporal starts a second run under the id of a task that completed."""
    headers = {"idempotency-key": "order-7"}
    body = {"id": "order-7", "type": "tap_once"}
    assert 201 == http.post("/api/tasks", json=body, headers=headers).status_code
    until(http, "order-7", "completed")
    world.run(world.client.get_workflow_handle("order-7").result())  # a task says so just before its run closes
    start = world.client.start_workflow(names.Workflow.TASK, 17, id="order-7", task_queue=names.QUEUE)
    with pytest.raises(WorkflowFailureError):
        world.run(world.run(start).result())
    again = http.post("/api/tasks", json=body, headers=headers)
    assert (409, URN + "id-taken") == (again.status_code, again.json()["type"])


def test_a_submission_that_was_refused_does_not_use_up_its_id(world: World, http: httpx.Client):
    mine = {"id": "refused-1", "account": "refused"}
    with world.holding("refused"):
        holder = submit(http, "refused").json()["id"]
        until(http, holder, "running")
        for _ in range(2):
            assert (409, URN + "place-taken") == _kind(submit(http, **mine))
    until(http, holder, "completed")
    assert 201 == (answer := submit(http, **mine)).status_code, answer.text
    until(http, "refused-1", "completed")
    assert (409, URN + "id-taken") == _kind(submit(http, **mine))
    found = {"account": "refused", "count": "true"}
    eventually(lambda: 2 == http.get("/api/tasks", params=found).json()["count"])
    assert 0 == http.get("/api/tasks", params={**found, "state": "rejected"}).json()["count"]


def test_a_submission_under_a_freed_id_knows_its_own_start_again(
    world: World, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
):
    """The answer to the start is lost, and what repeats the start meets the run that it began."""
    tasks = world.app.state.droidherd.tasks
    start = tasks._submit

    async def answered_late(new: NewTask, options: dict[str, Any]) -> None:
        await start(new, options)
        raise WorkflowAlreadyStartedError(new.task_id, names.Workflow.TASK)

    mine = {"id": "freed-1", "account": "freed"}
    with world.holding("freed"):
        until(http, submit(http, "freed").json()["id"], "running")
        assert (409, URN + "place-taken") == _kind(submit(http, **mine))
    eventually(lambda: not http.get("/api/accounts/freed").json()["is_running"])
    monkeypatch.setattr(tasks, "_submit", answered_late)
    made = submit(http, **mine)
    assert (201, "freed-1") == (made.status_code, made.json().get("id")), made.text
    until(http, "freed-1", "completed")
    assert (409, URN + "id-taken") == _kind(submit(http, **mine)), "somebody else's is still refused"


@pytest.mark.parametrize("bad", ["..", "a/b", "a b", "", "-x", "x" * 65, "con", "a\nb", "naïve", "a."])
def test_an_id_that_is_no_file_name_is_refused(http: httpx.Client, bad: str):
    refused = submit(http, id=bad)
    assert (422, ["id"]) == (refused.status_code, _fields(refused))


# --- time -----------------------------------------------------------------------------------------------------


def test_a_task_for_later_waits_and_says_until_when(http: httpx.Client):
    moment = datetime.now(UTC) + timedelta(hours=1)
    made = submit(http, "later-1", not_before=moment.isoformat())
    assert (201, "pending") == (made.status_code, made.json()["state"])
    view = http.get(f"/api/tasks/{made.json()['id']}").json()
    assert view["why"].startswith(f"not before {moment:%Y-%m-%d %H:%M}")
    assert 200 == http.post(f"/api/tasks/{made.json()['id']}/cancel").status_code


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("expires_at", "2020-01-01T00:00:00Z"),
        ("expires_at", "2099-01-01T00:00:00"),
        ("not_before", "9999-12-31T23:59:59Z"),
        ("not_before", "tomorrow"),
        ("not_before", 1e300),
    ],
)
def test_an_impossible_time_is_refused(http: httpx.Client, field: str, value: Any):
    refused = submit(http, **{field: value})
    assert (422, [field]) == (refused.status_code, _fields(refused))


def _listed(http: httpx.Client, **params: str) -> list[tuple[str, str]]:
    return [(one["task_id"], one["state"]) for one in http.get("/api/tasks", params=params).json()["tasks"]]


def _kind(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["type"]


def _fields(response: httpx.Response) -> list[str]:
    return [one["field"] for one in response.json()["errors"]]


def test_of_two_who_cancel_both_hear_that_it_is_cancelled(world: World, http: httpx.Client):
    with world.holding("twice"):
        task_id = submit(http, "twice").json()["id"]
        until(http, task_id, "running")
        assert http.post(f"/api/tasks/{task_id}/cancel", json={"actor": "ann"}).is_success
        until(http, task_id, "cancelled")
    assert "cancelled" == http.get(f"/api/tasks/{task_id}", params={"wait": "60s"}).json()["state"]
    again = http.post(f"/api/tasks/{task_id}/cancel", json={"actor": "ben"})
    assert (200, "cancelled") == (again.status_code, again.json()["state"])
    events = http.get(f"/api/tasks/{task_id}/events").json()["events"]
    assert ["ann"] == [one["actor"] for one in events if one["event"] == "cancelled"]
