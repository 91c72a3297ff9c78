"""One task from the command line: whole, its log, its end, its report; against a stand-in of the API."""

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock
from xml.etree import ElementTree as ET

import pytest

from droidherd.cli import output
from droidherd.cli.commands import tasks
from droidherd.cli.junit import JunitCase, write
from tests.cli.api_stand_in import ApiState, Document
from tests.cli.test_commands import api_state, droidherd
from tests.support.terminal import Terminal

__all__ = ["api_state", "droidherd"]

ERROR: Document = {"kind": "ScreenNotReachedError", "message": "gold.png did not appear", "remedy": "look at the page"}
FAILED: Document = {
    "task_id": "t1",
    "type": "scan",
    "account": "ann",
    "state": "failed",
    "error": ERROR,
    "labels": {"team": "ops"},
    "created_at": "2026-03-01T10:00:00Z",
    "ended_at": "2026-03-01T10:00:07.500Z",
    "stages": [{"name": "open", "state": "completed", "emulator": "e1"}, {"name": "collect", "state": "waiting"}],
    "attempts": [
        {"n": 1, "emulator": "e1", "token": 7, "started": "2026-03-01T10:00:01Z", "ended": "2026-03-01T10:00:04Z",
         "outcome": "failed", "error": ERROR}
    ],
}  # fmt: skip
EVENTS: list[Document] = [
    {"at": "2026-03-01T10:00:00Z", "before": "pending", "event": "admitted", "after": "queued", "actor": "ann"},
    {"at": "2026-03-01T10:00:07Z", "before": "running", "event": "failed", "after": "failed", "actor": "system"},
]
PAGE = "1-0-1-collect.evidence.html"
ESCAPE = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202egnp"


@pytest.fixture
def failed(api_state: ApiState) -> ApiState:
    api_state.tasks = [dict(FAILED)]
    api_state.files = {"events": EVENTS, "artifacts": [{"name": PAGE, "size": 2048, "content_type": "text/html"}]}
    return api_state


def test_a_task_is_shown_whole(droidherd: Terminal, failed: ApiState) -> None:
    code, printed = droidherd("task", "show", "t1")
    wanted = ("t1", "team=ops", "gold.png did not appear", "look at the page", "open", "collect", "3.0 s", "admitted",
              "pending → queued", PAGE, "2.0 kB", f"/api/tasks/t1/artifacts/{PAGE}")  # fmt: skip
    assert (0, []) == (code, [one for one in wanted if one not in printed]), printed


def test_a_task_is_one_document(droidherd: Terminal, failed: ApiState) -> None:
    found = droidherd.json("task", "show", "t1")
    assert (EVENTS, [PAGE]) == (found["events"], [one["name"] for one in found["artifacts"]])
    assert [True] == [one.endswith(f"/api/tasks/t1/artifacts/{PAGE}") for one in found["evidence"]]


def test_a_question_is_shown_with_what_answers_it(droidherd: Terminal, api_state: ApiState) -> None:
    question = {"number": 2, "text": "did it tap?", "choices": ["yes", "give up"], "frame_url": "/api/artifacts/f.jpg"}
    api_state.tasks = [{"task_id": "t1", "type": "scan", "state": "waiting", "question": question}]
    printed = droidherd("task", "show", "t1")[1]
    answer = "droidherd task answer t1"
    wanted = ("did it tap?", f"{answer} yes --question 2", f"{answer} 'give up' --question 2", "artifacts/f.jpg")
    assert [] == [one for one in wanted if one not in printed]


def test_what_is_asked_for_and_when_it_tries_again_are_shown(droidherd: Terminal, api_state: ApiState) -> None:
    later = {"task_id": "t2", "state": "retry_pending", "retry_at": "2026-03-01T10:00:05+00:00", "why": "tries again"}
    api_state.tasks = [{"task_id": "t1", "state": "running", "intent": "pause"}, later]
    printed = droidherd("task", "list")[1]
    assert ("running, pausing" in printed, output.clock("2026-03-01T10:00:05+00:00") in printed) == (True, True)


