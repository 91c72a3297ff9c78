"""Point 1 of the foundation: one emulator, one task; one account, one emulator; and the order of grants."""

import asyncio
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from temporalio.client import Client

from droidherd.contracts import names
from droidherd.contracts.queue import EventsPage
from droidherd.contracts.tasks import TaskView
from droidherd.domain.dispatch.audit import Event
from droidherd.domain.messages import OnBusy
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.virtual.journal import ExecutedCommand
from tests.support.farm import Farm, farm

FLOWS = Path(__file__).parent / "flows"


@dataclass(frozen=True)
class Size:
    emulators: int
    accounts: int
    types: int
    without_keys: int


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(Size(4, 12, 3, 10), id="small"),
        pytest.param(Size(8, 40, 5, 40), id="full", marks=pytest.mark.long),
    ],
)
async def test_no_emulator_has_two_tasks_no_account_two_emulators_grants_in_order(size: Size, tmp_path: Path) -> None:
    with farm(tmp_path, size.emulators, flows=FLOWS) as place:
        views, events = await asyncio.wait_for(_run(place, size), 400)
        assert {TaskStatus.COMPLETED} == {view.state for view in views}
        acts = _acts(place, views)
        assert len(views) * 2 == sum(len(commands) for commands in acts.values())
        assert [] == _emulators_shared(acts)
        assert [] == _accounts_on_two(acts)
        assert [] == _out_of_order(views, events)
        assert _tokens(acts) == [int(event.detail) for event in events if event.kind == "granted"]


async def _run(place: Farm, size: Size) -> tuple[list[TaskView], list[Event]]:
    client = await place.client()
    await place.wake(client)
    await place.all_up(client)
    tasks = [(f"k{i}", f"kind{1 + i % size.types}", "") for i in range(size.without_keys)]
    tasks += [(f"a{a}-{t}", f"kind{t + 1}", f"acc{a}") for t in range(size.types) for a in range(size.accounts)]
    await asyncio.gather(
        *(place.submit(client, task, kind, account=account, on_busy=OnBusy.QUEUE) for task, kind, account in tasks)
    )
    views = [await place.ended(client, task) for task, _, _ in tasks]
    return views, await _events(client)


async def _events(client: Client) -> list[Event]:
    handle = client.get_workflow_handle(names.dispatcher_id("default"))
    return list((await handle.query(names.Query.EVENTS, 0, result_type=EventsPage)).events)


def _acts(place: Farm, views: list[TaskView]) -> dict[str, list[tuple[ExecutedCommand, TaskView]]]:
    """Per emulator: every tap with the task whose lease stood on the emulator at that moment."""
    owners = {attempt.token: view for view in views for attempt in view.attempts}
    return {
        emulator: [
            (command, owners[int(command.token.split(".")[0])])
            for command in place.journal(emulator)
            if command.argv[:2] == ("input", "tap")
        ]
        for emulator in place.emulators
    }


def _tokens(acts: dict[str, list[tuple[ExecutedCommand, TaskView]]]) -> list[int]:
    """Every lease the emulators saw, in the order in which it was granted."""
    return sorted({int(command.token.split(".")[0]) for commands in acts.values() for command, _ in commands})


def _emulators_shared(acts: dict[str, list[tuple[ExecutedCommand, TaskView]]]) -> list[str]:
    """Where a task acted after another one had begun, on the same emulator."""
    wrong: list[str] = []
    for emulator, commands in acts.items():
        order = [view.task_id for _, view in commands]
        runs = [order[0], *(b for a, b in pairwise(order) if a != b)] if order else []
        wrong += [f"{emulator}: {task}" for task in set(runs) if runs.count(task) > 1]
    return wrong


def _accounts_on_two(acts: dict[str, list[tuple[ExecutedCommand, TaskView]]]) -> list[str]:
    """Accounts whose stays on two emulators overlap in time."""
    stays: dict[tuple[str, str], list[float]] = {}
    for commands in acts.values():
        for command, view in commands:
            if view.account:
                stays.setdefault((view.account, view.task_id), []).append(command.monotonic_s)
    wrong: list[str] = []
    for account in {account for account, _ in stays}:
        spans = sorted((min(times), max(times)) for (who, _), times in stays.items() if who == account)
        wrong += [account for (_, end), (begin, _) in pairwise(spans) if begin <= end]
    return wrong


def _out_of_order(views: list[TaskView], events: list[Event]) -> list[str]:
    """Grants before an earlier task of the same lane whose account was free at that moment."""
    account = {view.task_id: view.account for view in views}
    lane = {view.task_id: view.lane for view in views}
    waiting: list[str] = []
    busy: dict[str, str] = {}
    wrong: list[str] = []
    for event in events:
        task = event.task_id
        if event.kind == "queued":
            waiting.append(task)
        elif event.kind == "granted":
            ahead = [t for t in waiting[: waiting.index(task)] if lane[t] == lane[task]]
            wrong += [f"{task} before {t}" for t in ahead if not account[t] or account[t] not in busy]
            waiting.remove(task)
            if account[task]:
                busy[account[task]] = task
        elif event.kind == "done" and busy.get(account[task]) == task:
            del busy[account[task]]
    return wrong
