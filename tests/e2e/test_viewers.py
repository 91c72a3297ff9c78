"""A farm that is watched: live frames over HTTP while tasks run, and the page that a failed task leaves."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from temporalio.client import Client

from api.app import create_app
from droidherd.contracts import names
from droidherd.contracts.fleet import EmulatorView
from droidherd.contracts.tasks import OperatorRequest
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.settings import Api, Settings, Temporal
from tests.support.farm import Farm, farm, until

FLOWS = Path(__file__).with_name("flows")
ONE = "virtual-1"
FRAME = f"/api/emulators/{ONE}/frame"
JPEG = b"\xff\xd8\xff"


@asynccontextmanager
async def api_client(place: Farm) -> AsyncGenerator[httpx.AsyncClient]:
    settings = Settings(
        data=place.data, temporal=Temporal(address=place.engine.address, embedded=False), api=Api(port=0)
    )
    app = create_app(settings)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60) as http:
            yield http


def captures(place: Farm) -> int:
    """With whichever camera was the fastest here."""
    return sum(command.argv[0] in {"screencap", "framebuffer"} for command in place.journal(ONE))


async def records(client: Client) -> int:
    return sum([1 async for _ in client.list_activities("ActivityType='take_frame'")])


async def events(client: Client) -> int:
    history = await client.get_workflow_handle(names.emulator_id(ONE)).fetch_history()
    return len(history.events)


async def shared(place: Farm, client: Client, http: httpx.AsyncClient) -> None:
    """Many who look at once cost one capture, and no event of any history."""
    before, lived = captures(place), await events(client)
    answers = await asyncio.gather(*[http.get(FRAME) for _ in range(10)])
    assert [200] * 10 == [one.status_code for one in answers], answers[0].text
    assert {("image/jpeg", JPEG, "no-store")} == {
        (one.headers["content-type"], one.content[:3], one.headers["cache-control"]) for one in answers
    }
    assert len({one.headers["droidherd-taken-at"] for one in answers}) == 1
    assert (1, 0) == (captures(place) - before, await events(client) - lived)


async def kept_few(client: Client, http: httpx.AsyncClient) -> None:
    """However long somebody looks, the engine keeps a record or two."""
    times: set[str] = set()
    while len(times) < 4:
        answer = await http.get(FRAME)
        if answer.status_code == 200:  # a busy machine takes longer now and then than a look may take
            times.add(answer.headers["droidherd-taken-at"])
        await asyncio.sleep(0.05)

    async def few() -> bool | None:
        return True if await records(client) <= 2 else None

    await until(few, "old records to go", 20)


async def not_behind_a_stage(place: Farm, client: Client, http: httpx.AsyncClient) -> None:
    """While a stage has the emulator's queue for itself and does not end, a viewer is answered all the same."""
    await place.submit(client, "long", "linger", params={"x": 10.0, "lasts": "50s"})
    await place.reached(client, "long", TaskStatus.RUNNING)
    assert 200 == (await http.get(FRAME)).status_code
    await place.reached(client, "long", TaskStatus.RUNNING)
    await client.get_workflow_handle("long").signal(names.Signal.FORCE_CANCEL, OperatorRequest())
    await place.ended(client, "long")


async def a_page_was_left(place: Farm, client: Client, http: httpx.AsyncClient) -> None:
    """What the task searched for, in one page, at one address."""
    await place.submit(client, "stuck", "never")
    view = await place.ended(client, "stuck")
    assert (TaskStatus.FAILED, "StuckError") == (view.state, view.error and view.error.kind)
    kept = [one.name for one in view.attempts[0].artifacts]
    page = next(name for name in kept if name.endswith("hope.evidence.html"))
    got = await http.get(f"/api/tasks/stuck/artifacts/{page}")
    assert (200, "text/html; charset=utf-8") == (got.status_code, got.headers["content-type"])
    assert "sandbox" in got.headers["content-security-policy"]
    assert "script" not in got.headers["content-security-policy"]
    for words in ("nothing moved for", "gift.png", "not found, score", "data:image/jpeg;base64,", ONE):
        assert words in got.text, words


async def nobody_there(place: Farm, client: Client, http: httpx.AsyncClient) -> None:
    with place.control() as control:
        control.kill(ONE)
    answer = await refused(http)
    assert (503, "urn:droidherd:problem:no-frame") == (answer.status_code, answer.json()["type"])
    assert 404 == (await http.get("/api/emulators/nobody/frame")).status_code
    assert 0 == await asyncio.to_thread(place.worker.stop)
    answer = await refused(http)
    assert (503, "urn:droidherd:problem:no-worker") == (answer.status_code, answer.json()["type"])


async def refused(http: httpx.AsyncClient) -> httpx.Response:
    """The first answer that is none of the frames from before."""

    async def no_frame() -> httpx.Response | None:
        answer = await http.get(FRAME)
        return answer if answer.status_code != 200 else None

    return await until(no_frame, "the old frames to be too old", 20)


async def test_a_farm_can_be_watched_and_what_failed_can_be_seen(tmp_path: Path) -> None:
    with farm(tmp_path, 1, flows=FLOWS, progress_s=1.0) as place:
        client = await place.client()
        await place.wake(client)
        await place.all_up(client)
        view = await client.get_workflow_handle(names.emulator_id(ONE)).query(
            names.Query.VIEW, result_type=EmulatorView
        )
        assert "up" == view.state
        assert f"{ONE} is seen with" in (tmp_path / "worker.log").read_text(encoding="utf-8")
        async with api_client(place) as http:
            await shared(place, client, http)
            await kept_few(client, http)
            await a_page_was_left(place, client, http)
            await not_behind_a_stage(place, client, http)
            await nobody_there(place, client, http)
