"""Queue, accounts, emulators, task types and health over HTTP."""

import httpx
import pytest

from activities.engine import EngineActivities
from droidherd.contracts.engine import PoolSettings
from droidherd.contracts.subscriptions import TaskLook
from tests.api.test_tasks import submit, until
from tests.api.waiting import eventually
from tests.api.world import World

SOON_S = 5.0


@pytest.fixture(autouse=True)
def _nobody_in_line(http: httpx.Client) -> None:
    """What others left there is not what these tests are about."""
    http.post("/api/queue/resume")
    for row in http.get("/api/queue", params={"limit": 1_000}).json()["queue_info"]:
        http.post(f"/api/tasks/{row['task_id']}/cancel")
        until(http, row["task_id"], "cancelled", "completed", "failed", "rejected")


def test_the_queue_shows_who_waits_and_who_runs(world: World, http: httpx.Client):
    with world.holding("queue-1"):
        runs = submit(http, "queue-1").json()["id"]
        until(http, runs, "running")
        waits = submit(http, "queue-1", on_busy="queue").json()["id"]
        until(http, waits, "queued")
        page = http.get("/api/queue", params={"lane": "account"}).json()
        row = next(one for one in page["queue_info"] if one["task_id"] == waits)
        assert ("account", "queue-1", "tap_once", 1) == (row["lane"], row["account"], row["type"], row["position"])
        assert "queue-1" in row["blocked_by"]
        assert row["enqueued_at"].endswith("Z")
        run = next(one for one in page["running_info"] if one["task_id"] == runs)
        assert ("queue-1", "h1", "active") == (run["account"], run["host"], run["place"])
        assert (10_000, 3) == (page["limit"], page["emulators"])
        assert 0.0 < run["running_s"] < 60.0
    until(http, waits, "completed")


def test_the_queue_is_paged(world: World, http: httpx.Client):
    http.post("/api/queue/pause", json={"lane": "account"})
    ids = [submit(http, f"paged-{number}").json()["id"] for number in range(3)]
    for one in ids:
        until(http, one, "queued")
    first = http.get("/api/queue", params={"limit": 2}).json()
    rest = http.get("/api/queue", params={"limit": 2, "after": first["next_after"]}).json()
    assert ids == [row["task_id"] for row in first["queue_info"] + rest["queue_info"]]
    assert [1, 2, 3] == [row["position"] for row in first["queue_info"] + rest["queue_info"]]
    assert (2, None) == (first["next_after"], rest["next_after"])
    http.post("/api/queue/resume")
    for one in ids:
        until(http, one, "completed")


def test_where_a_task_stands_is_what_is_true_now(http: httpx.Client):
    http.post("/api/queue/pause", json={"lane": "account"})
    first, second = (submit(http, f"stands-{number}").json()["id"] for number in range(2))
    assert 2 == until(http, second, "queued")["position"]
    http.post(f"/api/tasks/{first}/cancel")
    until(http, first, "cancelled")
    eventually(lambda: http.get(f"/api/tasks/{second}").json()["position"] == 1)
    http.post("/api/queue/resume")
    assert 0 == until(http, second, "completed")["position"]


def test_a_lane_holds_as_many_as_its_capacity_says(world: World, http: httpx.Client):
    lane = {"lane": "account", "actor": "ann"}
    assert 200 == http.post("/api/queue/capacity", json={**lane, "capacity": 1}).status_code
    with world.holding("cap-0"):
        first, second = (submit(http, f"cap-{number}").json()["id"] for number in range(2))
        until(http, first, "running")
        assert "lane account is at its capacity of 1" == until(http, second, "queued")["why"]
        assert 200 == http.post("/api/queue/capacity", json={**lane, "capacity": 100}).status_code
        until(http, second, "completed")
    until(http, first, "completed")


@pytest.mark.parametrize(
    ("body", "field"),
    [({"capacity": 1}, "lane"), ({"lane": "a"}, "capacity"), ({"lane": "a", "capacity": -1}, "capacity")],
)
def test_a_capacity_that_makes_no_sense_is_refused_by_name(http: httpx.Client, body: dict[str, object], field: str):
    refused = http.post("/api/queue/capacity", json=body)
    assert (422, field) == (refused.status_code, refused.json()["errors"][0]["field"])


