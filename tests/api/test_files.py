"""What a task left behind, over HTTP."""

import json
import re
from datetime import datetime

import httpx
import pytest

from api.tasks.files import log_lines
from droidherd.artifacts.store import DirectoryStore
from droidherd.engine.errors import UnavailableError
from tests.api.test_tasks import submit, until
from tests.api.world import World

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 3000


@pytest.fixture
def task_id(http: httpx.Client) -> str:
    made: str = submit(http).json()["id"]
    http.get(f"/api/tasks/{made}", params={"wait": "60s"})
    return made


def test_artifacts_are_listed_and_streamed(world: World, http: httpx.Client, task_id: str):
    world.store.put(task_id, "frame-1.png", PNG)
    listed = http.get(f"/api/tasks/{task_id}/artifacts").json()["artifacts"]
    assert [("frame-1.png", len(PNG)), ("log-1-0.jsonl", 20)] == [(one["name"], one["size"]) for one in listed]
    got = http.get(f"/api/tasks/{task_id}/artifacts/frame-1.png")
    assert (200, PNG, "image/png") == (got.status_code, got.content, got.headers["content-type"])
    assert 'inline; filename="frame-1.png"' == got.headers["content-disposition"]
    assert str(len(PNG)) == got.headers["content-length"]


def test_a_file_that_could_act_as_a_page_is_only_ever_downloaded(world: World, http: httpx.Client, task_id: str):
    world.store.put(task_id, "page.html", b"<script>alert(1)</script>")
    got = http.get(f"/api/tasks/{task_id}/artifacts/page.html")
    assert "text/html; charset=utf-8" == got.headers["content-type"]
    assert got.headers["content-disposition"].startswith("attachment")
    assert ("nosniff", True) == (
        got.headers["x-content-type-options"],
        "sandbox" in got.headers["content-security-policy"],
    )


def test_evidence_is_shown_as_a_page_in_which_nothing_runs(world: World, http: httpx.Client, task_id: str):
    world.store.put(task_id, "1-0-1-open.evidence.html", b"<!doctype html><p>why</p>")
    got = http.get(f"/api/tasks/{task_id}/artifacts/1-0-1-open.evidence.html")
    assert "text/html; charset=utf-8" == got.headers["content-type"]
    assert got.headers["content-disposition"].startswith("inline")
    policy = got.headers["content-security-policy"]
    assert ("sandbox", True, False) == (policy.split(";")[0], "default-src 'none'" in policy, "script" in policy)
    assert "nosniff" == got.headers["x-content-type-options"]


@pytest.mark.parametrize(
    "name",
    [
        "nothing.png",
        "..%2F..%2Fetc%2Fpasswd",
        "%2e%2e/frame-1.png",
        ".part-1",
        "a%00b",
        "a%0d%0aset-cookie:x",
        "%F0%9F%A4%96",
    ],
)
def test_a_name_that_is_no_artifact_is_not_found(http: httpx.Client, task_id: str, name: str):
    assert 404 == http.get(f"/api/tasks/{task_id}/artifacts/{name}").status_code


def test_a_task_that_left_nothing_has_an_empty_list(world: World, http: httpx.Client):
    with world.holding("files-1"):
        made = submit(http, "files-1").json()["id"]
        answer = http.get(f"/api/tasks/{made}/artifacts")
        assert (200, []) == (answer.status_code, answer.json()["artifacts"])
        log = http.get(f"/api/tasks/{made}/log")
        assert (200, "created") == (log.status_code, json.loads(log.text.splitlines()[0])["event"])


def test_the_log_is_every_attempt_in_order(world: World, http: httpx.Client, task_id: str):
    for number in (10, 2):
        line = {"at": f"t{number}", "level": "info", "event": "stage began", "attempt": number}
        world.store.put(task_id, f"log-{number}-0.jsonl", json.dumps(line).encode())
    lines = http.get(f"/api/tasks/{task_id}/log")
    assert "application/x-ndjson" == lines.headers["content-type"]
    attempts = [json.loads(line).get("attempt") for line in lines.text.splitlines()]
    assert [2, 10] == [one for one in attempts if one]
    text = http.get(f"/api/tasks/{task_id}/log", headers={"accept": "text/plain"})
    wanted = {"tapped", "t2 info stage began attempt=2", "t10 info stage began attempt=10"}
    assert ["tapped", "t2 info stage began attempt=2", "t10 info stage began attempt=10"] == [
        line for line in text.text.splitlines() if line in wanted
    ]


def test_the_log_tells_the_story_of_a_task_between_the_lines_of_its_attempts(world: World, http: httpx.Client):
    """An attempt's lines stand where they belong, whenever they were stored."""
    made = submit(http, "files-2", actor="ann", params={"down": 7}).json()["id"]
    until(http, made, "completed")
    events = http.get(f"/api/tasks/{made}/events").json()["events"]
    granted = next(datetime.fromisoformat(one["at"]).timestamp() for one in events if one["event"] == "granted")
    line = {"at": granted + 1e-6, "text": "tapped gold"}
    world.store.put(made, "log-1-0.jsonl", json.dumps(line).encode())
    lines = [json.loads(one) for one in http.get(f"/api/tasks/{made}/log").text.splitlines()]
    assert ["created", "admitted", "granted", "tapped gold", "completed"] == [
        one.get("event") or one["text"] for one in lines
    ]
    assert [one["at"] for one in events] == [one["at"] for one in lines if "event" in one]
    assert lines[2]["at"] < lines[3]["at"] < lines[4]["at"]
    assert ("ann", "pending", 'tap_once for account files-2 with {"down": 7}') == tuple(
        lines[0][name] for name in ("by", "state", "text")
    )
    text = http.get(f"/api/tasks/{made}/log", headers={"accept": "text/plain"}).text
    assert re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z created tap_once for .* by=ann\n", text), text


def test_a_story_that_cannot_be_read_shows_as_such_in_the_log(world: World, http: httpx.Client, task_id: str):
    async def away(_: str) -> None:
        raise UnavailableError("Temporal does not answer")

    tasks = world.app.state.droidherd.tasks
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "audit", away)
        first, *rest = http.get(f"/api/tasks/{task_id}/log").text.splitlines()
    expected = {"event": "events_unknown", "text": "Temporal does not answer", "at": None}
    assert expected == {name: json.loads(first)[name] for name in expected}
    assert rest


def test_a_log_line_that_is_no_json_is_shown_as_it_is(tmp_path: object, world: World):
    store = DirectoryStore(world.settings.data / "odd")
    store.put("t", "log-1.jsonl", b'[1]\nnot json\n{"event": "a\\nb"}')
    assert [b"[1]\n", b"not json\n", b"a b\n"] == list(log_lines(store, "t", text=True))
