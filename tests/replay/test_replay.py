import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory

from droidherd.testing import replay
from droidherd.worker.workflow_workers import WORKFLOWS
from tests.replay import changed, library
from tests.replay import scenarios as registered
from tests.replay.farming import NAME
from tests.replay.scenario import ALL
from workflows.dispatcher.workflow import DispatcherWorkflow

ROOT = Path(__file__).parents[2]
ONE_STAGE = library.HISTORIES / "one_stage.task.json"


def verify(*arguments: str, seed: str = "0") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(ROOT / "worker_main.py"), "verify", *arguments],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_every_history_replays_under_the_workflows_of_today(seed: str):
    done = verify("--json", seed=seed)
    assert [] == [one for one in json.loads(done.stdout) if one["diverged"]]
    assert (0, "") == (done.returncode, done.stderr)
    assert len(replay.find([library.HISTORIES])) == len(json.loads(done.stdout))


@pytest.mark.parametrize("kind", WORKFLOWS, ids=lambda kind: kind.__name__)
async def test_a_command_more_is_caught_in_every_workflow(kind: type):
    name = workflow._Definition.must_from_class(kind).name
    recorded = next(one for one in histories() if one.workflow == name)
    (before,) = await replay.replay([recorded], WORKFLOWS)
    (after,) = await replay.replay([recorded], [changed.with_a_timer_first(kind)])
    assert ("", True) == (before.diverged, "NondeterminismError" in after.diverged)


async def test_a_command_less_is_caught(monkeypatch: pytest.MonkeyPatch):
    def nothing(_: object) -> None: ...

    monkeypatch.setattr(workflow, "upsert_memo", nothing)
    (after,) = await replay.replay([replay.read(ONE_STAGE)], WORKFLOWS)
    assert "NondeterminismError" in after.diverged


async def test_a_run_whose_next_workflow_task_raises_has_diverged():
    """Nothing stands in the history yet that the commands of that task could be compared with."""
    whole = replay.read(library.HISTORIES / "all_continued.dispatcher-default.1.json")
    tasks = [n for n, e in enumerate(whole.history.events) if e.HasField("workflow_task_started_event_attributes")]
    begun = WorkflowHistory(whole.history.workflow_id, whole.history.events[: tasks[-1] + 1])
    open_run = replay.Recorded(whole.path, whole.workflow, begun)
    raises = changed.that_raises_after(DispatcherWorkflow, tasks[-2] + 1)
    assert [""] == [one.diverged for one in await replay.replay([open_run], WORKFLOWS)]
    assert ["RuntimeError: planted"] == [one.diverged for one in await replay.replay([open_run], [raises])]


async def test_what_stands_behind_a_divergence_is_replayed_too():
    recorded = [replay.read(ONE_STAGE), next(one for one in histories() if one.workflow == "HostWorkflow")]
    results = await replay.replay(recorded, [changed.with_a_timer_first(WORKFLOWS[0]), *WORKFLOWS[1:]])
    assert [True, False] == [bool(one.diverged) for one in results]


def histories() -> Iterator[replay.Recorded]:
    return (one for path in replay.find([library.HISTORIES]) if (one := replay.read(path)).begun())


# --- every path stands in a history ----------------------------------------------------------------------------