def test_a_prioritized_task_goes_first(http: httpx.Client):
    http.post("/api/queue/pause", json={"lane": "account"})
    first, second = (submit(http, f"urgent-{number}").json()["id"] for number in range(2))
    until(http, second, "queued")
    assert 200 == http.post(f"/api/tasks/{second}/prioritize", json={"actor": "ann", "priority": 1}).status_code
    assert [second, first] == [row["task_id"] for row in http.get("/api/queue").json()["queue_info"]]
    http.post("/api/queue/resume")
    for one in (first, second):
        until(http, one, "completed")
    refused = http.post(f"/api/tasks/{second}/prioritize")
    assert 409 == refused.status_code
    assert "prioritize is not possible while completed; possible now: rollback" == refused.json()["detail"]


def test_prioritization_is_shown_by_the_task_and_kept_over_a_pause(http: httpx.Client):
    http.post("/api/queue/pause", json={"lane": "account"})
    first, second = (submit(http, f"kept-{number}", priority=4).json()["id"] for number in range(2))
    until(http, second, "queued")
    http.post(f"/api/tasks/{second}/prioritize", json={"priority": 2})
    read = http.get(f"/api/tasks/{second}").json()
    assert (2, 1, True) == (read["priority"], read["position"], read["prioritized"] > 0)
    http.post(f"/api/tasks/{second}/pause")
    until(http, second, "paused")
    assert "" == http.post(f"/api/tasks/{second}/resume").json()["why"]
    assert read["prioritized"] == until(http, second, "queued")["prioritized"]
    assert [second, first] == [row["task_id"] for row in http.get("/api/queue").json()["queue_info"]]
    less = http.post(f"/api/tasks/{second}/prioritize", json={"priority": 9}).json()
    assert (True, True) == (less["done"], "which it keeps" in less["detail"])
    http.post("/api/queue/resume", json={"lane": "account"})
    for one in (first, second):
        until(http, one, "completed")
    assert (2, read["prioritized"]) == tuple(
        http.get(f"/api/tasks/{second}").json()[key] for key in ("priority", "prioritized")
    )


def test_what_was_set_on_a_lane_by_mistake_is_taken_back(http: httpx.Client):
    http.post("/api/queue/capacity", json={"lane": "acount", "capacity": 4})
    assert "acount" in [one["name"] for one in http.get("/api/queue").json()["lanes"]]
    done = http.request("DELETE", "/api/queue/lanes/acount", json={"actor": "reset-ann", "reason": "a slip"})
    assert (200, {"done": True, "detail": ""}) == (done.status_code, done.json())
    assert "acount" not in [one["name"] for one in http.get("/api/queue").json()["lanes"]]
    again = http.delete("/api/queue/lanes/acount")
    assert (True, "nothing was set by hand on lane acount") == (again.json()["done"], again.json()["detail"])
    assert 1 == len(http.get("/api/audit", params={"actor": "reset-ann"}).json()["entries"])
    assert 404 == http.delete("/api/queue/lanes/a%20b").status_code


def test_an_order_a_pool_refuses_is_not_called_a_task(http: httpx.Client):
    lanes = [f"many-{number}" for number in range(100)]
    for lane in lanes:
        http.post("/api/queue/capacity", json={"lane": lane, "capacity": 4})
    refused = http.post("/api/queue/capacity", json={"lane": "one-more", "capacity": 4})
    problem = refused.json()
    assert (422, "Refused", True) == (refused.status_code, problem["title"], "--reset" in problem["detail"])
    for lane in lanes:
        http.delete(f"/api/queue/lanes/{lane}")
    assert 200 == http.post("/api/queue/pause", json={"lane": "one-more"}).status_code
    http.delete("/api/queue/lanes/one-more")


def test_a_list_says_of_each_task_why_it_waits(world: World, http: httpx.Client):
    with world.holding("why-2"):
        runs = submit(http, "why-2").json()["id"]
        until(http, runs, "running")
        waits = submit(http, "why-2", on_busy="queue").json()["id"]
        until(http, waits, "queued")

        def listed() -> dict[str, tuple[int, str]]:
            page = http.get("/api/tasks", params={"account": "why-2", "state": ["running", "queued"]}).json()
            return {one["task_id"]: (one.get("position", 0), one.get("why", "")) for one in page["tasks"]}

        both = eventually(lambda: found if len(found := listed()) == 2 else None)
        assert {runs: (0, ""), waits: (1, f"account why-2 is busy with task {runs}")} == both
    until(http, waits, "completed")


