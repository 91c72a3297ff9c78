"""A task that changed an emulator is taken back over HTTP: when somebody else changed it since, only by force."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import yaml

from droidherd.domain.task.lifecycle import TaskStatus
from tests.support.api_server import ApiServer, api_server
from tests.support.farm import Farm, farm

SETTING = "global/window_animation_scale"
STAGES = 14
"""More than a task may be moved."""
BACK = (TaskStatus.ROLLBACK_COMPLETED, TaskStatus.ROLLBACK_FAILED)


async def test_what_somebody_else_changed_is_named_and_restored_only_by_force(tmp_path: Path) -> None:
    with farm(tmp_path, 1, in_memory=True) as place, api_server(place) as api:
        async with asyncio.timeout(400):
            client = await place.client()
            await place.all_up(client)
            before = dump(place)
            for task_id, value in (("ours", "0.5"), ("theirs", "7")):
                body = {"id": task_id, "type": "change_config", "params": {"setting": SETTING, "value": value}}
                assert 201 == (await post(api, "/api/tasks", body)).status_code
                assert TaskStatus.COMPLETED == (await place.ended(client, task_id)).state
            changed = dump(place)
            assert 200 == (await post(api, "/api/tasks/ours/rollback", {})).status_code
            broke = await place.reached(client, "ours", *BACK)
            assert TaskStatus.ROLLBACK_FAILED == broke.state
            assert broke.error is not None
            assert "ConflictError" == broke.error.kind
            assert "force" in broke.error.remedy
            assert f"stage change, step 1: setting {SETTING} on virtual-1 is 7, neither" in broke.error.message
            assert changed == dump(place)
            assert 200 == (await post(api, "/api/tasks/ours/rollback", {"force": True})).status_code
            assert TaskStatus.ROLLBACK_COMPLETED == (await place.reached(client, "ours", *BACK)).state
            assert before == dump(place)
            assert 409 == (await post(api, "/api/tasks/ours/rollback", {})).status_code


async def test_many_stages_are_taken_back_in_one_go(tmp_path: Path) -> None:
    stages = [{"stage": f"s{n}", "steps": [{"set": {"setting": f"global/kept{n}", "to": "1"}}]} for n in range(STAGES)]
    (tmp_path / "flows" / "many").mkdir(parents=True)
    (tmp_path / "flows" / "many" / "flow.yaml").write_text(yaml.safe_dump({"flow": "many", "stages": stages}))
    with farm(tmp_path, 1, in_memory=True, flows=tmp_path / "flows") as place, api_server(place) as api:
        async with asyncio.timeout(400):
            client = await place.client()
            await place.all_up(client)
            before = dump(place)
            assert 201 == (await post(api, "/api/tasks", {"id": "many", "type": "many", "account": "ann"})).status_code
            assert TaskStatus.COMPLETED == (await place.ended(client, "many")).state
            assert before != dump(place)
            assert 200 == (await post(api, "/api/tasks/many/rollback", {})).status_code
            view = await place.reached(client, "many", *BACK)
            assert (TaskStatus.ROLLBACK_COMPLETED, ["undone"]) == (
                view.state,
                [one.outcome for one in view.attempts[1:]],
            )
            assert before == dump(place)


async def post(api: ApiServer, path: str, body: dict[str, Any]) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60) as http:
        return await http.post(f"{api.url}{path}", json=body)


def dump(place: Farm) -> dict[str, Any]:
    with place.control() as control:
        return control.dump(place.emulators[0])
