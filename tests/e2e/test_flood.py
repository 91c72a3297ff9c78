"""The dispatcher continues as new while tasks pour through it: nothing lost, nothing doubled, exact statistics."""

import asyncio
import contextlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError

from droidherd.contracts import names
from droidherd.contracts.queue import QueuePage, StatsPage
from droidherd.contracts.tasks import Control, TaskView
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.virtual import journal
from tests.support.farm import Farm, farm, until

FLOWS = Path(__file__).parents[1] / "chaos" / "flows"
EMULATORS = 8
COLUMNS = 50
AT_ONCE = 40
CONTINUE_AFTER = 60
"""Messages. A task sends two or more."""
TRIP = {"policy": {"retries": 1, "backoff_s": 0.2}}


@pytest.mark.parametrize("count", [120, pytest.param(2_000, marks=pytest.mark.long)])
async def test_tasks_pour_through_a_dispatcher_that_keeps_continuing_as_new(count: int, tmp_path: Path) -> None:
    with farm(tmp_path, EMULATORS, flows=FLOWS, queue={"continue_after": CONTINUE_AFTER}) as place:
        client = await place.client()
        await place.all_up(client)
        numbers = iter(range(count))
        views: dict[int, TaskView] = {}
        await asyncio.gather(*(_one_after_the_other(place, client, numbers, views) for _ in range(AT_ONCE)))
        assert count == len(views)
        continued = await _continued(client)
        assert continued >= count // CONTINUE_AFTER, f"the dispatcher continued as new {continued} times"
        page = await until(lambda: _idle(place, client), "the pool to be idle")
        assert EMULATORS == page.free
        assert _taps_wanted(views) == _taps(place)
        stats = await client.get_workflow_handle(names.dispatcher_id("default")).query(
            names.Query.STATS, result_type=StatsPage
        )
        assert _attempts(views.values()) == {
            one.type: (one.completed, one.failed, one.retries, one.cancelled) for one in stats.types
        }
        assert sum(1 for view in views.values() for one in view.attempts if one.outcome != "lost") == stats.total.count


def _kind(number: int) -> str:
    return "trip_again" if number % 20 == 7 else "tap_once"


async def _one_after_the_other(place: Farm, client: Client, numbers: Any, views: dict[int, TaskView]) -> None:
    for number in numbers:
        x, y = number % COLUMNS, number // COLUMNS
        params = {"x": 98.5} if _kind(number) == "trip_again" else {"across": 1 + 1.9 * x, "down": 1 + 1.4 * y}
        more = TRIP if _kind(number) == "trip_again" else {}
        handle = await place.submit(client, f"f{number}", _kind(number), params=params, **more)
        if number % 25 == 11:
            request = Control(action="cancel")
            await until(lambda handle=handle, request=request: _asked(handle, request), "the cancel to be heard")
        views[number] = await place.ended(client, f"f{number}", 300)


async def _asked(handle: Any, request: Control) -> bool | None:
    """Or too late: on a machine that stood still it has ended before."""
    if (await handle.describe()).close_time is None:
        with contextlib.suppress(WorkflowUpdateFailedError):
            await handle.execute_update(names.Update.CONTROL, request)
    return True


async def _continued(client: Client) -> int:
    query = f'WorkflowId = "{names.dispatcher_id("default")}" and ExecutionStatus = "ContinuedAsNew"'
    return (await client.count_workflows(query)).count


async def _idle(place: Farm, client: Client) -> QueuePage | None:
    page = await place.queue(client)
    return page if (page.waiting, page.running, page.free) == (0, 0, EMULATORS) else None


def _taps_wanted(views: dict[int, TaskView]) -> Counter[int]:
    """Of the tasks that tap once and completed, each its own."""
    done = [number for number, view in views.items() if view.state is TaskStatus.COMPLETED]
    return Counter(number for number in done if _kind(number) == "tap_once")


def _taps(place: Farm) -> Counter[int]:
    """All that happened, by whose place on the screen it was; but for those of the tasks that fail."""
    found: Counter[int] = Counter()
    for emulator in place.emulators:
        for command in journal.effects(place.journal(emulator)):
            if command.argv[:2] == ("input", "tap"):
                x, y = (100 * int(command.argv[2]) / 1280 - 1) / 1.9, (100 * int(command.argv[3]) / 720 - 1) / 1.4
                found[round(x) + COLUMNS * round(y)] += round(x) < COLUMNS
    return +found


def _attempts(views: Any) -> dict[str, tuple[int, int, int, int]]:
    """Per type, as the tasks themselves have it: completed, failed for good, failed and tried again, cancelled."""
    found: dict[str, Counter[str]] = {}
    for view in views:
        kind = found.setdefault(view.type, Counter())
        for at, one in enumerate(view.attempts):
            again = one.outcome == "failed" and at < len(view.attempts) - 1
            kind["retries" if again else one.outcome] += 1
    return {kind: (one["completed"], one["failed"], one["retries"], one["cancelled"]) for kind, one in found.items()}