def test_why_a_task_waits_is_what_is_true_now_not_when_it_got_in_line(world: World, http: httpx.Client):
    with world.holding("why-1"):
        until(http, submit(http, "why-1").json()["id"], "running")
        waits = submit(http, "why-1", on_busy="queue").json()["id"]
        assert "why-1 is busy" in until(http, waits, "queued")["why"]
        http.post("/api/queue/pause", json={"lane": "account", "actor": "ann"})
        assert "paused by ann" in http.get(f"/api/tasks/{waits}").json()["why"]
        http.post("/api/queue/resume", json={"lane": "account"})
        assert "why-1 is busy" in http.get(f"/api/tasks/{waits}").json()["why"]
    until(http, waits, "completed")


@pytest.mark.parametrize(
    ("order", "now", "back"),
    [("drain", "draining (by ann: new disk)", "undrain"), ("quarantine", "quarantined (by ann: new disk)", "release")],
)
def test_a_task_in_line_hears_what_befalls_the_only_emulator_that_fits(
    world: World, http: httpx.Client, order: str, now: str, back: str
):
    def why(**params: str) -> str:
        return http.get(f"/api/tasks/{waits}", params=params).json()["why"]

    with world.holding(f"why-{order}"):
        until(http, submit(http, f"why-{order}", emulator="e2").json()["id"], "running")
        submit(http, emulator="e2")  # on deck, perhaps
        waits = submit(http, emulator="e2").json()["id"]
        assert "holds" in until(http, waits, "queued")["why"]
        try:
            http.post(f"/api/emulators/e2/{order}", json={"actor": "ann", "reason": "new disk"})
            expected = f"the only emulator that could run it is not up: e2 is {now}"
            eventually(lambda: expected == why(), SOON_S)
            assert expected == why(wait="100ms")
        finally:
            http.post(f"/api/emulators/e2/{back}", json={"actor": "ann"})
        eventually(lambda: "not up" not in why(), SOON_S)
    until(http, waits, "completed")


def test_a_task_in_line_hears_that_its_account_is_disabled(world: World, http: httpx.Client):
    with world.holding("why-off"):
        until(http, submit(http, "why-off").json()["id"], "running")
        waits = submit(http, "why-off", on_busy="queue").json()["id"]
        until(http, waits, "queued")
        http.post("/api/accounts/why-off/disable", json={"actor": "ann", "reason": "banned"})
        for params in ({}, {"wait": "100ms"}):
            why = http.get(f"/api/tasks/{waits}", params=params).json()["why"]
            assert "account why-off is disabled by ann: banned" == why
        look = EngineActivities(world.client, PoolSettings()).look_at_task(TaskLook(task_id=waits))
        assert "account why-off is disabled by ann: banned" == world.run(look).why, "as a subscription reports it"
        http.post("/api/accounts/why-off/enable", json={"actor": "ann"})
        assert "is busy with task" in http.get(f"/api/tasks/{waits}").json()["why"]
    until(http, waits, "completed")


def test_a_paused_lane_grants_nothing_and_says_who_paused_it(http: httpx.Client):
    paused = http.post("/api/queue/pause", json={"lane": "account", "actor": "ann", "reason": "update"})
    assert (200, True) == (paused.status_code, paused.json()["done"])
    waits = submit(http, "lane-1").json()["id"]
    assert "ann" in until(http, waits, "queued")["why"]
    other = http.post("/api/tasks", params={"wait": "60s"}, json={"type": "tap_once"})
    assert "completed" == other.json()["task"]["state"]
    lanes = {one["name"]: one for one in http.get("/api/queue").json()["lanes"]}
    assert ("ann", "update", "") == (
        lanes["account"]["paused_by"],
        lanes["account"]["paused_why"],
        lanes["anonymous"]["paused_by"],
    )
    assert 200 == http.post("/api/queue/resume", json={"lane": "account"}).status_code
    until(http, waits, "completed")


def test_a_pool_nobody_runs_is_not_found(http: httpx.Client):
    assert 404 == http.get("/api/queue", params={"pool": "nowhere"}).status_code
    assert 404 == http.post("/api/queue/pause", params={"pool": "nowhere"}).status_code


def test_an_account_shows_what_it_does_and_did(world: World, http: httpx.Client):
    idle = http.get("/api/accounts/acc-1").json()
    assert (False, False, None) == (idle["is_queued"], idle["is_running"], idle["last_run"])
    with world.holding("acc-1"):
        task_id = submit(http, "acc-1").json()["id"]
        emulator = until(http, task_id, "running")["emulator"]
        busy = http.get("/api/accounts/acc-1").json()
        assert (True, emulator, task_id) == (busy["is_running"], busy["emulator"], busy["running_task"])
    until(http, task_id, "completed")
    last = eventually(lambda: http.get("/api/accounts/acc-1").json()["last_run"])
    assert (task_id, "completed") == (last["task_id"], last["state"])


