"""A subscription with everything real: engine, worker, API, and a virtual emulator behind the adb server."""

from pathlib import Path

import httpx

from tests.api.recurring import ALL, add, show, tasks
from tests.api.waiting import eventually
from tests.support.api_server import api_server
from tests.support.farm import farm

LIMIT_S = 120.0


def test_a_task_recurs_on_an_emulator_until_its_subscription_is_deleted(tmp_path: Path):
    with (
        farm(tmp_path, 1, in_memory=True) as place,
        api_server(place) as front,
        httpx.Client(base_url=front.url, timeout=60) as http,
    ):
        add(http, "often", every_s=1, overlap="buffer_one")
        eventually(lambda: len(tasks(http, "often", "completed")) >= 2, LIMIT_S)
        assert 0 == show(http, "often")["missed"]
        assert http.delete(f"{ALL}/often", params={"tasks": "finish"}).is_success
        eventually(lambda: not tasks(http, "often", "pending", "queued", "running"), LIMIT_S)
        eventually(lambda: {"completed"} == {one["state"] for one in tasks(http, "often")}, LIMIT_S)
        done = tasks(http, "often")
        taps = [one for one in place.journal(place.emulators[0]) if one.argv[:2] == ("input", "tap")]
        assert len(done) == len(taps), "each of them tapped once"
