"""Who is bound to an emulator: its label reaches the dispatcher, and goes again, while everything runs."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.emulator.inventory import Inventory
from tests.support.api_server import api_server
from tests.support.farm import Farm, farm, until

HOST = "virtual-2"


async def test_a_task_that_requires_an_account_runs_where_it_was_bound(tmp_path: Path) -> None:
    with (
        farm(tmp_path, 2, in_memory=True) as place,
        api_server(place) as front,
        httpx.Client(base_url=front.url, timeout=60) as http,
    ):
        await asyncio.wait_for(bound_and_free_again(place, http), 400)


async def bound_and_free_again(place: Farm, http: httpx.Client) -> None:
    client = await place.client()
    await place.wake(client)
    await place.all_up(client)
    inventory = Inventory(place.data)

    async def ran(task_id: str) -> list[str]:
        view = await place.ended(client, task_id)
        assert TaskStatus.COMPLETED == view.state, view.error
        return [one.emulator for one in view.attempts]

    async def labelled(*emulators: str) -> None:
        async def there() -> bool | None:
            return True if eligible(http) == list(emulators) else None

        await until(there, f"{emulators} to be eligible")

    assert [] == eligible(http)
    submit(http, "bind", "associate", account="ann", emulator=HOST)
    assert [HOST] == await ran("bind")
    await labelled(HOST)
    for number in range(3):
        submit(http, f"bound-{number}", "check", requires=["account=ann"])
        assert [HOST] == await ran(f"bound-{number}")

    inventory.label(HOST, "account", "")
    await labelled()
    submit(http, "waits", "check", requires=["account=ann"])
    await place.reached(client, "waits", TaskStatus.QUEUED)
    inventory.label(HOST, "account", "ann")
    assert [HOST] == await ran("waits")

    take_back(http, "bind")
    await place.reached(client, "bind", TaskStatus.ROLLBACK_COMPLETED)
    await labelled()
    assert {} == labels(http)[HOST]
    assert ["" for _ in inventory.load()] == [one.labels.get("account", "") for one in inventory.load()]


def submit(http: httpx.Client, task_id: str, kind: str, **more: Any) -> None:
    made = http.post("/api/tasks", json={"id": task_id, "type": kind, **more})
    assert 201 == made.status_code, made.text


def take_back(http: httpx.Client, task_id: str) -> None:
    taken = http.post(f"/api/tasks/{task_id}/rollback", json={"actor": "ben"})
    assert taken.is_success, taken.text


def labels(http: httpx.Client) -> dict[str, dict[str, str]]:
    """As the dispatcher has them, by emulator."""
    return {one["emulator_id"]: one["labels"] for one in http.get("/api/emulators").json()["emulators"]}


def eligible(http: httpx.Client) -> list[str]:
    return [name for name, known in labels(http).items() if known.get("account") == "ann"]