def events() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each event of each history, with the type of its workflow."""
    for path in replay.find([library.HISTORIES]):
        raw = path.read_bytes()
        document = json.loads(gzip.decompress(raw) if path.name.endswith(".gz") else raw)
        first = document["events"][0]["workflowExecutionStartedEventAttributes"]
        for event in document["events"]:
            yield first["workflowType"]["name"], event


def handlers() -> set[tuple[str, str, str]]:
    """(workflow, kind, name) of everything that leaves a mark in a history."""
    found: set[tuple[str, str, str]] = set()
    for one in WORKFLOWS:
        definition = workflow._Definition.must_from_class(one)
        found |= {(str(definition.name), "signal", str(name)) for name in definition.signals if name}
        found |= {(str(definition.name), "update", str(name)) for name in definition.updates}
        found.add((str(definition.name), "run", ""))
    return found


def test_every_workflow_signal_and_update_stands_in_a_history():
    seen: set[tuple[str, str, str]] = set()
    for kind, event in events():
        seen.add((kind, "run", ""))
        if signal := event.get("workflowExecutionSignaledEventAttributes"):
            seen.add((kind, "signal", signal["signalName"]))
        if update := event.get("workflowExecutionUpdateAcceptedEventAttributes"):
            seen.add((kind, "update", update["acceptedRequest"]["input"]["name"]))
    assert set() == handlers() - seen


def test_every_activity_and_every_way_a_workflow_ends_stands_in_a_history():
    seen: set[str] = set()
    for kind, event in events():
        if activity := event.get("activityTaskScheduledEventAttributes"):
            seen.add(activity["activityType"]["name"])
        closed = event["eventType"].removeprefix("EVENT_TYPE_WORKFLOW_EXECUTION_")
        if closed in ("COMPLETED", "FAILED", "CANCELED", "TERMINATED", "CONTINUED_AS_NEW"):
            seen.add(f"{kind} {closed}")
    expected = {"run_stage", "pass_gate", "presence", "find_predecessor", "request_cancel"}
    expected |= {f"TaskWorkflow {end}" for end in ("COMPLETED", "FAILED", "CANCELED", "TERMINATED", "CONTINUED_AS_NEW")}
    expected |= {f"{one}Workflow CONTINUED_AS_NEW" for one in ("Account", "Dispatcher", "Emulator", "Host")}
    expected |= {"DispatcherWorkflow TERMINATED", "MaintenanceWorkflow COMPLETED", "MaintenanceWorkflow CANCELED"}
    expected |= {"remove_tasks", "list_hosts", "sweep_artifacts"}
    assert set() == expected - seen


def test_every_way_a_stage_times_out_stands_in_a_history():
    timeouts = {
        event["activityTaskTimedOutEventAttributes"]["failure"]["cause"]["timeoutFailureInfo"]["timeoutType"]
        if "cause" in event["activityTaskTimedOutEventAttributes"]["failure"]
        else event["activityTaskTimedOutEventAttributes"]["failure"]["timeoutFailureInfo"]["timeoutType"]
        for kind, event in events()
        if "activityTaskTimedOutEventAttributes" in event and kind == "TaskWorkflow"
    }
    assert {"TIMEOUT_TYPE_HEARTBEAT", "TIMEOUT_TYPE_SCHEDULE_TO_START", "TIMEOUT_TYPE_START_TO_CLOSE"} <= timeouts


def test_every_path_has_its_histories_and_every_history_its_path():
    recorded = {path.name.partition(".")[0] for path in replay.find([library.HISTORIES])}
    assert set(ALL) | {NAME} == recorded
    files = {path.stem for path in Path(registered.__file__).parent.glob("*.py")} - {"__init__"}
    assert files == set(registered.__all__)


def test_the_readme_gives_a_reason_for_each_path():
    text = library.README.read_text(encoding="utf-8")
    assert [] == [one.name for one in ALL.values() if f"| `{one.name}` | {one.why} |" not in text]


def test_no_history_is_large_and_none_says_who_recorded_it():
    for path in replay.find([library.HISTORIES]):
        assert library.ZIPPED_FROM_BYTES >= path.stat().st_size
    traces = ("stackTrace", "identity")
    assert [] == [event for _, event in events() if any(f'"{word}":' in json.dumps(event) for word in traces)]


def interrupted(document: Any, kind: str) -> Any:
    """The same history, but that a cancel of Temporal's is handled just before the first event of this kind."""
    found = [event["eventType"].removeprefix("EVENT_TYPE_") for event in document["events"]].index(kind)
    before, after = document["events"][:found], document["events"][found:]
    step = after[1:4]  # a workflow task: scheduled, started, completed
    assert "EVENT_TYPE_WORKFLOW_TASK_COMPLETED" == step[-1]["eventType"]
    cancel: dict[str, Any] = {
        "eventTime": step[0]["eventTime"],
        "eventType": "EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED",
        "workflowExecutionCancelRequestedEventAttributes": {},
    }
    shifted = [moved(event, after=len(before), by=4) for event in after]
    events = [*before, cancel, *(moved(event, after=len(before), by=0) for event in step), *shifted]
    return {"events": [{**event, "eventId": str(number)} for number, event in enumerate(events, 1)]}