def test_a_task_in_line_again_says_what_it_waits_for_not_how_it_failed() -> None:
    why, failed = "e1 is draining (by ann: new disk)", "home did not appear"
    task = {"task_id": "t1", "error": {"message": failed}}
    assert why == tasks.row({**task, "state": "queued", "why": why})[-1]
    assert failed == tasks.row({**task, "state": "failed", "why": ""})[-1]
    at = output.clock("2026-03-01T10:00:05+00:00")
    later = {**task, "state": "retry_pending", "retry_at": "2026-03-01T10:00:05+00:00", "why": "attempt 2 in 5 s"}
    assert f"next attempt at {at}: {failed}" == tasks.row(later)[-1]


def test_a_cancelled_task_says_who_cancelled_it_not_what_an_attempt_met() -> None:
    task = {"state": "cancelled", "why": "cancelled by ann: lunch", "error": {"message": "home did not appear"}}
    assert "cancelled by ann: lunch" == tasks.row(task)[-1]


def test_only_of_a_task_that_ended_it_says_where_it_ran_last() -> None:
    task = {"task_id": "t1", "attempts": [{"emulator": "e1"}]}
    assert ["e1", "", "e2"] == [
        tasks.row(one)[4]
        for one in ({**task, "state": "failed"}, {**task, "state": "waiting"}, {**task, "emulator": "e2"})
    ]


def test_a_task_that_was_never_attempted_shows_that() -> None:
    assert "0" == tasks.row({"task_id": "t1", "state": "rejected", "attempt": 0})[5]


def test_a_log_is_followed_until_the_task_has_ended(droidherd: Terminal, api_state: ApiState) -> None:
    api_state.tasks = [{"task_id": "t1", "type": "scan", "state": "queued"}]
    api_state.logs = [["one", "two"], ["one", "two", "three"]]
    assert (0, ["two", "three"]) == ((done := droidherd("task", "log", "t1", "-f", "-n", "1"))[0], done[1].splitlines())
    assert ["one", "two", "three"] == droidherd("task", "log", "t1")[1].splitlines()


def test_who_waited_for_a_failed_task_is_led_to_its_evidence(
    droidherd: Terminal, api_state: ApiState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_state, "_one", Mock(return_value=(200, FAILED)))
    api_state.files = {"artifacts": [{"name": PAGE}]}
    code, printed = droidherd("submit", "scan", "--wait", "20s", "--junit", str(tmp_path / "ci" / "scan.xml"))
    assert (1, True, True) == (code, f"artifacts/{PAGE}" in printed, "droidherd task show t1" in printed)
    (case,) = ET.parse(tmp_path / "ci" / "scan.xml").getroot().iter("testcase")  # noqa: S314 (we wrote it)
    assert ("t1", "scan", "7.500") == (case.get("name"), case.get("classname"), case.get("time"))
    (failure,) = case.iter("failure")
    assert ("gold.png did not appear", "ScreenNotReachedError") == (failure.get("message"), failure.get("type"))
    assert PAGE in (failure.text or "")


def test_a_report_of_what_nobody_waits_for_is_refused(droidherd: Terminal, api_state: ApiState) -> None:
    code, printed = droidherd("submit", "scan", "--junit", "x.xml")
    assert (2, True, []) == (code, "add --wait" in printed, api_state.asked)


def test_a_report_holds_what_xml_cannot(tmp_path: Path) -> None:
    write(tmp_path / "r.xml", "s", [JunitCase("a<b", "g", 1.0, f'"{ESCAPE}\x00\ud800&"', output="ok\ufffe")])
    written = (tmp_path / "r.xml").read_text()
    assert [] == [char for char in "\x1b\x07\x9b\u202e" if char in written]
    root = ET.parse(tmp_path / "r.xml").getroot()  # noqa: S314 (we wrote it)
    assert ("1", "1") == (root.get("tests"), root.get("failures"))
    assert "\\x1b[31mred" in str(root.find(".//failure").get("message"))  # pyright: ignore[reportOptionalMemberAccess]


