"""The words of the command, against a stand-in of the API."""

import getpass
import json
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from droidherd.cli import values
from droidherd.cli.client import ApiClient
from droidherd.cli.errors import CliError
from droidherd.cli.local import start
from droidherd.cli.local.instance import serves
from droidherd.processes import pidfile
from droidherd.settings import load
from tests.cli.api_stand_in import ApiState, Document, running
from tests.support.terminal import Terminal


@pytest.fixture
def api_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiState]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".droidherd").mkdir()
    with running() as (url, one):
        monkeypatch.setenv("DROIDHERD_API__PORT", url.rpartition(":")[2])
        yield one


@pytest.fixture
def droidherd(api_state: ApiState, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(capsys, monkeypatch)


def test_submit_says_only_what_was_given(droidherd: Terminal, api_state: ApiState):
    words = ("--account", "a42", "--param", "n=3", "--param", "tab=gift", "--label", "run=7", "--on-busy", "queue")
    document = droidherd.json("submit", "scan", *words, "--idempotency-key", "k1")
    expected = {
        "type": "scan",
        "account": "a42",
        "params": {"n": 3, "tab": "gift"},
        "labels": {"run": "7"},
        "on_busy": "queue",
        "actor": getpass.getuser(),
    }
    (asked,) = api_state.asked
    assert ("POST /api/tasks", expected) == (asked[0], asked[2])
    assert "k1" == asked[3]["Idempotency-Key"]
    assert ("t1", "queued") == (document["id"], document["state"])


def test_submit_waits_for_the_end_and_its_exit_code_tells_it(droidherd: Terminal, api_state: ApiState):
    assert (0, "completed") == (
        (done := droidherd("submit", "scan", "--wait", "20s", "--json"))[0],
        json.loads(done[1])["state"],
    )
    api_state.tasks.append({"task_id": "t9", "type": "scan", "state": "failed"})
    assert 1 == droidherd("task", "watch", "t9", "--json")[0]


def test_submit_takes_an_id_and_a_policy_of_its_own(droidherd: Terminal, api_state: ApiState):
    words = ("--policy", '{"retries": 3, "backoff": "fixed"}', "--policy", "retries=0", "--policy", "backoff_s=1.5")
    assert 0 == droidherd("submit", "scan", "--id", "night-1", *words)[0]
    expected = {"retries": 0, "backoff": "fixed", "backoff_s": 1.5}
    assert ("night-1", expected) == (api_state.asked[0][2]["id"], api_state.asked[0][2]["policy"])


def test_a_duplicate_names_who_holds_the_place(droidherd: Terminal):
    code, printed = droidherd("submit", "scan", "--account", "busy")
    assert 1 == code
    assert "error: duplicate: account busy is held by task t0 (HTTP 409)" in printed


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--param", "n"), "is not name=value"),
        (("--params", "{"), "'--params': is not JSON"),
        (("--params", "[1]"), "not a JSON object"),
        (("--policy", "retries"), "is not name=value"),
        (("--policy", "{retries"), "'--policy': is not JSON"),
        (("--then", "{type"), "'--then': is not JSON"),
        (("--label", "=x"), "is not name=value"),
        (("--wait", "soon"), "is not a duration"),
    ],
)
def test_what_does_not_make_sense_is_reported_in_one_sentence(
    droidherd: Terminal, words: tuple[str, ...], expected: str
):
    code, printed = droidherd("submit", "scan", *words)
    assert 2 == code
    assert expected in printed
    assert "Traceback" not in printed


def test_tasks_reads_all_pages(droidherd: Terminal, api_state: ApiState):
    api_state.tasks = [{"task_id": f"t{n}", "type": "scan", "state": "completed"} for n in range(5)]
    assert ["t0", "t1", "t2", "t3"] == [
        one["task_id"] for one in droidherd.json("task", "list", "--limit", "4")["tasks"]
    ]
    code, printed = droidherd("task", "show", "t3")
    assert (0, True) == (code, "t3" in printed and "completed" in printed)


