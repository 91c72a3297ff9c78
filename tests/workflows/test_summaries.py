"""The Web UI reads like a story: every timer, activity and child says what it is for, every message what it does."""

import ast
import importlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType

from droidherd.domain.task.lifecycle import TaskStatus
from tests.workflows.plays import asks
from tests.workflows.world import World

ROOT = Path(__file__).parents[2] / "workflows"
INDEX = ROOT.parent / "docs" / "schemas" / "index.json"
SUMMARY = {
    "start_activity": "summary",
    "execute_activity": "summary",
    "start_local_activity": "summary",
    "execute_local_activity": "summary",
    "sleep": "summary",
    "start_child": "static_summary",
}
CALLERS = {"workflow", "calls"}
"""Of Temporal, and of our own module that reads what comes back."""
PASSES_ON = "calls.py"
FULL = {"wait": 3, "idle": 2}
"""How many arguments these have with a limit of time and its summary."""
SUMMARIZED = (EventType.EVENT_TYPE_TIMER_STARTED, EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED)
WORKFLOWS = {
    "task.workflow": "TaskWorkflow",
    "dispatcher.workflow": "DispatcherWorkflow",
    "emulator": "EmulatorWorkflow",
    "account": "AccountWorkflow",
    "maintenance": "MaintenanceWorkflow",
    "subscription_run": "SubscriptionRunWorkflow",
}


def calls(path: Path) -> Iterator[tuple[str, str, ast.Call]]:
    """Where, the name of the function, the call."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield f"{path.relative_to(ROOT)}:{node.lineno}", node.func.attr, node


ALL = [call for path in sorted(ROOT.rglob("*.py")) for call in calls(path)]


def test_each_timer_activity_and_child_has_a_summary():
    found = [
        (where, name, {word.arg for word in call.keywords})
        for where, name, call in ALL
        if name in SUMMARY
        and isinstance(call.func, ast.Attribute)
        and ast.unparse(call.func.value) in CALLERS
        and not where.startswith(PASSES_ON)
    ]
    assert 12 < len(found)
    assert [] == [(where, name) for where, name, words in found if SUMMARY[name] not in words]


def test_no_timer_is_started_without_a_summary():
    bare = [where for where, name, _ in ALL if name in {"call_later", "call_at"} and not where.startswith("handles.py")]
    assert [] == bare, "use workflows.handles.start_timer"
    limits = [
        (where, FULL[name], len(call.args))
        for where, name, call in ALL
        if name in {"wait", "idle"}
        and "task" in ast.unparse(call.func)
        and len(call.args) > {"wait": 1, "idle": 0}[name]
    ]
    assert 6 < len(limits)
    assert [] == [where for where, wanted, given in limits if given < wanted], "say what happens when the time is over"


@pytest.mark.parametrize("module", sorted(WORKFLOWS))
def test_each_message_that_people_send_says_what_it_does(module: str):
    definition = workflow._Definition.must_from_class(
        getattr(importlib.import_module(f"workflows.{module}"), WORKFLOWS[module])
    )
    spoken = json.loads(INDEX.read_text(encoding="utf-8"))["workflows"][WORKFLOWS[module]]
    for group in ("signals", "updates", "queries"):
        for name in spoken[group]:
            assert getattr(definition, group)[name].description, f"{group} {name} has no docstring"


@pytest.mark.asyncio(loop_scope="module")
async def test_the_history_of_a_task_says_what_each_of_its_steps_is_for(here: World, task: str) -> None:
    await here.submit(task, asks(keep=False), not_before=datetime.now(UTC) + timedelta(seconds=0.5))
    await here.reached(task, TaskStatus.WAITING)
    events = [one for one in (await here.task(task).fetch_history()).events if one.event_type in SUMMARIZED]
    found = [here.client.data_converter.payload_converter.from_payload(one.user_metadata.summary) for one in events]
    assert "the time it may start" in found
    assert "nobody answered the question in time" in found
    assert all(found)
