"""Tasks that recur, over HTTP, on the real engine's schedules."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Any

import httpx
import pytest

from api.subscriptions.schemas import NOT_HERE
from droidherd.contracts.tasks import TaskInput, TaskSpec
from droidherd.domain.schedule.catchup import DROPPED
from tests.api.recurring import ALL, add, kind, run, show, tasks
from tests.api.test_tasks import until
from tests.api.waiting import eventually
from tests.api.world import World

# --- it recurs ---------------------------------------------------------------------------------------------------


def test_a_subscription_starts_a_task_each_time_it_is_due(http: httpx.Client, name: str):
    made = add(http, name, every_s=1, overlap="buffer_all")
    assert (name, 1, "buffer_all", False) == (made["id"], made["every_s"], made["overlap"], made["paused"])
    eventually(lambda: len(tasks(http, name, "completed")) >= 3)
    started = tasks(http, name)[:3]
    times = [datetime.strptime(one["task_id"], f"{name}.%Y%m%dT%H%M%S%z") for one in started]
    assert [1.0, 1.0] == [(after - before).total_seconds() for before, after in pairwise(times)]
    assert ["tap_once"] * 3 == [one["type"] for one in started]
    shown = show(http, name)
    assert (0, 0, []) == (shown["missed"], shown["skipped"], shown["missed_runs"])
    assert shown["started"] >= 3
    assert {"completed"} <= {one["state"] for one in shown["last_tasks"]}


def test_its_tasks_are_found_among_all_tasks_and_stand_in_band_5(http: httpx.Client, name: str):
    add(http, name)
    view = until(http, run(http, name), "completed")
    assert (5, name) == (view["priority"], view["account"])
    found = http.get("/api/tasks", params={"subscription": name}).json()["tasks"]
    assert [view["task_id"]] == [one["task_id"] for one in found]
    assert [] == http.get("/api/tasks", params={"subscription": "other"}).json()["tasks"]


def test_next_times_follow_the_wall_clock_of_the_time_zone(http: httpx.Client, name: str):
    made = add(http, name, cron="30 5 * * 1", time_zone="Asia/Shanghai", paused=False)
    times = [datetime.fromisoformat(one) for one in made["next_times"]]
    assert {(6, 21, 30)} == {(one.weekday(), one.hour, one.minute) for one in times}  # Sunday evening in UTC
    assert 10 == len(times)


def test_a_subscription_that_says_a_priority_and_labels_has_them(http: httpx.Client, name: str):
    task = {"type": "tap_once", "account": name, "priority": 8, "labels": {"team": "ops"}, "params": {"down": 7}}
    add(http, name, task=task)
    view = until(http, run(http, name), "completed")
    assert (8, {"team": "ops"}, 7) == (view["priority"], view["labels"], view["params"]["down"])


# --- no two at once ----------------------------------------------------------------------------------------------


def test_while_a_run_goes_on_another_is_refused_with_the_holders_name(world: World, http: httpx.Client, name: str):
    add(http, name)
    with world.holding(name):
        first = run(http, name)
        until(http, first, "running")
        again = http.post(f"{ALL}/{name}/run", json={"actor": "ben", "reason": "once more"})
        assert (409, "place-taken") == kind(again)
        assert (name, first) == (again.json()["subscription"], again.json()["holder"])
    until(http, first, "completed")
    created, ran, refused = show(http, name)["changes"]
    assert ["created", "run", "refused"] == [one["what"] for one in (created, ran, refused)]
    assert ("ben", "once more", again.json()["detail"]) == (refused["actor"], refused["reason"], refused["why"])
    second = eventually(lambda: http.post(f"{ALL}/{name}/run").json().get("task_id"))
    until(http, second, "completed")
    assert [first, second] == [one["task_id"] for one in tasks(http, name)]


def test_a_buffered_run_by_hand_waits_for_the_one_before(world: World, http: httpx.Client, name: str):
    add(http, name, overlap="buffer_all")
    with world.holding(name):
        first = run(http, name)
        until(http, first, "running")
        waits = http.post(f"{ALL}/{name}/run")
        assert (202, "waiting") == (waits.status_code, waits.json()["outcome"])
        assert (True, 1) == ((now := show(http, name))["running"], now["waiting"])
        assert [first] == [one["task_id"] for one in tasks(http, name)]
    second = waits.json()["task_id"]
    eventually(lambda: http.get(f"/api/tasks/{second}").is_success)
    until(http, second, "completed")


def test_what_is_due_while_a_run_goes_on_is_skipped_and_counted(world: World, http: httpx.Client, name: str):
    with world.holding(name):
        add(http, name, every_s=1, overlap="skip")
        first = eventually(lambda: tasks(http, name, "running"))[0]["task_id"]
        before = show(http, name)
        late = before["next_times"][3]
        eventually(lambda: show(http, name)["next_times"][0] > late)
        assert (1, True) == (before["started"], before["running"])
        assert 1 == show(http, name)["started"]
    until(http, first, "completed")
    shown = eventually(lambda: (now := show(http, name))["skipped"] >= 3 and now)
    assert (0, []) == (shown["missed"], shown["missed_runs"])


def test_cancel_other_cancels_the_run_before(world: World, http: httpx.Client, name: str):
    add(http, name, overlap="cancel_other")
    with world.holding(name):
        first = run(http, name)
        until(http, first, "running")
        second = http.post(f"{ALL}/{name}/run")
        assert (202, "waiting") == (second.status_code, second.json()["outcome"])
        until(http, first, "cancelled")
        until(http, eventually(lambda: last(http, name, first)), "running")
    events = http.get(f"/api/tasks/{first}/events").json()["events"]
    assert ("system:subscription", "the next run is due") == (events[-1]["actor"], events[-1]["reason"])
    until(http, second.json()["task_id"], "completed")


def last(http: httpx.Client, name: str, but: str) -> str:
    return next((one["task_id"] for one in tasks(http, name) if one["task_id"] != but), "")


def test_orders_that_arrive_together_are_not_lost(http: httpx.Client, name: str):
    """The engine itself lets the last of several triggers win, and drops the others without a word."""
    add(http, name, overlap="buffer_all")
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(http.post, [f"{ALL}/{name}/run"] * 4))
    assert {202} == {one.status_code for one in answers}, [one.text for one in answers]
    wanted = {one.json()["task_id"] for one in answers}
    assert 4 == len(wanted)
    for task_id in sorted(wanted):
        eventually(lambda task_id=task_id: http.get(f"/api/tasks/{task_id}").is_success)
        until(http, task_id, "completed")


@pytest.mark.parametrize("word", ["run", "download"])
def test_run_and_download_are_the_same_order(http: httpx.Client, name: str, word: str):
    add(http, name)
    done = http.post(f"{ALL}/{name}/{word}", json={"actor": "ann", "reason": "now"})
    assert (202, "started") == (done.status_code, done.json()["outcome"])
    assert f"/api/tasks/{done.json()['task_id']}" == done.headers["location"]
    until(http, done.json()["task_id"], "completed")
    line = show(http, name)["changes"][-1]
    assert ("run", "ann", "now") == (line["what"], line["actor"], line["reason"])


# --- ends of runs -------------------------------------------------------------------------------------------


def test_a_task_that_fails_or_is_rejected_does_not_end_the_subscription(world: World, http: httpx.Client, name: str):
    add(http, name)
    world.hands.broken.add(name)
    try:
        until(http, run(http, name), "failed")
    finally:
        world.hands.broken.discard(name)
    with world.holding(name):
        holder = http.post("/api/tasks", json={"type": "tap_once", "account": name}).json()["id"]
        until(http, holder, "running")
        refused = http.post(f"{ALL}/{name}/run")
        assert ((409, "place-taken"), True) == (kind(refused), holder in refused.json()["detail"]), refused.text
        until(http, refused.json()["task"], "rejected")
        line = show(http, name)["changes"][-1]
        assert ("refused", f"the account is in use already by task {holder}") == (line["what"], line["why"])
    until(http, holder, "completed")
    until(http, eventually(lambda: http.post(f"{ALL}/{name}/run").json().get("task_id")), "completed")
    eventually(lambda: ["failed", "rejected", "completed"] == [one["state"] for one in tasks(http, name)])


def test_a_task_that_is_tried_again_still_belongs_to_its_subscription(world: World, http: httpx.Client, name: str):
    add(http, name)
    with world.breaking(name):
        task_id = run(http, name)
        until(http, task_id, "failed")
    assert http.post(f"/api/tasks/{task_id}/retry", json={"actor": "ann"}).is_success
    until(http, task_id, "completed")
    eventually(lambda: [task_id] == [one["task_id"] for one in tasks(http, name, "completed")])


# --- stuck -------------------------------------------------------------------------------------------------------


def listed(http: httpx.Client, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http.get(ALL, params={"account": name}).json()["subscriptions"]
    return found


def test_a_task_that_is_paused_for_too_long_shows_and_is_counted(world: World, http: httpx.Client, name: str):
    made = add(http, name)
    assert (7200, "report", None) == tuple(made[one] for one in ("stuck_after_s", "on_stuck", "stuck"))
    http.patch(f"{ALL}/{name}", json={"stuck_after_s": 1})

    def counted() -> float:
        line = next(one for one in http.get("/metrics").text.splitlines() if one.startswith("droidherd_subscriptions"))
        assert 'region="default"' in line
        return float(line.rpartition(" ")[2])

    assert 0 == counted()
    with world.holding(name):
        task_id = run(http, name)
        until(http, task_id, "running")
        http.post(f"/api/tasks/{task_id}/pause", json={"actor": "ann", "reason": "lunch"})
        stuck = eventually(lambda: show(http, name)["stuck"])
        assert (task_id, "paused") == (stuck["task_id"], stuck["state"])
        eventually(lambda: [True] == [one["stuck"] for one in listed(http, name)])
        assert 1 == counted()
        http.post(f"/api/tasks/{task_id}/resume")
        until(http, task_id, "running")
        eventually(lambda: show(http, name)["stuck"] is None)
        eventually(lambda: counted() == 0)
    until(http, task_id, "completed")


def test_a_task_that_waits_for_too_long_is_cancelled_if_wanted(world: World, http: httpx.Client, name: str):
    add(http, name, stuck_after_s=1, on_stuck="cancel", task={"type": "tap_once", "account": name, "on_busy": "queue"})
    with world.holding(name):
        holder = http.post("/api/tasks", json={"type": "tap_once", "account": name}).json()["id"]
        until(http, holder, "running")
        task_id = run(http, name)
        until(http, task_id, "cancelled")
    line = http.get(f"/api/tasks/{task_id}/events").json()["events"][-1]
    assert ("system:subscription", True) == (line["actor"], line["reason"].startswith("queued since "))
    shown = eventually(lambda: (now := show(http, name))["stuck_tasks"] and now)
    assert (1, True) == (shown["stuck_tasks"], "queued since" in shown["last_tasks"][0]["why"])
    until(http, holder, "completed")


# --- pause and resume --------------------------------------------------------------------------------------------


def test_a_pause_says_who_and_why_and_nothing_starts_meanwhile(http: httpx.Client, name: str):
    add(http, name, every_s=1)
    eventually(lambda: tasks(http, name, "completed"))
    paused = http.post(f"{ALL}/{name}/pause", json={"actor": "ann", "reason": "the game is down"})
    shown = paused.json()
    assert (200, True, "ann", "the game is down") == (
        paused.status_code,
        shown["paused"],
        shown["paused_by"],
        shown["note"],
    )
    assert ([], True) == (shown["next_times"], bool(shown["paused_at"]))
    eventually(lambda: not show(http, name)["running"])
    before = show(http, name)["started"]
    by_hand = until(http, run(http, name), "completed")
    assert before + 1 == show(http, name)["started"], by_hand
    resumed = http.post(f"{ALL}/{name}/resume", json={"actor": "ben", "reason": "up again"}).json()
    assert (False, "", "up again") == (resumed["paused"], resumed["paused_by"], resumed["note"])
    eventually(lambda: show(http, name)["started"] >= before + 3)
    assert 0 == show(http, name)["missed"], "what was due during the pause was not due"
    assert ["created", "paused", "run", "resumed"] == [one["what"] for one in show(http, name)["changes"]]


def test_what_is_paused_already_is_not_paused_a_second_time(http: httpx.Client, name: str):
    add(http, name, every_s=86_400)
    by = {"actor": "ann", "reason": "the game is down"}
    paused = http.post(f"{ALL}/{name}/pause", json=by).json()
    again = [http.post(f"{ALL}/{name}/pause", json=one) for one in (by, {"actor": "ann"})]
    assert [(200, paused)] * 2 == [(one.status_code, one.json()) for one in again]
    other = http.post(f"{ALL}/{name}/pause", json={"actor": "ben", "reason": "mine"}).json()
    assert ("ben", "mine", paused["paused_at"]) == tuple(other[key] for key in ("paused_by", "note", "paused_at"))
    what = [(one["what"], one["actor"]) for one in other["changes"]]
    assert [("created", "somebody"), ("paused", "ann"), ("paused", "ben")] == what


def test_runs_that_waited_when_it_was_paused_are_dropped_and_reported(world: World, http: httpx.Client, name: str):
    add(http, name, every_s=1, overlap="buffer_all")
    eventually(lambda: len(tasks(http, name, "completed")) >= 3)
    with world.holding(name):
        eventually(lambda: show(http, name)["waiting"] >= 2)
        assert http.post(f"{ALL}/{name}/pause").is_success
        waited = show(http, name)["waiting"]
    eventually(lambda: not (now := show(http, name))["running"] and not now["waiting"])
    shown = show(http, name)
    assert (waited, [DROPPED]) == (shown["missed"], [row["why"] for row in shown["missed_runs"]])
    http.post(f"{ALL}/{name}/resume")
    eventually(lambda: show(http, name)["started"] > shown["started"])
    assert waited == show(http, name)["missed"], "resumed, they are not counted again"


def test_a_pause_in_temporal_itself_is_obeyed_and_shown(world: World, http: httpx.Client, name: str):
    add(http, name, every_s=1)
    world.run(world.client.get_schedule_handle(f"subscription/{name}").pause(note="from the Web UI"))
    shown = show(http, name)
    assert (True, "somebody in Temporal", "from the Web UI") == (shown["paused"], shown["paused_by"], shown["note"])
    assert not http.post(f"{ALL}/{name}/resume").json()["paused"]


def test_what_is_not_paused_cannot_be_resumed(http: httpx.Client, name: str):
    add(http, name)
    answer = http.post(f"{ALL}/{name}/resume")
    assert ((409, "illegal-transition"), name) == (kind(answer), answer.json()["subscription"])


def test_it_may_be_made_paused(http: httpx.Client, name: str):
    made = add(http, name, every_s=1, paused=True, actor="ann", reason="not yet")
    assert (True, "ann", "not yet", []) == (made["paused"], made["paused_by"], made["note"], made["next_times"])
    assert 0 == show(http, name)["started"]


# --- secrets -----------------------------------------------------------------------------------------------------


def test_a_secret_parameter_is_shown_masked_and_comes_back_as_it_was(world: World, http: httpx.Client, name: str):
    link = {"type": "daily_reward", "params": {"password": "hunter22"}}
    task = {"type": "daily_reward", "account": name, "params": {"password": "hunter21"}, "then": [link]}
    made = add(http, name, task=task)
    assert "hunter" not in json.dumps(made)
    assert ("***", "***") == (made["task"]["params"]["password"], made["task"]["then"][0]["params"]["password"])
    for method in (http.put, http.patch):
        shown = {field: value for field, value in made["task"].items() if field not in NOT_HERE}
        task = {**shown, "labels": {"team": method.__name__}}
        changed = method(f"{ALL}/{name}", json={"task": task, "every_s": 86_400})
        assert (200, "hunter" in changed.text) == (changed.status_code, False), changed.text
    task_id = run(http, name)
    until(http, task_id, "completed")
    spec = world.run(started_with(world, task_id))
    assert ("hunter21", "hunter22") == (spec.params["password"], spec.then[0].params["password"])
    assert {"team": "patch"} == spec.labels
    until(http, f"{task_id}.2", "completed")
    shown = [http.get(f"/api/tasks/{task_id}{path}").text for path in ("", "/events", "/log")]
    shown += [http.get("/api/tasks", params={"account": name}).text, http.get(f"{ALL}/{name}/tasks").text]
    assert [] == [text for text in shown if "hunter" in text]
    assert "***" in shown[0]


def test_a_failed_task_with_a_secret_parameter_is_tried_again_with_it(world: World, http: httpx.Client, name: str):
    body = {"type": "daily_reward", "account": name, "params": {"password": "hunter21"}}
    with world.breaking(name):
        task_id = http.post("/api/tasks", json=body).json()["id"]
        until(http, task_id, "failed")
    assert http.post(f"/api/tasks/{task_id}/retry").is_success
    until(http, task_id, "completed")
    assert "hunter21" == world.run(started_with(world, task_id)).params["password"]


async def started_with(world: World, task_id: str) -> TaskSpec:
    async for event in world.client.get_workflow_handle(task_id).fetch_history_events():
        payloads = event.workflow_execution_started_event_attributes.input.payloads
        (start,) = await world.client.data_converter.decode(list(payloads), [TaskInput])
        return start.spec
    raise AssertionError(f"{task_id} has no history")


# --- change ------------------------------------------------------------------------------------------------------


def test_put_replaces_and_patch_amends(http: httpx.Client, name: str):
    add(http, name, cron="0 5 * * *", time_zone="Europe/Berlin", jitter_s=30, catch_up_s=60)
    task = {"type": "tap_once", "account": name, "params": {"down": 9}}
    amended = http.patch(f"{ALL}/{name}", json={"task": task, "catch_up_s": 120})
    shown = amended.json()
    assert (200, "0 5 * * *", "Europe/Berlin", 30, 120) == (
        amended.status_code,
        shown["cron"],
        shown["time_zone"],
        shown["jitter_s"],
        shown["catch_up_s"],
    )
    assert {"down": 9} == shown["task"]["params"]
    interval = http.patch(f"{ALL}/{name}", json={"every_s": 60, "offset_s": 5, "actor": "ann", "reason": "often"})
    assert ("", 60, 5, 9) == (*(interval.json()[one] for one in ("cron", "every_s", "offset_s")), 9), interval.text
    assert ("changed", "ann", "often") == tuple(
        interval.json()["changes"][-1][one] for one in ("what", "actor", "reason")
    )
    seconds = {datetime.fromisoformat(one).second for one in interval.json()["next_times"]}
    assert seconds <= set(range(5, 36)), "the jitter stays"
    replaced = http.put(f"{ALL}/{name}", json={"task": {"type": "tap_once"}, "cron": "@hourly"}).json()
    assert ("@hourly", 0, "UTC", 0, 3600, "") == (
        *(replaced[one] for one in ("cron", "every_s", "time_zone", "jitter_s", "catch_up_s")),
        replaced["task"]["account"],
    )
    until(http, run(http, name), "completed")


def test_a_change_keeps_a_pause_and_takes_effect(http: httpx.Client, name: str):
    add(http, name, paused=True)
    assert http.patch(f"{ALL}/{name}", json={"every_s": 1}).json()["paused"]
    assert 0 == show(http, name)["started"]
    http.post(f"{ALL}/{name}/resume")
    eventually(lambda: tasks(http, name, "completed"))


def test_changes_at_the_same_time_do_not_undo_each_other(http: httpx.Client, name: str):
    """The engine drops a change that was made for an older state; it is made again."""
    add(http, name, paused=True)
    actors = ["ann", "ben", "cem", "dia"]
    with ThreadPoolExecutor(4) as threads:
        pause = partial(http.post, f"{ALL}/{name}/pause")
        answers = [one.result() for one in [threads.submit(pause, json={"actor": actor}) for actor in actors]]
    assert {200} == {one.status_code for one in answers}, [one.text for one in answers]
    paused_by = [one["actor"] for one in show(http, name)["changes"] if one["what"] == "paused"]
    assert actors == sorted(paused_by)


def test_two_who_amend_it_at_once_do_not_undo_each_other(http: httpx.Client, name: str):
    add(http, name)
    bodies: list[dict[str, Any]] = [{"jitter_s": 7}, {"catch_up_s": 77}, {"overlap": "buffer_all"}, {"offset_s": 5}]
    with ThreadPoolExecutor(4) as threads:
        amend = partial(http.patch, f"{ALL}/{name}")
        answers = [one.result() for one in [threads.submit(amend, json=body) for body in bodies]]
    assert {200} == {one.status_code for one in answers}, [one.text for one in answers]
    shown = show(http, name)
    assert (7, 77, "buffer_all", 5) == tuple(shown[one] for one in ("jitter_s", "catch_up_s", "overlap", "offset_s"))


# --- the end -----------------------------------------------------------------------------------------------------


def test_deleting_with_finish_lets_the_task_end_and_starts_nothing_more(world: World, http: httpx.Client, name: str):
    add(http, name, every_s=1, overlap="buffer_all")
    with world.holding(name):
        running = eventually(lambda: tasks(http, name, "running"))[0]["task_id"]
        gone = http.delete(f"{ALL}/{name}", params={"tasks": "finish"})
        assert (200, {"id": name, "tasks": "finish", "running": running}) == (gone.status_code, gone.json())
        assert "running" == http.get(f"/api/tasks/{running}").json()["state"]
    until(http, running, "completed")
    assert (404, "not-found") == kind(http.get(f"{ALL}/{name}"))
    assert [] == tasks(http, name, "pending", "queued", "running")
    assert running == tasks(http, name)[-1]["task_id"], "its tasks stay to be read"


def test_deleting_with_cancel_cancels_the_task_by_the_system(world: World, http: httpx.Client, name: str):
    add(http, name, every_s=1, overlap="buffer_all")
    with world.holding(name):
        running = eventually(lambda: tasks(http, name, "running"))[0]["task_id"]
        gone = http.request(
            "DELETE", f"{ALL}/{name}", params={"tasks": "cancel"}, json={"actor": "ann", "reason": "old"}
        )
        assert (200, running) == (gone.status_code, gone.json()["running"])
        until(http, running, "cancelled")
    line = http.get(f"/api/tasks/{running}/events").json()["events"][-1]
    expected = f"subscription {name} was deleted by ann: old"
    assert ("system:subscription", expected) == (line["actor"], line["reason"])
    assert running == tasks(http, name)[-1]["task_id"]


def test_what_is_gone_may_be_made_anew(http: httpx.Client, name: str):
    add(http, name)
    until(http, run(http, name), "completed")
    assert 200 == http.delete(f"{ALL}/{name}").status_code
    assert 0 == add(http, name)["started"]
    until(http, eventually(lambda: http.post(f"{ALL}/{name}/run").json().get("task_id")), "completed")
    assert 2 == len(tasks(http, name))


# --- lists -------------------------------------------------------------------------------------------------------


def test_subscriptions_are_listed_and_filtered(http: httpx.Client, name: str):
    add(http, name, cron="15 4 * * *", time_zone="Asia/Tokyo")
    row = eventually(lambda: rows(http, account=name, type="tap_once"))[0]
    assert (name, "tap_once", name, "15 4 * * *", "Asia/Tokyo", False) == tuple(
        row[one] for one in ("id", "type", "account", "cron", "time_zone", "paused")
    )
    assert 5 == len(row["next_times"])
    assert [] == rows(http, account=name, type="other")
    http.post(f"{ALL}/{name}/pause", json={"reason": "night"})
    (row,) = eventually(lambda: rows(http, account=name, paused=True))
    assert ("night", []) == (row["note"], row["next_times"])
    eventually(lambda: not rows(http, account=name, paused=False))
    http.patch(f"{ALL}/{name}", json={"task": {"type": "tap_once", "account": "nobody"}})
    eventually(lambda: not rows(http, account=name))


def rows(http: httpx.Client, **filters: Any) -> list[dict[str, Any]]:
    return http.get(ALL, params=filters).json()["subscriptions"]


def test_a_list_is_paged(http: httpx.Client, name: str):
    names = [f"{name}-{number}" for number in range(3)]
    for one in names:
        add(http, one, task={"type": "tap_once", "account": name})
    eventually(lambda: 3 == len(rows(http, account=name)))
    first = http.get(ALL, params={"account": name, "limit": 2}).json()
    second = http.get(ALL, params={"account": name, "limit": 2, "cursor": first["cursor"]}).json()
    assert sorted(names) == sorted(one["id"] for page in (first, second) for one in page["subscriptions"])
    wrong = http.get(ALL, params={"account": "other", "cursor": first["cursor"]})
    assert (422, "invalid-input") == kind(wrong)
    for one in names:
        http.delete(f"{ALL}/{one}")