@pytest.mark.parametrize(
    "words", [("pause", "nosuch"), ("cancel", "nosuch"), ("task", "show", "nosuch"), ("task", "log", "nosuch")]
)
def test_a_task_that_is_not_there_is_followed_by_what_to_do(
    droidherd: Terminal, api_state: ApiState, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = (404, {"title": "Not found", "detail": "no task `nosuch`"})
    monkeypatch.setattr(api_state, "answer", Mock(return_value=refusal))
    code, printed = droidherd(*words)
    assert (1, True) == (code, "`droidherd task list` names the tasks there are" in printed)


@pytest.mark.parametrize("task_id", ["", "..", "../emulators/e1", "a b", "a?force=true", "a#b", "\x1b[31m"])
def test_what_is_no_id_is_refused_before_anything_is_asked(
    droidherd: Terminal, api_state: ApiState, task_id: str
) -> None:
    for words in (("cancel", task_id), ("task", "show", task_id)):
        code, printed = droidherd(*words)
        assert (2, True, True) == (code, "A-Z a-z 0-9" in printed, "`droidherd task list`" in printed), printed
    assert [] == api_state.asked


@pytest.mark.parametrize(
    "words",
    [("task", "list"), ("task", "show", "t1"), ("task", "log", "t1"), ("task", "log", "t1", "-f"), ("queue", "lanes"),
     ("emulator", "list"), ("account", "list"), ("host", "status"), ("task", "watch", "t1")],
)  # fmt: skip
def test_what_comes_from_outside_never_commands_the_terminal(
    droidherd: Terminal, failed: ApiState, words: tuple[str, ...]
) -> None:
    error = {**ERROR, "message": ESCAPE}
    failed.tasks = [{**FAILED, "account": ESCAPE, "error": error, "why": ESCAPE, "labels": {"a": ESCAPE}}]
    failed.files = {"events": [{**EVENTS[0], "reason": ESCAPE}], "artifacts": [{"name": ESCAPE + PAGE}]}
    failed.logs, failed.emulators = [[ESCAPE]], [{"emulator_id": ESCAPE, "state": "up", "evidence": ESCAPE}]
    failed.accounts = {"a": {"account": ESCAPE, "state": "idle", "disabled": None}}
    for more in ((), ("--json",)):
        printed = droidherd(*words, *more)[1]
        assert [] == [one for one in "\x1b\x07\x9b\u202e" if one in printed], printed


def test_markup_and_emoji_of_others_are_text(droidherd: Terminal, api_state: ApiState) -> None:
    api_state.tasks = [{"task_id": "t1", "state": "queued", "why": "[red]x[/red] :skull:"}]
    assert "[red]x[/red] :skull:" in droidherd("task", "list")[1]


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_reader_that_went_away_is_no_traceback(api_state: ApiState, more: tuple[str, ...]) -> None:
    api_state.tasks = [{"task_id": "t1", "type": "scan", "state": "completed"}]
    reading, writing = os.pipe()
    os.close(reading)
    line = [sys.executable, "-m", "droidherd.cli", "task", "list", *more]
    done = subprocess.run(line, stdout=writing, stderr=subprocess.PIPE, text=True, env=dict(os.environ), check=False)
    os.close(writing)
    assert (output.PIPE_CLOSED, "") == (done.returncode, done.stderr)


def test_a_lane_that_nobody_used_is_set_only_when_asked_for(droidherd: Terminal, api_state: ApiState) -> None:
    code, printed = droidherd("queue", "lanes", "acount", "--pause")
    assert (2, True, True) == (code, "there is no lane acount; there are: account" in printed, "--create" in printed)
    assert [] == [asked for asked in api_state.asked if asked[0].startswith("POST")]
    assert 0 == droidherd("queue", "lanes", "account", "--pause")[0]
    droidherd("queue", "lanes", "acount", "--pause", "--create")
    assert "POST /api/queue/pause" in [asked[0] for asked in api_state.asked]


def test_a_list_takes_every_filter(droidherd: Terminal, api_state: ApiState) -> None:
    droidherd("ps", "--emulator", "e1", "--subscription", "daily", "--lane", "account", "--pool", "p", "-n", "1")
    assert "limit=1&lane=account&pool=p&emulator=e1&subscription=daily" == api_state.asked[0][1]


def test_the_version_is_printed_for_people_and_programs(droidherd: Terminal) -> None:
    code, printed = droidherd("--version")
    assert (0, "droidherd") == (code, printed.split()[0])
    assert printed.split()[1] == json.loads(droidherd("--version", "--json")[1])["version"]
