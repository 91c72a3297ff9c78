"""Point 3 of the foundation: an emulator that answers nothing, though adb goes on listing it as `device`."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client

from droidherd.contracts import names
from droidherd.contracts.fleet import EmulatorView
from droidherd.domain.task.lifecycle import TaskStatus
from tests.chaos.judge import TAPS, taps
from tests.support.farm import Farm, farm, until

FLOWS = Path(__file__).parents[1] / "chaos" / "flows"
PATIENCE = ("suspect", "down")


@dataclass(frozen=True)
class Stall:
    """What happened, and after how many seconds."""

    suspect_s: float
    down_s: float
    moved_to: str
    left: str
    taps: dict[int, int]
    late: list[str]
    """What the emulator that stalled still did in the task's name, once it went on."""


async def test_a_stalled_emulators_task_moves_and_its_late_tap_does_nothing(tmp_path: Path) -> None:
    with farm(tmp_path, 2, flows=FLOWS) as place:
        stall = await asyncio.wait_for(rehearse_stall(place, "s"), 400)
        assert stall.moved_to != stall.left
        assert dict.fromkeys(TAPS, 1) == stall.taps
        assert [] == stall.late


async def rehearse_stall(place: Farm, name: str) -> Stall:
    """Stall the emulator a task runs on; when the task has ended elsewhere, let the emulator go on."""
    client = await place.client()
    await place.wake(client)
    await place.all_up(client)
    await place.submit(client, name, "walk", params={"x": 40.0})
    running = await place.reached(client, name, TaskStatus.RUNNING)
    left = running.emulator
    await until(lambda: _acted(place, 40.0), "the task to act")
    with place.control() as control:
        await asyncio.to_thread(control.stall, left)
        stalled_s = time.monotonic()
        seen = {state: await _seen(client, left, state) - stalled_s for state in PATIENCE}
        view = await place.ended(client, name)
        await asyncio.to_thread(control.release, left)
    await place.all_up(client)
    if view.state is not TaskStatus.COMPLETED:
        raise AssertionError(f"the task ended as {view.state}: {view.error}")
    after = {y: _count_after(place, 40.0, y, view.attempts[-1].token) for y in TAPS}
    tapped = [c for c in place.journal(left) if c.argv[:2] == ("input", "tap")]
    late = [" ".join(c.argv) for c in tapped if c.monotonic_s > stalled_s]
    return Stall(seen["suspect"], seen["down"], view.attempts[-1].emulator, left, after, late)


async def _acted(place: Farm, x: float) -> bool | None:
    return True if sum(taps(place, x).values()) > 1 else None


async def _seen(client: Client, emulator: str, *states: str) -> float:
    async def there() -> float | None:
        handle = client.get_workflow_handle(names.emulator_id(emulator))
        view = await handle.query(names.Query.VIEW, result_type=EmulatorView)
        return time.monotonic() if view.state in states or view.state == "down" else None

    return float(await until(there, f"{emulator} to be {states}"))


def _count_after(place: Farm, x: float, y: int, token: int) -> int:
    """How often this tap happened under the lease that ended well. The lease before may have done some as well."""
    return taps(place, x, lease=token)[y]