def test_tasks_shows_why_one_waits(droidherd: Terminal, api_state: ApiState):
    api_state.tasks = [{"task_id": "t1", "type": "scan", "state": "queued", "why": "account busy with t0 [bold]"}]
    assert "account busy with t0 [bold]" in droidherd("task", "list")[1]


def test_tasks_shows_where_one_ran_last(droidherd: Terminal, api_state: ApiState):
    attempts = [{"n": 1, "emulator": "e1"}, {"n": 2, "emulator": "e2"}]
    api_state.tasks = [{"task_id": "t1", "type": "scan", "state": "completed", "emulator": "", "attempts": attempts}]
    assert "e2" in droidherd("task", "show", "t1")[1]


def test_status_puts_what_temporal_knows_beside_the_hosts_own_list(
    droidherd: Terminal, api_state: ApiState, tmp_path: Path
):
    for port, name in ((7001, "e10"), (7002, "e9"), (7003, "late")):
        droidherd("emulator", "connect", f"127.0.0.1:{port}", "--name", name, "--wait", "0s")
    api_state.emulators = [{"emulator_id": "e10", "state": "up", "address": ""}, {"emulator_id": "e9", "state": "down"}]
    found = droidherd.json("status")["emulators"]
    expected = [("e9", "down", 7002), ("e10", "up", 7001), ("late", "not seen yet", 7003)]
    assert [(n, s, f"127.0.0.1:{p}") for n, s, p in expected] == [
        (one["emulator_id"], one["state"], one["address"]) for one in found
    ]


def test_watch_ends_when_what_it_watches_ended(droidherd: Terminal, api_state: ApiState):
    api_state.tasks = [{"task_id": name, "type": "scan", "state": "queued"} for name in ("t1", "t2")]
    code, printed = droidherd("task", "watch", "t1", "t2", "--json")
    states = [json.loads(line) for line in printed.splitlines()]
    assert 0 == code
    assert ["running", "completed"] == [one["state"] for one in states if one["task_id"] == "t2"]


def test_watch_outlasts_a_temporal_server_that_is_away_for_a_while(droidherd: Terminal, api_state: ApiState):
    api_state.tasks = [{"task_id": "t1", "type": "scan", "state": "queued"}]
    api_state.refuse_next = 2
    code, printed = droidherd("task", "watch", "t1", "--json")
    assert (0, 2) == (code, len([asked for asked in api_state.asked if asked[0] == "GET /api/tasks/t1"]) - 2)
    assert "engine away" not in printed


def test_watch_does_not_wait_for_what_will_never_be(droidherd: Terminal, api_state: ApiState):
    code, printed = droidherd("task", "watch", "t9", "--json")
    assert (1, 1) == (code, len(api_state.asked))
    assert "there is no task t9" in printed


def test_watch_shows_the_queue_and_who_paused_it(droidherd: Terminal, api_state: ApiState):
    api_state.tasks = [{"task_id": "t1", "type": "scan", "state": "completed"}]
    code, printed = droidherd("task", "watch", "t1")
    assert 0 == code
    assert "waiting 1   running 2   free 3   account paused by ann" in printed


def test_pause_resume_and_cancel_have_their_reason(droidherd: Terminal, api_state: ApiState):
    for word, state in (("pause", "paused"), ("resume", "pending"), ("cancel", "cancelled")):
        assert state == droidherd.json(word, "t1", "--reason", "night")["state"]
    assert [{"reason": "night", "actor": getpass.getuser()}] * 3 == [asked[2] for asked in api_state.asked]


