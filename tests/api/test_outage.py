"""What the API answers while the workers, or the engine, are away."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.api.failure.v1 import ApplicationFailureInfo, Failure
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollWorkflowTaskQueueRequest, RespondWorkflowTaskFailedRequest
from temporalio.client import Client

from api.tasks import service
from droidherd.cli.local import ports
from droidherd.cli.local.embedded import EmbeddedTemporal, Profile
from droidherd.contracts import names
from droidherd.contracts.queue import DispatcherInput
from droidherd.engine.workflow_calls import STUCK_FROM
from tests.api.test_tasks import submit, until
from tests.api.waiting import eventually
from tests.api.world import PATIENCE_S, POOL, World

SHORT: dict[str, Any] = {"admission_s": 0.5, "answer_s": 0.5}
LIMIT_S = 3 * PATIENCE_S
"""Longer than the API waits for workers, also when it asks twice."""
URN = "urn:droidherd:problem:"


@pytest.fixture
def quiet(temporal_server: EmbeddedTemporal, temporal_namespace: str, tmp_path: Path) -> Iterator[World]:
    """An API and an engine; no worker."""
    with World(temporal_server.address, temporal_namespace, tmp_path, **SHORT) as world:
        yield world


def test_without_workers_a_submission_is_durable_and_says_so(quiet: World):
    with httpx.Client(base_url=quiet.url, timeout=LIMIT_S) as http:
        made = submit(http, "late-1", id="late-1")
        assert (202, "pending", "pending") == (made.status_code, made.json()["admission"], made.json()["state"])
        view = http.get("/api/tasks/late-1")
        assert (200, True, "pending") == (view.status_code, view.json()["stale"], view.json()["state"])
        assert (409, URN + "id-taken") == _kind(submit(http, id="late-1"))
        assert (503, URN + "no-worker") == _kind(http.get("/api/queue"))
        ready = http.get("/readyz")
        assert (503, ["dispatcher"]) == (ready.status_code, [k for k, v in ready.json()["parts"].items() if v])
        assert "retry-after" in ready.headers
        quiet.work()
        until(http, "late-1", "completed")
        assert 200 == http.get("/readyz").status_code


def test_nobody_learns_without_a_key_why_a_workflow_fails(quiet: World, caplog: pytest.LogCaptureFixture):
    quiet.run(fail_workflow_tasks(quiet.client, "player-42 has the password herd"))
    ready = httpx.get(f"{quiet.url}/readyz", timeout=LIMIT_S)
    assert (503, True) == (ready.status_code, "its workflow tasks fail" in ready.json()["parts"]["dispatcher"])
    assert "player-42" not in ready.text
    assert "player-42" in caplog.text


def test_everybody_learns_which_key_is_missing(quiet: World):
    quiet.run(fail_workflow_tasks(quiet.client, "its input is encrypted with the key 'k1'", "LockedValueError"))
    ready = httpx.get(f"{quiet.url}/readyz", timeout=LIMIT_S)
    why = "its workflow tasks fail: LockedValueError: its input is encrypted with the key 'k1'"
    assert (503, why) == (ready.status_code, ready.json()["parts"]["dispatcher"])


async def fail_workflow_tasks(client: Client, why: str, kind: str = "RuntimeError") -> None:
    """As a worker does whose dispatcher meets a fault, so often that it counts as stuck."""
    pool, queue = DispatcherInput(pool=POOL), names.FLEET_QUEUE
    await client.start_workflow(names.Workflow.DISPATCHER, pool, id=names.dispatcher_id(POOL), task_queue=queue)
    failure = Failure(message=why, application_failure_info=ApplicationFailureInfo(type=kind))
    poll = PollWorkflowTaskQueueRequest(namespace=client.namespace, task_queue=TaskQueue(name=queue), identity="w")
    for _ in range(STUCK_FROM - 1):
        task = await client.workflow_service.poll_workflow_task_queue(poll)
        failed = RespondWorkflowTaskFailedRequest(
            namespace=client.namespace, task_token=task.task_token, failure=failure
        )
        await client.workflow_service.respond_workflow_task_failed(failed)


def test_a_repeat_while_the_admission_is_late_stays_one_task(quiet: World):
    with httpx.Client(base_url=quiet.url, timeout=LIMIT_S) as http:
        body, headers = {"type": "tap_once"}, {"idempotency-key": "k"}
        first, again = (http.post("/api/tasks", json=body, headers=headers) for _ in range(2))
        assert (202, 202, first.json()) == (first.status_code, again.status_code, again.json())
        quiet.work()
        until(http, first.json()["id"], "completed")
        late = http.post("/api/tasks", json=body, headers=headers)
        assert (201, first.json()["id"]) == (late.status_code, late.json()["id"])
        assert 1 == len(http.get("/api/tasks").json()["tasks"])


def test_a_cancel_without_workers_is_durable(quiet: World):
    with httpx.Client(base_url=quiet.url, timeout=LIMIT_S) as http:
        submit(http, "late-2", id="late-2")
        assert 202 == http.post("/api/tasks/late-2/cancel").status_code
        quiet.work()
        until(http, "late-2", "cancelled")


def test_what_a_task_wrote_down_is_read_without_workers(quiet: World):
    with httpx.Client(base_url=quiet.url, timeout=LIMIT_S) as http:
        quiet.work()
        assert submit(http, "memo-1", id="memo-1").is_success
        until(http, "memo-1", "completed")
        with quiet.holding("memo-2"):
            submit(http, "memo-2", id="memo-2")
            until(http, "memo-2", "running")
            quiet.rest()
            done, busy = (http.get(f"/api/tasks/{name}").json() for name in ("memo-1", "memo-2"))
            assert ("completed", False, ["completed"]) == (
                done["state"],
                done["stale"],
                [one["outcome"] for one in done["attempts"]],
            )
            assert (True, "running") == (busy["stale"], busy["state"])
            eventually(lambda: {"memo-1": "completed", "memo-2": "running"} == _states(http))


@pytest.fixture
def deaf(tmp_path: Path) -> Iterator[World]:
    """An API whose engine is not there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        world = World(f"127.0.0.1:{taken.getsockname()[1]}", "nobody", tmp_path, **SHORT)
        world.alone = True
        with world:
            yield world


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/tasks", {"type": "tap_once"}),
        ("GET", "/api/tasks", None),
        ("GET", "/api/tasks/t", None),
        ("POST", "/api/tasks/t/cancel", None),
        ("GET", "/api/queue", None),
        ("GET", "/api/emulators/e1", None),
        ("GET", "/api/accounts/a", None),
    ],
)
def test_without_an_engine_it_says_so(deaf: World, method: str, path: str, body: Any):
    answer = httpx.request(method, f"{deaf.url}{path}", json=body, timeout=LIMIT_S)
    assert (503, URN + "engine-away", "10") == (*_kind(answer), answer.headers["retry-after"])


