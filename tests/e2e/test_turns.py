"""Flows that ask a person, and flows that run again: by HTTP, through a whole farm."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx

from droidherd.domain.task.lifecycle import FINAL
from tests.support.api_server import api_server
from tests.support.farm import Farm, farm, until

FLOWS = Path(__file__).parent / "flows"
WIDTH = 1280
PIN = "2468013579"


@contextlib.asynccontextmanager
async def standing(data: Path) -> AsyncGenerator[tuple[Farm, httpx.AsyncClient]]:
    """A farm of one emulator that is up, and a stage that waits for it."""
    with farm(data, 1, flows=FLOWS) as place, api_server(place) as api:
        client = await place.client()
        await place.wake(client)
        await place.all_up(client)
        async with httpx.AsyncClient(base_url=api.url, timeout=60) as http:
            yield place, http


async def test_a_task_asks_with_a_picture_keeps_its_emulator_and_goes_on(tmp_path: Path) -> None:
    async with standing(tmp_path) as (place, http):
        await submit(http, "first", "asks", params={"pin": PIN})
        asked = await reached(http, "first", "waiting")
        question = asked["question"]
        assert ("is the screen as it should be?", ["good", "bad"]) == (question["text"], question["choices"])
        assert place.emulators[0] == asked["emulator"]
        picture = await http.get(question["frame_url"])
        assert (200, b"\x89PNG") == (picture.status_code, picture.content[:4])
        assert PIN not in question["frame_url"]
        await submit(http, "second", "tap_once", params={"across": 50})
        assert 422 == (await answer(http, "first", "perhaps")).status_code
        assert 200 == (await answer(http, "first", "good")).status_code
        first, second = await ended(http, "first"), await ended(http, "second")
        assert ("completed", "completed", 1, None) == (
            first["state"],
            second["state"],
            first["attempt"],
            first.get("question"),
        )
        assert [10, 20, 40, 50] == taps(place), "each act once, and nobody else in between"
        assert 1 == len([c for c in place.journal(place.emulators[0]) if PIN in c.argv])


async def test_a_task_that_frees_its_emulator_lets_another_one_have_it_meanwhile(tmp_path: Path) -> None:
    async with standing(tmp_path) as (place, http):
        await submit(http, "first", "asks_freely", account="ann")
        asked = await reached(http, "first", "waiting")
        assert ("", False) == (asked.get("emulator", ""), asked["question"]["keep"])
        await submit(http, "second", "tap_once", params={"across": 50})
        assert "completed" == (await ended(http, "second"))["state"]
        assert "waiting" == (await view(http, "first"))["state"]
        assert 200 == (await answer(http, "first", "right")).status_code
        first = await ended(http, "first")
        assert ("completed", 1, 2) == (first["state"], first["attempt"], len(first["attempts"]))
        assert [10, 50, 30] == taps(place)


async def test_a_worker_that_dies_after_the_answer_repeats_nothing_and_asks_nobody(tmp_path: Path) -> None:
    async with standing(tmp_path) as (place, http):
        await submit(http, "first", "asks", params={"pin": PIN})
        await reached(http, "first", "waiting")
        with place.control() as control:
            control.set_fault(place.emulators[0], "slow", delay_s=0.3)
            assert 200 == (await answer(http, "first", "bad")).status_code
            await until(lambda: tapped(place, 30), "the task to act after the answer")
            os.kill(place.worker.pid, signal.SIGKILL)
            await asyncio.to_thread(place.worker.kill)
            control.clear_fault(place.emulators[0])
        place.worker.start()
        first = await ended(http, "first")
        assert ("completed", 1) == (first["state"], [e["event"] for e in await audit(http)].count("person_asked"))
        assert [10, 30, 40] == taps(place)


async def test_a_worker_that_dies_while_a_person_is_asked_leaves_emulator_to_it(tmp_path: Path) -> None:
    async with standing(tmp_path) as (place, http):
        await submit(http, "first", "asks", params={"pin": PIN})
        await reached(http, "first", "waiting")
        await asyncio.to_thread(place.worker.kill)
        place.worker.start()
        client = await place.client()
        await place.all_up(client)
        assert 200 == (await answer(http, "first", "good")).status_code
        first = await ended(http, "first")
        assert ("completed", 1) == (first["state"], len(first["attempts"]))
        assert [10, 20, 40] == taps(place)


async def test_a_task_runs_again_at_its_own_word_and_so_often(tmp_path: Path) -> None:
    async with standing(tmp_path) as (place, http):
        await submit(http, "first", "comes_again", params={"times": 2})
        first = await ended(http, "first")
        assert ("completed", 2, [1, 2, 3]) == (first["state"], first["rounds"], [one["n"] for one in first["attempts"]])
        assert [10, 10, 10] == taps(place)
        assert 2 == [event["event"] for event in await audit(http)].count("rescheduled")


async def submit(http: httpx.AsyncClient, task: str, type_: str, **more: Any) -> None:
    answer = await http.post("/api/tasks", json={"id": task, "type": type_, **more})
    assert 201 == answer.status_code, answer.text


async def view(http: httpx.AsyncClient, task: str) -> dict[str, Any]:
    found: dict[str, Any] = (await http.get(f"/api/tasks/{task}")).json()
    return found


async def answer(http: httpx.AsyncClient, task: str, choice: str) -> httpx.Response:
    return await http.post(f"/api/tasks/{task}/answer", json={"choice": choice, "actor": "ann"})


async def audit(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await http.get("/api/tasks/first/events")).json()["events"]
    return found


async def reached(http: httpx.AsyncClient, task: str, *states: str) -> dict[str, Any]:
    async def there() -> dict[str, Any] | None:
        found = await view(http, task)
        return found if found.get("state") in states else None

    return await until(there, f"{task} to be {'/'.join(states)}")


async def ended(http: httpx.AsyncClient, task: str) -> dict[str, Any]:
    return await reached(http, task, *FINAL)


def taps(place: Farm) -> list[int]:
    """Where, in percent across, in their order."""
    found = [c.argv for c in place.journal(place.emulators[0]) if c.argv[:2] == ("input", "tap")]
    return [round(int(argv[2]) * 100 / (WIDTH - 1)) for argv in found]


async def tapped(place: Farm, across: int) -> bool | None:
    return True if across in taps(place) else None
