"""Cleanups over HTTP, and a disk that is too full."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from droidherd.cli.local.embedded import EmbeddedTemporal
from droidherd.engine.maintenance import keep_schedule
from droidherd.settings import Limits, RetentionSettings
from tests.api.test_tasks import submit, until
from tests.api.waiting import eventually
from tests.api.world import World

ROUTE = "/api/maintenance/cleanup"
NOTHING_IS_KEPT = {"retention": RetentionSettings(completed_days=0, failed_days=0, rejected_days=0, orphan_days=0)}


@pytest.fixture
def cleaned(temporal_server: EmbeddedTemporal, temporal_namespace: str, tmp_path: Path) -> Iterator[World]:
    """Whatever has ended is old."""
    with World(temporal_server.address, temporal_namespace, tmp_path, NOTHING_IS_KEPT) as world:
        world.work()
        yield world


def test_what_would_go_is_listed_and_then_goes(cleaned: World):
    with httpx.Client(base_url=cleaned.url, timeout=120) as http:
        task_id = submit(http, "old").json()["id"]
        until(http, task_id, "completed")
        left = len(cleaned.store.get(task_id, "log-1-0.jsonl"))
        closed = f"WorkflowId = '{task_id}' AND ExecutionStatus = 'Completed'"
        eventually(lambda: cleaned.run(count(cleaned, closed)))
        for dry_run in (True, False):
            made = http.post(ROUTE, json={"dry_run": dry_run, "actor": "ann", "reason": "spring"})
            found = made.json()
            assert (200, "completed", dry_run) == (made.status_code, found["state"], found["report"]["dry_run"])
            stats = found["report"]["stats"]
            assert ({"completed": 1}, left, 0, 0) == (stats["tasks"], stats["bytes"], stats["orphans"], stats["more"])
            (gone,) = stats["removed"]
            assert (task_id, "completed", "age", left) == (gone["task_id"], gone["state"], gone["why"], gone["bytes"])
            assert dry_run == bool(cleaned.store.list(task_id))
        page = http.get(ROUTE).json()
        assert ["maintenance/cleanup/by-hand", "maintenance/cleanup/dry-run"] == [one["id"] for one in page["cleanups"]]
        report = page["cleanups"][0]["report"]
        assert ("ann", "spring", {"completed": 1}) == (report["actor"], report["reason"], report["stats"]["tasks"])


async def count(world: World, query: str) -> int:
    """As the engine lists them: it does so a moment later."""
    return (await world.client.count_workflows(query)).count


def test_without_a_body_it_is_a_real_one_by_http(cleaned: World):
    with httpx.Client(base_url=cleaned.url, timeout=120) as http:
        report = http.post(ROUTE).json()["report"]
        assert ("somebody", False, {}, []) == (
            report["actor"],
            report["dry_run"],
            report["stats"]["tasks"],
            report["stats"]["removed"],
        )


@pytest.mark.parametrize(
    ("body", "field"), [({"dry_run": "perhaps"}, "dry_run"), ({"dryrun": True}, "dryrun"), ({"actor": "a\nb"}, "actor")]
)
def test_a_request_that_makes_no_sense_is_refused_and_removes_nothing(
    http: httpx.Client, body: dict[str, object], field: str
):
    refused = http.post(ROUTE, json=body)
    assert (422, field) == (refused.status_code, refused.json()["errors"][0]["field"])


def test_a_wait_that_is_none_is_refused(http: httpx.Client):
    assert 422 == http.post(ROUTE, params={"wait": "soon"}).status_code
    assert 422 == http.post(ROUTE, params={"wait": "2h"}).status_code


def test_one_that_takes_longer_goes_on_and_a_second_request_joins_it(
    temporal_server: EmbeddedTemporal, temporal_namespace: str, tmp_path: Path
):
    with (
        World(temporal_server.address, temporal_namespace, tmp_path) as world,
        httpx.Client(base_url=world.url, timeout=120) as http,
    ):
        first = http.post(ROUTE, params={"wait": "0s"}, json={"actor": "ann"})
        second = http.post(ROUTE, params={"wait": "0s"}, json={"actor": "ben"})
        assert (202, 202, "running") == (first.status_code, second.status_code, first.json()["state"])
        assert first.json() == second.json()
        world.work()
        done = http.post(ROUTE, params={"wait": "60s"}, json={"actor": "ben"})
        assert (200, first.json()["run_id"], "ann") == (
            done.status_code,
            done.json()["run_id"],
            done.json()["report"]["actor"],
        )


def test_the_next_one_is_shown_unless_somebody_paused_the_schedule(cleaned: World):
    with httpx.Client(base_url=cleaned.url, timeout=120) as http:
        assert (None, "no worker has made the schedule yet") == (
            http.get(ROUTE).json()["next"],
            http.get(ROUTE).json()["note"],
        )
        cleaned.run(keep_schedule(cleaned.client, "02:00", "UTC"))
        assert "T02:00:00Z" in eventually(lambda: http.get(ROUTE).json()["next"])
        cleaned.run(cleaned.client.get_schedule_handle("maintenance/cleanup").pause(note="audit"))
        paused = eventually(lambda: page if (page := http.get(ROUTE).json())["paused"] else None)
        assert (None, "audit") == (paused["next"], paused["note"])


def test_without_an_engine_nothing_is_started_and_it_says_so(tmp_path: Path):
    world = World("127.0.0.1:9", "nowhere", tmp_path)
    world.alone = True
    with world, httpx.Client(base_url=world.url, timeout=120) as http:
        assert [503, 503] == [http.post(ROUTE).status_code, http.get(ROUTE).status_code]


def test_a_disk_that_is_too_full_makes_it_not_ready_and_says_which(
    temporal_server: EmbeddedTemporal, temporal_namespace: str, tmp_path: Path
):
    full = {"limits": Limits(disk_free_bytes=10**15)}
    with (
        World(temporal_server.address, temporal_namespace, tmp_path, full) as world,
        httpx.Client(base_url=world.url, timeout=120) as http,
    ):
        world.work()
        eventually(lambda: not http.get("/readyz").json()["parts"]["dispatcher"])
        ready = http.get("/readyz")
        assert (503, ["disk"]) == (ready.status_code, [part for part, why in ready.json()["parts"].items() if why])
        assert f"free at {tmp_path}" in ready.json()["parts"]["disk"]
        assert "wanted are 1000000.00 GB" in ready.json()["parts"]["disk"]