def test_emulators_are_listed_and_read_with_their_holder(world: World, http: httpx.Client):
    with world.holding("emu-1"):
        task_id = submit(http, "emu-1", emulator="e1").json()["id"]
        assert "e1" == until(http, task_id, "running")["emulator"]
        rows = {one["emulator_id"]: one for one in http.get("/api/emulators").json()["emulators"]}
        assert ["e1", "e2", "e3"] == list(rows)
        assert ("up", "h1", task_id) == (rows["e1"]["state"], rows["e1"]["host"], rows["e1"]["task"])
        one = http.get("/api/emulators/e1").json()
        assert ("e1", task_id) == (one["emulator_id"], one["task"])
    until(http, task_id, "completed")


def test_emulators_are_filtered_by_state(http: httpx.Client):
    assert [] == http.get("/api/emulators", params={"state": "down"}).json()["emulators"]
    assert 422 == http.get("/api/emulators", params={"state": "asleep"}).status_code


@pytest.mark.parametrize("path", ["/api/emulators/nobody", "/api/emulators/a%20b", "/api/accounts/%00", "/api/nothing"])
def test_what_is_not_there_is_not_found(http: httpx.Client, path: str):
    answer = http.get(path)
    assert (404, "application/problem+json") == (answer.status_code, answer.headers["content-type"])


def test_task_types_tell_what_may_be_submitted(http: httpx.Client):
    types = {one["name"]: one for one in http.get("/api/task-types").json()["task_types"]}
    tap = types["tap_once"]
    assert {"across", "down"} == set(tap["params"])
    assert ("number", False, 50, 0, 100) == tuple(
        tap["params"]["across"][key] for key in ("type", "required", "default", "min", "max")
    )
    assert 7 == types["long_walk"]["policy"]["retries"]
    assert (60.0, ["tap"], "") == (tap["policy"]["time_limit_s"], tap["stages"], tap["problem"])


def test_it_says_that_it_lives_and_is_ready(http: httpx.Client):
    assert (200, {"status": "ok"}) == (http.get("/healthz").status_code, http.get("/healthz").json())
    ready = http.get("/readyz")
    assert (200, {"engine": "", "dispatcher": "", "artifacts": "", "disk": ""}) == (
        ready.status_code,
        ready.json()["parts"],
    )


def test_metrics_show_the_queue_and_the_requests(http: httpx.Client):
    http.get("/api/tasks/nobody")
    text = http.get("/metrics").text
    assert 'droidherd_queue_length{lane="account",pool="default"} 0.0' in text
    assert 'droidherd_emulators{pool="default",state="up"} ' in text
    assert 'droidherd_engine_up{pool="default"} 1.0' in text
    assert 'droidherd_disk_free_bytes{place="artifacts"} ' in text
    assert 'droidherd_http_seconds_count{method="GET",route="/api/tasks/{task_id}",status="404"}' in text
    assert "nobody" not in text


def test_metrics_forget_a_lane_that_is_forgotten(http: httpx.Client):
    http.post("/api/queue/pause", json={"lane": "passing"})
    assert 'droidherd_lane_paused{lane="passing",pool="default"} 1.0' in http.get("/metrics").text
    http.post("/api/queue/resume", json={"lane": "passing"})
    assert 'lane="passing"' not in http.get("/metrics").text


def test_a_method_that_does_not_fit_is_a_problem_too(http: httpx.Client):
    answer = http.delete("/api/tasks")
    assert (405, "urn:droidherd:problem:method-not-allowed") == (answer.status_code, answer.json()["type"])


def test_openapi_shows_bodies_and_examples(http: httpx.Client):
    document = http.get("/openapi.json").json()
    body = document["paths"]["/api/tasks"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"$ref": "#/components/schemas/SubmitRequest"} == body
    assert "daily_reward" == document["components"]["schemas"]["SubmitRequest"]["examples"][0]["type"]
    missing = {
        ref
        for ref in _references(document)
        if ref.removeprefix("#/components/schemas/") not in document["components"]["schemas"]
    }
    assert set() == missing


def _references(value: object) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set[str]()
        return own.union(*(_references(inner) for inner in value.values()))
    if isinstance(value, list):
        return set[str]().union(*(_references(inner) for inner in value))
    return set()
