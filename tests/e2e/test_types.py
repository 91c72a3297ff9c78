"""The built-in task types through a whole farm: engine, worker process, adb server, virtual emulator."""

import asyncio
import hashlib
import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from droidherd.artifacts.store import DirectoryStore
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.emulator.inventory import Inventory
from droidherd.virtual.tinyapk import tiny_apk
from tests.handlers.server import Site, serving
from tests.support.farm import Farm, farm

APP = "com.example.fetched"
APK = tiny_apk(APP, 4)


async def test_every_built_in_type_does_its_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as site:
        site.files["/app.apk"] = APK
        monkeypatch.setenv("DROIDHERD_WEB__ALLOW", json.dumps([site.address]))
        with farm(tmp_path, 1, in_memory=True) as place:
            await asyncio.wait_for(run_all(place, site), 400)
            with place.control() as control:
                after = control.dump("virtual-1")
    assert hashlib.sha256(APK).hexdigest() == after["packages"][APP]["digest"]
    assert ("0.5", "ann") == tuple(
        after["settings"]["global"][name] for name in ("animator_duration_scale", "droidherd_account")
    )
    assert ("Asia/Tokyo", "skiavk") == tuple(
        after["properties"][name] for name in ("persist.sys.timezone", "debug.hwui.renderer")
    )
    (entry,) = Inventory(tmp_path).load()
    assert "ann" == entry.labels["account"]
    names = [ref.name for ref in DirectoryStore(tmp_path / "artifacts").list("t-scan")]
    assert any(name.endswith("scan.json") for name in names)


async def run_all(place: Farm, site: Site) -> None:
    herd: dict[str, JsonValue] = {"app": "com.example.herd"}
    tasks: dict[str, dict[str, JsonValue]] = {
        "download": {"url": site.url("/app.apk"), "package": APP},
        "scan": {},
        "associate": {},
        "check": {"bound": True, **herd},
        "start_app": herd,
        "stop_app": herd,
        "change_config": {"setting": "global/animator_duration_scale", "value": "0.5"},
        "switch_region": {"time_zone": "Asia/Tokyo", "locale": "ja-JP"},
        "switch_runtime": {"renderer": "skiavk", **herd},
        "reset_state": herd,
    }
    client = await place.client()
    await place.wake(client)
    await place.all_up(client)
    for name, params in tasks.items():
        await place.submit(client, f"t-{name}", name, account="ann", params=params)
        view = await place.ended(client, f"t-{name}")
        assert (name, TaskStatus.COMPLETED) == (name, view.state), view.error
