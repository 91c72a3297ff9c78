"""`droidherd subscription`, against the real API."""

import getpass
from pathlib import Path

import httpx
import pytest

from tests.api.recurring import show, tasks
from tests.api.test_tasks import until
from tests.api.waiting import eventually
from tests.api.world import World
from tests.support.terminal import Terminal


@pytest.fixture
def droidherd(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(capsys, monkeypatch, before=("subscription",), after=("--url", world.url))


def test_what_is_added_is_what_was_given(droidherd: Terminal, http: httpx.Client, name: str):
    words = ("--cron", "30 5 * * 1-5", "--time-zone", "Asia/Shanghai", "--jitter", "2m", "--catch-up", "2h")
    task = ("--account", name, "--param", "down=7", "--label", "team=ops", "--priority", "4", "--on-busy", "queue")
    made = droidherd.json("add", "tap_once", "--id", name, *words, *task, "--overlap", "buffer_one", "--reason", "new")
    assert (name, "30 5 * * 1-5", "Asia/Shanghai", 120, 7200, "buffer_one") == tuple(
        made[one] for one in ("id", "cron", "time_zone", "jitter_s", "catch_up_s", "overlap")
    )
    assert {"account": name, "params": {"down": 7}, "labels": {"team": "ops"}, "priority": 4, "on_busy": "queue"} == {
        field: made["task"][field] for field in ("account", "params", "labels", "priority", "on_busy")
    }
    assert ("created", getpass.getuser(), "new") == tuple(
        made["changes"][0][one] for one in ("what", "actor", "reason")
    )
    eventually(lambda: name in droidherd("list", "--account", name)[1])
    assert [name] == [one["id"] for one in droidherd.json("list", "--account", name)["subscriptions"]]
    assert [] == droidherd.json("list", "--account", name, "--paused")["subscriptions"]


def test_what_is_left_out_is_for_the_api_to_decide(droidherd: Terminal, name: str):
    made = droidherd.json("add", "tap_once", "--id", name, "--every", "6h", "--offset", "20m", "--paused")
    expected = (21_600, 1200, "skip", 3600, "UTC", True)
    assert expected == tuple(
        made[one] for one in ("every_s", "offset_s", "overlap", "catch_up_s", "time_zone", "paused")
    )
    assert (5, "default", {}) == tuple(made["task"][one] for one in ("priority", "pool", "labels"))


def test_patience_with_its_task_is_set_and_a_stuck_one_shows(
    world: World, droidherd: Terminal, http: httpx.Client, name: str
):
    times = ("--every", "24h", "--stuck-after", "1s", "--on-stuck", "report")
    made = droidherd.json("add", "tap_once", "--id", name, "--account", name, *times)
    assert (1, "report") == (made["stuck_after_s"], made["on_stuck"])
    with world.holding(name):
        task_id = droidherd.json("run", name)["task_id"]
        until(http, task_id, "running")
        http.post(f"/api/tasks/{task_id}/pause", json={"actor": "ann", "reason": "lunch"})
        eventually(lambda: f"stuck: task {task_id} is paused since" in droidherd("show", name)[1])
        eventually(lambda: "stuck" in droidherd("list", "--account", name)[1])
    http.post(f"/api/tasks/{task_id}/cancel")
    made = droidherd.json("add", "tap_once", "--id", f"{name}-2", "--every", "24h", "--stuck-after", "0")
    assert 0 == made["stuck_after_s"]


def test_it_is_run_paused_resumed_and_removed(droidherd: Terminal, http: httpx.Client, name: str):
    droidherd.json("add", "tap_once", "--id", name, "--every", "24h", "--account", name)
    done = droidherd.json("run", name, "--wait", "60s", "--reason", "now")
    assert ("completed", True) == (done["state"], done["task_id"].startswith(f"{name}."))
    assert "now" == show(http, name)["changes"][-1]["reason"]
    code, output = droidherd("pause", name, "--reason", "night")
    assert (0, True, True) == (code, "paused" in output, "night" in output)
    assert (False, "") == ((now := droidherd.json("resume", name))["paused"], now["note"])
    output = droidherd("show", name)[1]
    assert all(word in output for word in (name, "started 1", "missed 0", "completed", "every 24 h")), output
    gone = droidherd.json("remove", name)
    assert (name, "finish", "") == (gone["id"], gone["tasks"], gone["running"])
    assert "completed" == tasks(http, name)[0]["state"]


def test_removing_may_cancel_the_task_that_runs(world: World, droidherd: Terminal, http: httpx.Client, name: str):
    droidherd.json("add", "tap_once", "--id", name, "--every", "24h", "--account", name)
    with world.holding(name):
        task_id = droidherd.json("run", name)["task_id"]
        until(http, task_id, "running")
        code, output = droidherd("remove", name, "--tasks", "cancel")
        assert (0, True) == (code, f"task {task_id} is cancelled" in output)
        until(http, task_id, "cancelled")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("show", "nobody"), (1, "no subscription `nobody` (HTTP 404)")),
        (("run", "nobody"), (1, "no subscription `nobody` (HTTP 404)")),
        (("add", "tap_once"), (1, "give either `cron` or `every_s`")),
        (("add", "tap_once", "--cron", "0 25 * * *"), (2, "cron: '25' is no hour")),
        (("add", "no_such", "--every", "1h"), (1, "task.type: there is no task type 'no_such'")),
        (("add", "tap_once", "--every", "soon"), (2, "'soon' is not a duration")),
        (("add", "tap_once", "--every", "0.5s"), (2, "'0.5s' is not in whole seconds")),
        (("remove", "nobody", "--tasks", "kill"), (2, "'kill' is not one of 'finish', 'cancel'")),
    ],
)
def test_what_is_not_possible_is_reported_in_one_sentence(
    droidherd: Terminal, words: tuple[str, ...], expected: tuple[int, str]
):
    code, output = droidherd(*words)
    assert (expected[0], True) == (code, expected[1] in output), output


def test_a_run_that_may_not_begin_says_who_holds_the_place(
    world: World, droidherd: Terminal, http: httpx.Client, name: str
):
    droidherd.json("add", "tap_once", "--id", name, "--every", "24h", "--account", name)
    with world.holding(name):
        task_id = droidherd.json("run", name)["task_id"]
        until(http, task_id, "running")
        code, output = droidherd("run", name)
        assert (1, True) == (code, task_id in output), output
    until(http, task_id, "completed")
