"""Answers agree with themselves: ids, states, what may be done, and where to go."""

from typing import Any

import httpx
import pytest

from tests.api.test_tasks import submit, until
from tests.api.waiting import eventually
from tests.api.world import World

BROWSER = {"accept": "text/html,application/xhtml+xml"}


def test_a_submission_that_waited_has_one_state_inside_and_outside(world: World, http: httpx.Client):
    done = http.post("/api/tasks", params={"wait": "60s"}, json={"type": "tap_once", "account": "truth-1"}).json()
    assert ("completed", "completed") == (done["state"], done["task"]["state"])
    assert (0, "") == (done["position"], done["why"])
    with world.holding("truth-2"):
        params = {"wait": "500ms"}
        open_yet = http.post("/api/tasks", params=params, json={"type": "tap_once", "account": "truth-2"}).json()
    assert open_yet["task"]["state"] == open_yet["state"]


def test_everything_that_is_shown_has_an_id(world: World, http: httpx.Client):
    with world.holding("truth-3"):
        task_id = submit(http, "truth-3").json()["id"]
        until(http, task_id, "running")
        behind = submit(http, "truth-3", on_busy="queue").json()["id"]
        for path in ("", "/events", "/artifacts"):
            assert task_id == http.get(f"/api/tasks/{task_id}{path}").json()["id"]
        eventually(lambda: http.get("/api/tasks", params={"account": "truth-3"}).json()["tasks"])
        queue = http.get("/api/queue").json()
        assert task_id in [one["id"] for one in queue["running_info"]]
        account = eventually(lambda: (one := http.get("/api/accounts/truth-3").json())["is_queued"] and one)
        assert ("truth-3", [behind], ["tap_once"]) == (account["id"], account["queued_tasks"], account["queued_types"])
        emulators = http.get("/api/emulators").json()["emulators"]
        assert [one["emulator_id"] for one in emulators] == [one["id"] for one in emulators]
        assert "e1" == http.get("/api/emulators/e1").json()["id"]
    until(http, behind, "completed")


def test_a_task_between_two_attempts_says_when_the_next_begins(world: World, http: httpx.Client):
    policy = {"retries": 1, "backoff": "fixed", "backoff_s": 600, "retry_on": "any"}
    with world.having(world.hands.stumbling, "truth-4"):
        task_id = submit(http, "truth-4", policy=policy).json()["id"]
        waits = until(http, task_id, "retry_pending")
    assert waits["retry_at"] > waits["updated_at"]
    asked = http.post(f"/api/tasks/{task_id}/cancel").json()
    assert "cancel" in (asked["intent"], asked["state"].removesuffix("led"))
    assert until(http, task_id, "cancelled")["retry_at"] is None


def test_a_pause_that_has_not_taken_effect_is_shown_in_the_task_and_in_lists(world: World, http: httpx.Client):
    with world.holding("truth-5"):
        task_id = submit(http, "truth-5").json()["id"]
        until(http, task_id, "running")
        # The stand-in for a stage stops at once; what is held back is its last word.
        with world.having(world.hands.deaf, "truth-5"):
            assert "pause" == http.post(f"/api/tasks/{task_id}/pause").json()["intent"]
            assert "pause" == http.get(f"/api/tasks/{task_id}").json()["intent"]
            listed = {"account": "truth-5"}
            assert eventually(lambda: http.get("/api/tasks", params=listed).json()["tasks"][0]["intent"] == "pause")
    http.post(f"/api/tasks/{task_id}/cancel", json={"force": True})


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/api/emulators/e1/frame", "GET"),
        ("/api/tasks", "GET, POST"),
        ("/api/subscriptions/x", "DELETE, GET, PATCH, PUT"),
        ("/healthz", "GET"),
    ],
)
def test_a_method_that_does_not_fit_is_answered_with_those_that_do(http: httpx.Client, path: str, allowed: str):
    answer = http.request("OPTIONS", path)
    assert (405, allowed) == (answer.status_code, answer.headers["allow"])


