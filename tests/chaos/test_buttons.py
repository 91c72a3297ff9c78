"""Whatever is pressed, at whatever moment: every task ends, nothing is held, and the audit tells how it came about."""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.aftermath import complaints
from tests.chaos.buttons import EMULATORS, Stage, play, stage
from tests.chaos.replayed import diverged
from tests.support.api_server import api_server
from tests.support.farm import farm, until

FLOWS = Path(__file__).parent / "flows"
TASKS = 60
MANY = 300
SEED = 20261118


async def test_whatever_is_pressed_every_task_ends_as_the_table_allows(tmp_path: Path) -> None:
    on = await rehearse_buttons(tmp_path, int(os.environ.get("DROIDHERD_TEST_SEED", SEED)), TASKS)
    assert TASKS == len(on.parts)


@pytest.mark.long
async def test_the_same_with_many_tasks(tmp_path: Path) -> None:
    on = await rehearse_buttons(tmp_path, int(os.environ.get("DROIDHERD_TEST_SEED", SEED + 1)), MANY)
    assert MANY == len(on.parts)


async def rehearse_buttons(data: Path, seed: int, tasks: int) -> Stage:
    """The play and its judgement. What is wrong names the seed."""
    with farm(data, EMULATORS, flows=FLOWS) as place, api_server(place) as api:
        async with stage(place, api, random.Random(seed)) as on:
            await play(on, tasks)
            await until(lambda: _idle(on), "the pool to be idle")
            names = list(on.parts)
            views = {name: await on.task(name) for name in names}
            audits = {name: (await on.http.get(f"/api/tasks/{name}/events")).json() for name in names}
            found = [*complaints(place, on.parts, views, audits), *await diverged(place)]
            assert not on.odd + found, f"seed {seed}: {on.odd + found}"
            assert len(on.pressed) >= 12, f"seed {seed}: too few different buttons were pressed: {on.pressed}"
            return on


async def _idle(on: Stage) -> bool | None:
    """Nobody waits, nobody runs, no emulator is taken, no account is."""
    page: dict[str, Any] = (await on.http.get("/api/queue")).json()
    emulators = (await on.http.get("/api/emulators")).json()["emulators"]
    accounts = [(await on.http.get(f"/api/accounts/{name}")).json() for name in sorted(_accounts(on))]
    free = all(one["state"] == "up" and not one.get("task") for one in emulators)
    idle = not any(one["is_queued"] or one["is_running"] for one in accounts)
    return True if (page["waiting"], page["running"]) == (0, 0) and free and idle else None


def _accounts(on: Stage) -> set[str]:
    return {part.account for part in on.parts.values() if part.account}
