import io
import json
import logging
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.api.failure.v1 import ActivityFailureInfo, ApplicationFailureInfo, Failure, TimeoutFailureInfo
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.exceptions import TimeoutError as ActivityTimeout
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from droidherd.cli.local.embedded import EmbeddedTemporal
from droidherd.contracts.fleet import HostInput, HostState
from droidherd.contracts.tasks import TaskInput, TaskSpec
from droidherd.domain.messages import Health, Key, Seen
from droidherd.engine.connection import CONVERTER, CORE, TEXT_MAX, PayloadConverter, connect, core_runtime
from droidherd.engine.encryption import EncryptionKeys
from droidherd.engine.errors import EngineError, NoWorkerError, OverloadedError, UnavailableError, translate
from droidherd.settings import Temporal
from droidherd.telemetry import JsonLines
from tests.support.tls import papers, tls_proxy
from tests.workflows.world import until

NO_KEYS = EncryptionKeys()
REQUEST = TaskInput(spec=TaskSpec(type="press"))
VALUES = [Key("a", "b", 1), {"a": [1, None]}, "text", timedelta(days=2)]

PROFILE = """
[profile.farm.tls]
server_ca_cert_path = "{authority}"
client_cert_path = "{certificate}"
client_key_path = "{key}"
"""


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
async def test_payloads_are_what_every_other_pydantic_client_writes_and_reads(value: object):
    written = await CONVERTER.encode([value])
    assert written == await pydantic_data_converter.encode([value])
    assert [value] == await CONVERTER.decode(written, [type(value)])


async def test_of_a_request_only_what_was_set_is_written_and_every_client_reads_it():
    written = await CONVERTER.encode([REQUEST])
    assert b'{"spec":{"type":"press"}}' == written[0].data
    assert [REQUEST] == await pydantic_data_converter.decode(written, [TaskInput])


async def test_what_a_workflow_knows_is_written_whole_inside_a_request():
    state = HostState()
    state.last["e1"] = Seen("e1", "h1", 1, 1, Health.GOOD)  # in place: pydantic does not count it as set
    [written] = await CONVERTER.encode([HostInput(host_id="h1", state=state)])
    assert [HostInput(host_id="h1", state=state)] == await CONVERTER.decode([written], [HostInput])


def test_a_type_is_learned_to_be_read_once_and_not_by_each_workflow():
    first, second = (PayloadConverter().converters[b"json/plain"] for _ in range(2))
    assert first is second


async def test_an_engine_elsewhere_is_shown_the_papers_of_the_profile(
    temporal_server: EmbeddedTemporal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    mine = papers(tmp_path)
    file = tmp_path / "temporal.toml"
    file.write_text(PROFILE.format(authority=mine.authority, certificate=mine.certificate, key=mine.key))
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(file))
    async with tls_proxy(temporal_server.address, mine) as address:
        client = await connect(Temporal(address=address, embedded=False, profile="farm"), NO_KEYS)
        assert "droidherd" == client.namespace
        assert await client.service_client.check_health()
        for bare in (Temporal(address=address, embedded=False), Temporal(address=address, profile="farm")):
            with pytest.raises(UnavailableError, match=r"asked without TLS.*temporal\.profile"):
                await connect(bare, NO_KEYS)


async def test_the_key_of_another_engine_is_not_shown_to_the_engine_in_use(
    temporal_server: EmbeddedTemporal, monkeypatch: pytest.MonkeyPatch
):
    """A key implies TLS, which ours does not speak."""
    monkeypatch.setenv("TEMPORAL_API_KEY", "secret")
    assert await (await connect(Temporal(address=temporal_server.address), NO_KEYS)).service_client.check_health()
    with pytest.raises(UnavailableError, match="asked with TLS") as caught:
        await connect(Temporal(address=temporal_server.address, embedded=False), NO_KEYS)
    assert "secret" not in str(caught.value)


async def test_a_profile_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "none.toml"))
    with pytest.raises(UnavailableError, match="the profile farm of Temporal cannot be read"):
        await connect(Temporal(embedded=False, profile="farm"), NO_KEYS)


@workflow.defn(name="Broken")
class Broken:
    @workflow.run
    async def run(self) -> None:
        raise RuntimeError("a fault in a workflow")


async def test_what_the_core_of_the_sdk_writes_are_json_lines_like_ours(client: Client, task: str):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logging.getLogger(CORE).addHandler(handler)
    try:
        address = client.service_client.config.target_host
        other = await Client.connect(address, namespace=client.namespace, runtime=core_runtime())
        async with Worker(other, task_queue=task, workflows=[Broken], workflow_runner=UnsandboxedWorkflowRunner()):
            await other.start_workflow("Broken", id=task, task_queue=task)

            async def written() -> bool | None:
                return "Failing workflow task" in stream.getvalue() or None

            await until(written, "the core to write a line")
            await other.get_workflow_handle(task).terminate()
    finally:
        logging.getLogger(CORE).removeHandler(handler)
    line = json.loads(next(one for one in stream.getvalue().splitlines() if "Failing" in one))
    assert ("warning", CORE, "Failing workflow task") == (line["level"], line["from"], line["event"])
    assert "a fault in a workflow" in line["details"]["failure"]


NESTED = Failure(
    message="forged",
    activity_failure_info=ActivityFailureInfo(retry_state=99),  # type: ignore[arg-type] # a number of no state
    cause=Failure(message="inner", timeout_failure_info=TimeoutFailureInfo(timeout_type=99)),  # type: ignore[arg-type]
)
STRANGE = Failure(message="x", application_failure_info=ApplicationFailureInfo(category=99))  # type: ignore[arg-type]


@pytest.mark.parametrize("failure", [NESTED, STRANGE], ids=["nested", "strange"])
def test_a_failure_that_the_sdk_cannot_read_is_a_failure_all_the_same(failure: Failure):
    read = CONVERTER.failure_converter.from_failure(failure, CONVERTER.payload_converter)
    assert isinstance(read, ApplicationError)
    assert "UnreadableFailureError" == read.type
    assert read.non_retryable


def test_of_a_failure_only_so_much_text_is_taken():
    info = ApplicationFailureInfo(type="y" * 100_000)
    long = Failure(message="x" * 100_000, application_failure_info=info)
    read = CONVERTER.failure_converter.from_failure(long, CONVERTER.payload_converter)
    assert isinstance(read, ApplicationError)
    assert ("x" * TEXT_MAX, "y" * TEXT_MAX) == (read.message, read.type)
    timeout = Failure(message="x" * 100_000, timeout_failure_info=TimeoutFailureInfo())
    assert isinstance(CONVERTER.failure_converter.from_failure(timeout, CONVERTER.payload_converter), ActivityTimeout)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("consistent query buffer is full, this may be caused by too many queries", NoWorkerError),
        ("namespace rate limit exceeded", OverloadedError),
    ],
)
def test_questions_that_no_worker_takes_are_not_too_much_to_do(message: str, kind: type[EngineError]):
    error = RPCError(message, RPCStatusCode.RESOURCE_EXHAUSTED, b"")
    assert kind is type(translate(error, worker=True))


def test_a_schedule_that_many_ask_for_at_once_is_asked_again():
    full = RPCError("consistent query buffer is full", RPCStatusCode.RESOURCE_EXHAUSTED, b"")
    assert OverloadedError is type(translate(full))