@pytest.mark.parametrize("task_id", ["_live", "_LIVE"])
def test_an_id_that_droidherd_keeps_for_itself_is_no_task(world: World, http: httpx.Client, task_id: str):
    refused = submit(http, id=task_id)
    assert (422, "id") == (refused.status_code, refused.json()["errors"][0]["field"])
    world.store.put("_live", "e1.jpg", b"a frame")
    assert 404 == http.get(f"/api/tasks/{task_id}/artifacts").status_code
    assert 404 == http.get(f"/api/tasks/{task_id}/artifacts/e1.jpg").status_code


@pytest.mark.parametrize("name", ["state", "type", "label"])
def test_a_filter_has_a_bounded_number_of_values(http: httpx.Client, name: str):
    value = {"state": "failed", "type": "tap_once", "label": "a=b"}[name]
    assert 200 == http.get("/api/tasks", params={name: [value] * 20}).status_code
    refused = http.get("/api/tasks", params={name: [value] * 21})
    assert (422, name) == (refused.status_code, refused.json()["errors"][0]["field"])


def test_streams_and_waits_are_bounded_and_one_more_submits_nothing(world: World, http: httpx.Client):
    with world.holding("truth-6"):
        task_id = submit(http, "truth-6").json()["id"]
        until(http, task_id, "running")
        with world.waits_at_most(1):
            stream = {"accept": "text/event-stream"}
            with http.stream("GET", f"/api/tasks/{task_id}/events", headers=stream) as first:
                lines = first.iter_lines()
                next(lines)
                assert 429 == http.get(f"/api/tasks/{task_id}/events", headers=stream).status_code
                assert 429 == http.get(f"/api/tasks/{task_id}", params={"wait": "1s"}).status_code
                body: dict[str, Any] = {"type": "tap_once", "id": "truth-never"}
                assert 429 == http.post("/api/tasks", params={"wait": "1s"}, json=body).status_code
                assert 200 == http.get(f"/api/tasks/{task_id}").status_code
            read = {"wait": "300ms"}
            eventually(lambda: http.get(f"/api/tasks/{task_id}", params=read).status_code == 200)
        assert 404 == http.get("/api/tasks/truth-never").status_code


def test_the_log_as_text_shows_escapes_and_obeys_none(world: World, http: httpx.Client):
    task_id = submit(http).json()["id"]
    until(http, task_id, "completed")
    line = b'{"event": "seen \\u001b[2J\\u009b31m", "text": "a\\u0007b\\u202e"}\n'
    world.store.put(task_id, "log-9-0.jsonl", line + b"no json \x1b[0m\n")
    text = http.get(f"/api/tasks/{task_id}/log", headers={"accept": "text/plain"}).text
    assert r"seen \x1b[2J\x9b31m a\x07b\u202e" in text
    assert r"no json \x1b[0m" in text
    assert all(char.isprintable() or char == "\n" for char in text)


def test_the_first_page_says_what_this_is_and_leads_to_what_is_there(http: httpx.Client):
    links = http.get("/").json()["links"]
    assert {200} == {http.get(path).status_code for path in links.values()}
    page = http.get("/", headers=BROWSER)
    assert page.headers["content-type"].startswith("text/html")
    assert 'href="/docs"' in page.text


def test_the_reference_loads_nothing_from_elsewhere(http: httpx.Client):
    page = http.get("/docs", headers=BROWSER)
    assert 200 == page.status_code
    assert "http" not in page.text.replace("http-equiv", "")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for name, kind in (("swagger-ui.css", "text/css"), ("swagger-ui-bundle.js", "text/javascript")):
        assert f"/docs/{name}" in page.text
        got = http.get(f"/docs/{name}")
        assert (200, True) == (got.status_code, got.headers["content-type"].startswith(kind))
        assert 100_000 < len(got.content)
