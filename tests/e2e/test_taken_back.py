"""A task that changed an emulator is taken back over HTTP: when somebody else changed it since, only by force."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from droidherd.domain.lifecycle import TaskState
from tests.support.door import Door, door
from tests.support.farm import Farm, farm

SETTING = "global/window_animation_scale"
BACK = (TaskState.ROLLBACK_COMPLETED, TaskState.ROLLBACK_FAILED)


async def test_what_somebody_else_changed_since_is_named_and_restored_only_by_force(tmp_path: Path) -> None:
    with farm(tmp_path, 1, in_memory=True) as place, door(place) as api:
        async with asyncio.timeout(150):
            client = await place.client()
            await place.all_up(client)
            before = dump(place)
            for task_id, value in (("ours", "0.5"), ("theirs", "7")):
                body = {"id": task_id, "type": "change_config", "params": {"setting": SETTING, "value": value}}
                assert 201 == (await post(api, "/api/tasks", body)).status_code
                assert TaskState.COMPLETED == (await place.ended(client, task_id)).state
            changed = dump(place)
            assert 200 == (await post(api, "/api/tasks/ours/rollback", {})).status_code
            broke = await place.reached(client, "ours", *BACK)
            assert TaskState.ROLLBACK_FAILED == broke.state
            assert broke.error is not None
            assert "ConflictError" == broke.error.kind
            assert "force" in broke.error.remedy
            assert f"stage change, step 1: setting {SETTING} on virtual-1 is 7, neither" in broke.error.message
            assert changed == dump(place)
            assert 200 == (await post(api, "/api/tasks/ours/rollback", {"force": True})).status_code
            assert TaskState.ROLLBACK_COMPLETED == (await place.reached(client, "ours", *BACK)).state
            assert before == dump(place)
            assert 409 == (await post(api, "/api/tasks/ours/rollback", {})).status_code


async def post(api: Door, path: str, body: dict[str, Any]) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60) as http:
        return await http.post(f"{api.url}{path}", json=body)


def dump(place: Farm) -> dict[str, Any]:
    with place.control() as control:
        return control.dump(place.emulators[0])