def moved(event: dict[str, Any], *, after: int, by: int) -> dict[str, Any]:
    """An event that speaks of other events by their new numbers."""

    def number(name: str, value: Any) -> Any:
        refers = name.endswith("EventId") and int(value) > after
        return str(int(value) + by) if refers else value

    return {
        kind: {name: number(name, value) for name, value in given.items()} if isinstance(given, dict) else given
        for kind, given in event.items()
    }


async def test_a_cancel_while_the_next_link_starts_comes_too_late(tmp_path: Path):
    document = json.loads((library.HISTORIES / "chain.task.json").read_text(encoding="utf-8"))
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(interrupted(document, "CHILD_WORKFLOW_EXECUTION_STARTED")), encoding="utf-8")
    (replayed,) = await replay.replay([replay.read(path)], WORKFLOWS)
    assert "" == replayed.diverged


# --- the command ------------------------------------------------------------------------------------------------


def test_a_table_for_people(tmp_path: Path):
    done = verify(str(ONE_STAGE))
    assert 0 == done.returncode
    assert "one_stage.task.json" in done.stdout
    assert "1 histories, 0 diverged" in done.stdout


def test_a_history_that_diverges_fails_the_command(tmp_path: Path):
    text = ONE_STAGE.read_text(encoding="utf-8")
    other = tmp_path / "other.json"
    other.write_text(text.replace('"name":"run_stage"', '"name":"run_stages"'), encoding="utf-8")
    done = verify("--json", str(tmp_path))
    (result,) = json.loads(done.stdout)
    assert (1, str(other), "TaskWorkflow") == (done.returncode, result["history"], result["workflow"])
    assert "Nondeterminism" in result["diverged"]
    assert "diverged" in verify(str(tmp_path)).stdout


def test_a_zipped_history_is_read_like_a_plain_one(tmp_path: Path):
    zipped = tmp_path / "a.json.gz"
    zipped.write_bytes(gzip.compress(ONE_STAGE.read_bytes()))
    plain = replay.read(ONE_STAGE)
    assert ("TaskWorkflow", plain.history) == (replay.read(zipped).workflow, replay.read(zipped).history)


def test_a_run_that_was_only_started_has_nothing_to_diverge_from(tmp_path: Path):
    lines = ONE_STAGE.read_text(encoding="utf-8").splitlines()
    (tmp_path / "a.json").write_text("\n".join([*lines[:2], lines[2].rstrip(","), "]}"]), encoding="utf-8")
    (result,) = json.loads(verify("--json", str(tmp_path)).stdout)
    assert (2, "") == (result["events"], result["diverged"])


@pytest.mark.parametrize("content", [b"", b"{}", b'{"events": []}', b"[]", b'{"events": [{}]}', b"\x1f\x8b", b"null"])
def test_a_file_that_is_no_history_is_named(tmp_path: Path, content: bytes):
    for name in ("a.json", "b.json.gz"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(replay.UnreadableHistoryError, match=name):
            replay.read(tmp_path / name)


def test_nothing_to_replay_is_an_error(tmp_path: Path):
    done = verify(str(tmp_path))
    assert (2, True) == (done.returncode, "no history under" in done.stderr)
    missing = verify(str(tmp_path / "missing.json"))
    assert (2, True) == (missing.returncode, "missing.json" in missing.stderr)


def test_running_runs_are_not_asked_for_at_port_0(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "worker_main.py"), "verify", "--running"],
        env={**os.environ, "DROIDHERD_TEMPORAL__ADDRESS": "127.0.0.1:0", "DROIDHERD_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
    )
    assert (2, True) == (done.returncode, "DROIDHERD_TEMPORAL__ADDRESS" in done.stderr)