def test_a_task_is_put_in_front(droidherd: Terminal, api_state: ApiState):
    api_state.tasks = [{"task_id": "t1", "type": "scan", "state": "queued"}]
    assert "t1" == droidherd.json("task", "prioritize", "t1", "--reason", "soon")["task_id"]
    request = {"reason": "soon", "actor": getpass.getuser(), "priority": 1}
    assert ("POST /api/tasks/t1/prioritize", request) == (api_state.asked[0][0], api_state.asked[0][2])


def test_the_answer_to_an_order_is_printed(droidherd: Terminal, api_state: ApiState):
    api_state.tasks = [{"task_id": "t1", "type": "scan", "state": "queued"}]
    api_state.detail = "nobody is in lane acount yet; the others are: account"
    assert api_state.detail in droidherd("task", "prioritize", "t1", "--priority", "9")[1].replace("\n", " ")
    assert api_state.detail in droidherd("queue", "lanes", "acount", "--capacity", "4", "--create")[1].replace(
        "\n", " "
    )
    assert api_state.detail == droidherd.json("queue", "lanes", "acount", "--capacity", "4", "--create")["detail"]


def test_pause_and_resume_together_are_refused(droidherd: Terminal, api_state: ApiState):
    for words in (("--pause", "--resume"), ("--resume", "--pause")):
        code, printed = droidherd("queue", "lanes", "account", *words)
        assert (2, True) == (code, "say one of --pause and --resume" in printed), printed
    assert [] == api_state.asked


def test_lanes_are_shown_and_ordered(droidherd: Terminal, api_state: ApiState):
    assert ["account"] == [one["name"] for one in droidherd.json("queue", "lanes")["lanes"]]
    assert "ann" in droidherd("queue", "lanes", "account", "--pause", "--reason", "night")[1]
    droidherd("queue", "lanes", "account", "--capacity", "4")
    droidherd("queue", "lanes", "account", "--order", "priority", "--ageing", "20")
    droidherd("queue", "lanes", "account", "--reset", "--reason", "over")
    me = {"actor": getpass.getuser()}
    order = {"lane": "account", **me}
    printed = [(asked[0], asked[2]) for asked in api_state.asked if not asked[0].startswith("GET")]
    assert [
        ("POST /api/queue/pause", {**order, "reason": "night"}),
        ("POST /api/queue/capacity", {**order, "reason": "", "capacity": 4}),
        ("POST /api/queue/order", {**order, "reason": "", "order": "priority", "ageing": 20}),
        ("DELETE /api/queue/lanes/account", {**me, "reason": "over"}),
    ] == printed


def test_a_lane_that_is_not_there_is_no_empty_table(droidherd: Terminal):
    assert 0 == droidherd("queue", "lanes", "nope", "--reset")[0], "it is forgotten, as was asked"
    code, printed = droidherd("queue", "lanes", "nope")
    assert (1, True) == (code, "there is no lane nope" in printed)


@pytest.mark.parametrize("words", [("--capacity", "4"), ("--order", "arrival"), ("--reset",)])
def test_what_is_set_of_one_lane_needs_its_name(droidherd: Terminal, api_state: ApiState, words: tuple[str, ...]):
    assert (2, []) == (droidherd("queue", "lanes", *words)[0], api_state.asked)


def test_statistics_are_shown_by_type_and_in_total(droidherd: Terminal, api_state: ApiState):
    printed = droidherd("queue", "stats", "scan")[1]
    assert "type=scan" == api_state.asked[0][1]
    assert [True, True] == [re.search(row, printed) is not None for row in (r"scan +4 +2 +1 +1 +0 +67%", r"all +4")]
    assert "1.5 s" in printed
    assert 4 == droidherd.json("queue", "stats")["total"]["count"]


def test_the_audit_says_who_did_what_and_why(droidherd: Terminal, api_state: ApiState):
    printed = droidherd("queue", "audit", "--actor", "ann", "--action", "lane_paused")[1]
    assert "actor=ann&action=lane_paused" in api_state.asked[0][1]
    assert ["lane_paused", "ann for ben", "night", "mutex_broken", "shop"] == [
        word for word in ("lane_paused", "ann for ben", "night", "mutex_broken", "shop") if word in printed
    ]
    assert [12, 7] == [one["id"] for one in droidherd.json("queue", "audit")["entries"]]


