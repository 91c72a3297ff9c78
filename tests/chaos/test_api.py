"""The API may die at any moment: it holds nothing."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from droidherd.domain.task.lifecycle import FINAL
from tests.chaos.judge import TAPS, taps
from tests.support.api_server import ApiServer, api_server
from tests.support.farm import farm, until

FLOWS = Path(__file__).parent / "flows"


async def test_tasks_submitted_before_the_api_was_killed_end_and_can_be_read(tmp_path: Path) -> None:
    with farm(tmp_path, 2, flows=FLOWS) as place, api_server(place) as api:
        await place.all_up(await place.client())
        columns = {f"h{i}": 5.0 + 3.0 * i for i in range(4)}
        answers = await asyncio.gather(*(_submit(api, task, x) for task, x in columns.items()))
        assert [201] * 4 == [answer.status_code for answer in answers]
        waiting = asyncio.create_task(_wait(api, "h3"))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(api.kill)
        assert await waiting is None
        await asyncio.to_thread(api.start)
        views = [await until(lambda task=task: _ended(api, task), f"{task} to end") for task in columns]
        assert ["completed"] * 4 == [view["state"] for view in views]
        assert [dict.fromkeys(TAPS, 1)] * 4 == [dict(taps(place, x)) for x in columns.values()]


async def test_a_submission_repeated_after_the_api_died_is_the_same_task(tmp_path: Path) -> None:
    with farm(tmp_path, 1, flows=FLOWS) as place, api_server(place) as api:
        await place.all_up(await place.client())
        first = await _submit(api, "", 10.0, key="once")
        assert 201 == first.status_code, first.text
        await asyncio.to_thread(api.kill)
        await asyncio.to_thread(api.start)
        again = await _submit(api, "", 10.0, key="once")
        assert 201 == again.status_code, again.text
        assert first.json()["id"] == again.json()["id"]
        await until(lambda: _ended(api, first.json()["id"]), "the task to end")
        assert dict.fromkeys(TAPS, 1) == dict(taps(place, 10.0))


async def _submit(api: ApiServer, task: str, x: float, *, key: str = "") -> httpx.Response:
    body: dict[str, Any] = {"type": "pace", "params": {"x": x}, **({"id": task} if task else {})}
    async with httpx.AsyncClient(timeout=30) as http:
        return await http.post(f"{api.url}/api/tasks", json=body, headers={"Idempotency-Key": key} if key else {})


async def _wait(api: ApiServer, task: str) -> httpx.Response | None:
    """A caller who waits for the end when the API dies gets a broken connection, not a wrong answer."""
    try:
        async with httpx.AsyncClient(timeout=60) as http:
            return await http.get(f"{api.url}/api/tasks/{task}", params={"wait": "30s"})
    except httpx.HTTPError:
        return None


async def _ended(api: ApiServer, task: str) -> dict[str, Any] | None:
    async with httpx.AsyncClient(timeout=30) as http:
        view: dict[str, Any] = (await http.get(f"{api.url}/api/tasks/{task}")).json()
    return view if view.get("state") in FINAL else None