def test_without_an_engine_it_lives_and_is_not_ready(deaf: World):
    with httpx.Client(base_url=deaf.url, timeout=LIMIT_S) as http:
        assert (200, 503) == (http.get("/healthz").status_code, http.get("/readyz").status_code)
        assert 200 == http.get("/api/task-types").status_code
        assert 'droidherd_engine_up{pool="default"} 0.0' in http.get("/metrics").text


def test_an_engine_with_too_much_to_do_is_too_many_requests(tmp_path: Path):
    few = {
        f"frontend.namespace{name}": value for name, value in (("RPS.visibility", 1), ("BurstRatio.visibility", 1.0))
    }
    profile = Profile(port=ports.free(), database=None, dynamic_config=few)
    with EmbeddedTemporal.start(tmp_path / "engine", in_memory=True, profile=profile) as engine:
        world = World(engine.address, profile.namespace, tmp_path)
        world.alone = True
        with world, ThreadPoolExecutor(10) as threads:
            answers = list(threads.map(partial(httpx.get, timeout=LIMIT_S), [f"{world.url}/api/tasks"] * 10))
    assert {200, 429} == {one.status_code for one in answers}
    refused = next(one for one in answers if one.status_code == 429)
    assert (URN + "overloaded", "10") == (refused.json()["type"], refused.headers["retry-after"])


def test_a_stream_outlives_the_workers(quiet: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(service, "BEAT_S", 0.0)
    with httpx.Client(base_url=quiet.url, timeout=LIMIT_S) as http:
        submit(http, "stream-9", id="stream-9")
        with http.stream("GET", "/api/tasks/stream-9/events", headers={"accept": "text/event-stream"}) as stream:
            lines = stream.iter_lines()
            assert ": still here" == next(lines)  # it has asked, and nobody answered
            quiet.work()
            text = "\n".join(lines)
        assert (1, 1) == (text.count("event: completed"), text.count("event: end"))


def _states(http: httpx.Client) -> dict[str, str]:
    return {one["task_id"]: one["state"] for one in http.get("/api/tasks").json()["tasks"]}


def _kind(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["type"]