def test_whose_name_has_a_key_on_this_machine_sends_it(
    droidherd: Terminal, api_state: ApiState, monkeypatch: pytest.MonkeyPatch
):
    api_state.key = "secret"
    monkeypatch.setenv("DROIDHERD_API__KEYS", json.dumps({getpass.getuser(): "secret", "other": "wrong"}))
    assert {"tasks": []} == droidherd.json("task", "list")


def test_the_key_of_a_file_is_sent(
    droidherd: Terminal, api_state: ApiState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    api_state.key = "secret"
    asked = droidherd("task", "list")[1]
    assert (True, True) == ("wants a key" in asked, "set DROIDHERD_API__KEY to yours" in asked)
    monkeypatch.setenv("DROIDHERD_API__KEY", "stale")
    asked = droidherd("task", "list")[1]
    assert (True, True) == ("does not know this key" in asked, "it comes from DROIDHERD_API__KEY" in asked)
    monkeypatch.delenv("DROIDHERD_API__KEY")
    (tmp_path / "key").write_text("secret\n")
    monkeypatch.setenv("DROIDHERD_API__KEY_FILE", str(tmp_path / "key"))
    assert {"tasks": []} == droidherd.json("task", "list")


def test_nothing_there_is_exit_code_3_and_says_what_to_do(droidherd: Terminal):
    code, printed = droidherd("task", "list", "--url", "http://127.0.0.1:1")
    assert 3 == code
    assert "start the instance with `droidherd up`" in printed


def test_status_of_nothing_is_exit_code_3(droidherd: Terminal):
    assert (3, True) == ((done := droidherd("status"))[0], "nothing runs in" in done[1])


@pytest.mark.parametrize("kept", ["ports.json", "emulators.json", "logs"])
def test_commands_of_an_instance_that_is_down_do_not_go_to_another_one(
    kept: str, droidherd: Terminal, api_state: ApiState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    data = tmp_path / ".droidherd"
    (data / "logs").mkdir() if kept == "logs" else (data / kept).write_text('{"emulators": []}')
    another = f"http://127.0.0.1:{os.environ['DROIDHERD_API__PORT']}"
    (data / "ready.json").write_text(json.dumps({"api": another}))  # of an instance that was killed
    monkeypatch.delenv("DROIDHERD_API__PORT")
    for words in (("ps",), ("task", "list"), ("pause", "t1"), ("status",)):
        code, printed = droidherd(*words)
        assert (3, True) == (code, f"nothing runs in {data}; start it with `droidherd up`" in printed), printed
    pidfile.record(data / "run", "up", os.getpid())
    (data / "ready.json").unlink()
    assert (3, True) == ((done := droidherd("ps"))[0], "is still starting" in done[1])
    status = droidherd.json("status")
    assert ([], True, False) == (api_state.asked, status["up"], status["healthy"])
    (data / "ready.json").write_text(json.dumps({"api": another}))
    assert 0 == droidherd("task", "list")[0]


def test_status_asks_an_api_that_does_not_answer_nothing_more(droidherd: Terminal, tmp_path: Path):
    run = tmp_path / ".droidherd" / "run"
    for name in ("up", "api"):
        pidfile.record(run, name, os.getpid())
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    (tmp_path / ".droidherd" / "ready.json").write_text(json.dumps({"api": f"http://127.0.0.1:{port}"}))
    assert "the API does not answer (ConnectError)" in droidherd.json("status")["problems"]


@pytest.mark.parametrize("word", ["logs", "down"])
def test_where_no_instance_has_ever_been_the_answer_is_exit_code_3(word: str, droidherd: Terminal, tmp_path: Path):
    (tmp_path / ".droidherd").rmdir()
    code, printed = droidherd(word)
    assert (3, True) == (code, "there is no instance here" in printed)


def test_connect_waits_until_the_emulator_is_up(droidherd: Terminal, api_state: ApiState, tmp_path: Path):
    api_state.emulators = [{"emulator_id": "phone", "state": "up", "address": "127.0.0.1:7777"}]
    code, printed = droidherd("emulator", "connect", "127.0.0.1:7777", "--name", "phone", "--label", "app=game")
    assert (0, "phone at 127.0.0.1:7777: up\n") == (code, printed)
    (entry,) = json.loads((tmp_path / ".droidherd/emulators.json").read_text())["emulators"]
    assert ("phone", {"app": "game"}) == (entry["emulator_id"], entry["labels"])
    droidherd("emulator", "connect", "127.0.0.1:7777", "--label", "region=eu", "--label", "app=")
    (entry,) = json.loads((tmp_path / ".droidherd/emulators.json").read_text())["emulators"]
    assert ("phone", {"region": "eu"}) == (entry["emulator_id"], entry["labels"])


def test_connect_says_in_which_state_it_gave_up(droidherd: Terminal, api_state: ApiState):
    api_state.emulators = [{"emulator_id": "emulator-127.0.0.1-7777", "state": "registering", "evidence": "no frame"}]
    code, printed = droidherd("emulator", "connect", "127.0.0.1:7777", "--wait", "500ms")
    assert 1 == code
    assert "emulator-127.0.0.1-7777 is registering" in printed
    assert "no frame" in printed


@pytest.mark.parametrize("address", ["", "here", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", "a b:1", "x:y"])
def test_connect_refuses_what_is_no_address(droidherd: Terminal, address: str, tmp_path: Path):
    code, printed = droidherd("emulator", "connect", address)
    assert 2 == code
    assert "is not an address; write host:port" in printed
    assert not (tmp_path / ".droidherd/emulators.json").exists()


def test_connect_again_under_another_name_replaces(droidherd: Terminal, tmp_path: Path):
    droidherd("emulator", "connect", "127.0.0.1:7777", "--wait", "0s")
    droidherd("emulator", "connect", "127.0.0.1:7777", "--wait", "0s", "--name", "phone")
    found = json.loads((tmp_path / ".droidherd/emulators.json").read_text())["emulators"]
    assert ["phone"] == [one["emulator_id"] for one in found]


def test_connect_says_who_starts_an_emulator_and_keeps_what_is_not_given(droidherd: Terminal, tmp_path: Path):
    droidherd("emulator", "connect", "emulator-5554", "--controller", "avd", "--instance", "Pixel_7", "--wait", "0s")
    droidherd("emulator", "connect", "127.0.0.1:5555", "--label", "app=x", "--wait", "0s")
    (found,) = json.loads((tmp_path / ".droidherd/emulators.json").read_text())["emulators"]
    assert ("127.0.0.1:5555", "avd", "Pixel_7", {"app": "x"}) == (
        found["address"],
        found["controller"],
        found["instance"],
        found["labels"],
    )


def test_connect_refuses_a_controller_that_is_not_there(droidherd: Terminal, tmp_path: Path):
    code, printed = droidherd("emulator", "connect", "127.0.0.1:7777", "--controller", "nobody")
    assert (1, False) == (code, (tmp_path / ".droidherd/emulators.json").exists())
    assert "there is no controller 'nobody'" in printed
    assert "none, virtual, avd, mumu, ldplayer" in printed


@pytest.mark.parametrize("order", ["restart", "recover", "quarantine", "release", "drain", "undrain"])
def test_an_order_to_an_emulator_says_who_and_why(order: str, droidherd: Terminal, api_state: ApiState):
    code, printed = droidherd("emulator", order, "phone", "--reason", "flickers")
    assert (0, f"phone: {order} requested\n") == (code, printed)
    asked, _, body, _ = api_state.asked[-1]
    expected = (f"POST /api/emulators/phone/{order}", "flickers", getpass.getuser())
    assert expected == (asked, body["reason"], body["actor"])


def test_logs_names_what_there_is(droidherd: Terminal, tmp_path: Path):
    logs = tmp_path / ".droidherd" / "logs"
    logs.mkdir(parents=True)
    (logs / "api.log").write_text("one\ntwo [x]\nthree\n")
    code, printed = droidherd("logs", "api", "--lines", "2")
    assert (0, ["api       two [x]", "api       three"]) == (code, printed.splitlines())
    code, printed = droidherd("logs", "apo")
    assert 2 == code
    assert "there are: api" in printed


def test_settings_that_make_no_sense_are_reported(droidherd: Terminal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DROIDHERD_API__PORT", "many")
    code, printed = droidherd("task", "list")
    assert 2 == code
    assert "api.port" in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("text", "expected"),
    [("60s", 60.0), ("2m", 120.0), ("1.5h", 5400.0), ("250ms", 0.25), ("7", 7.0), (" 3 min ", 180.0)],
)
def test_durations(text: str, expected: float):
    assert expected == values.duration_s(text)


@pytest.mark.parametrize("text", ["", "s", "-1s", "1d", "1 hour", "nan", "1e9"])
def test_no_durations(text: str):
    with pytest.raises(ValueError, match="is not a duration"):
        values.duration_s(text)


def test_documents_are_json_with_accents(droidherd: Terminal, api_state: ApiState):
    api_state.tasks = [{"task_id": "t1", "state": "failed", "error": {"message": "é"}}]
    found: Document = droidherd.json("task", "show", "t1")
    assert "é" == found["error"]["message"]


def test_a_cleanup_says_what_went_and_who_wanted_it(droidherd: Terminal, api_state: ApiState):
    code, printed = droidherd("task", "cleanup", "--reason", "audit")
    assert 0 == code
    assert "removed: 2 failed, artifacts of 1 unknown tasks, 2.5 MB" in printed
    assert "and 2 more" in printed
    assert ["t1", "failed", "35", "d", "2.5", "MB", "old", "enough"] == printed.splitlines()[1].split()
    request = {"dry_run": False, "reason": "audit", "actor": getpass.getuser()}
    assert [("POST /api/maintenance/cleanup", "wait=30s", request)] == [asked[:3] for asked in api_state.asked]


def test_a_dry_run_of_a_cleanup_says_what_would_go(droidherd: Terminal, api_state: ApiState):
    assert "would be removed: 2 failed" in droidherd("task", "cleanup", "--dry-run")[1]
    assert droidherd.json("task", "cleanup", "--dry-run")["report"]["dry_run"]


def test_a_cleanup_that_left_something_says_so_by_its_exit_code(droidherd: Terminal, api_state: ApiState):
    api_state.troubles = ["host h1 is away [x]"]
    code, printed = droidherd("task", "cleanup")
    assert (1, True) == (code, "not done: host h1 is away [x]" in printed)


def test_a_cleanup_that_takes_long_goes_on_by_itself(droidherd: Terminal, api_state: ApiState):
    api_state.slow = True
    code, printed = droidherd("task", "cleanup")
    assert (0, True) == (code, "still running as maintenance/cleanup/by-hand" in printed)


def test_an_api_that_is_not_ready_says_what_is_wrong(api_state: ApiState):
    api_state.parts = {"engine": "", "disk": "0.10 GB free at /data (data), wanted are 1.00 GB"}
    with ApiClient(f"http://127.0.0.1:{os.environ['DROIDHERD_API__PORT']}") as api:
        assert f"disk: {api_state.parts['disk']} (HTTP 503)" == api.healthy()


@pytest.mark.parametrize(
    ("status", "content", "expected"),
    [
        (200, {}, True),
        (503, {"parts": {"engine": "", "disk": "full"}}, True),
        (503, {"parts": {"engine": "away", "disk": "full"}}, False),
        (503, {"parts": {"engine": "", "disk": ""}}, False),
        (503, {"title": "away"}, False),
        (503, [], False),
    ],
)
def test_an_instance_short_of_nothing_but_disk_space_serves(status: int, content: object, expected: bool):
    """Whoever frees disk space needs the API."""
    assert expected == serves(httpx.Response(status, json=content))


def test_connect_where_no_instance_is_writes_nothing(
    droidherd: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / ".droidherd").rmdir()
    monkeypatch.delenv("DROIDHERD_API__PORT")
    code, printed = droidherd("emulator", "connect", "127.0.0.1:7777", "--wait", "0s")
    assert (1, True, False) == (code, "there is no instance here" in printed, (tmp_path / ".droidherd").exists())
    assert (3, True) == ((done := droidherd("task", "list"))[0], "there is no instance here" in done[1])


def test_connect_says_why_an_emulator_does_not_come(droidherd: Terminal):
    code, printed = droidherd("emulator", "connect", "127.0.0.1:1", "--name", "phone", "--wait", "100ms")
    assert (1, True) == (code, "phone is not seen yet after 0 s: nothing listens at 127.0.0.1:1" in printed)
    assert "droidherd emulator forget phone" in printed


def test_the_list_of_emulators_shows_the_addresses_of_this_host(droidherd: Terminal, api_state: ApiState):
    droidherd("emulator", "connect", "127.0.0.1:7777", "--name", "phone", "--wait", "0s")
    api_state.emulators = [{"emulator_id": name, "state": "up", "address": ""} for name in ("other", "phone")]
    found = droidherd.json("emulator", "list")["emulators"]
    assert [("other", ""), ("phone", "127.0.0.1:7777")] == [(one["emulator_id"], one["address"]) for one in found]


def test_a_forgotten_emulator_is_off_the_list(droidherd: Terminal, tmp_path: Path):
    droidherd("emulator", "connect", "127.0.0.1:7777", "--name", "phone", "--wait", "0s")
    assert (
        0,
        "phone at 127.0.0.1:7777: taken off the list; `droidherd emulator list --all` shows it as retired\n",
    ) == droidherd("emulator", "forget", "phone")
    assert [] == json.loads((tmp_path / ".droidherd/emulators.json").read_text())["emulators"]
    code, printed = droidherd("emulator", "forget", "phone")
    assert (1, True) == (code, "no emulator 'phone' is in the list" in printed)


def test_a_command_says_which_instance_it_means_from_below(
    droidherd: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    code, printed = droidherd("task", "list")
    assert (0, True) == (code, f"instance {tmp_path / '.droidherd'}" in printed)


@pytest.mark.parametrize(("given", "expected"), [(None, 2), (0, 0), (3, 3)])
def test_up_runs_as_many_virtual_emulators_as_at_the_last_up(
    given: int | None, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert 0 == start.with_last_virtual(load(data=tmp_path)).virtual
    (tmp_path / "last_up.json").write_text('{"virtual": 2}')
    assert expected == start.with_last_virtual(load(data=tmp_path, virtual=given)).virtual
    if given is not None:
        monkeypatch.setenv("DROIDHERD_VIRTUAL", str(given))
        assert expected == start.with_last_virtual(load(data=tmp_path)).virtual


@pytest.mark.parametrize("content", ["[]", "{", '{"virtual": "many"}', '{"virtual": -1}'])
def test_a_note_of_the_last_up_that_makes_no_sense_is_named(content: str, tmp_path: Path):
    (tmp_path / "last_up.json").write_text(content)
    with pytest.raises(CliError, match=r"last_up.json cannot be read"):
        start.with_last_virtual(load(data=tmp_path))
