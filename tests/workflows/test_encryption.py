"""Keys that come and go while workflows run: nothing is lost, and nothing that waits for a key is ended."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.api.failure.v1 import Failure
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.exceptions import ApplicationError

from droidherd.cli.local.embedded import EmbeddedTemporal
from droidherd.contracts import names
from droidherd.contracts.tasks import OperatorRequest, TaskInput, TaskSpec
from droidherd.domain.replay import ReplayRecord
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.connection import CONVERTER, EngineConfig, converter_of
from droidherd.engine.encryption import EncryptionKeys
from droidherd.engine.errors import NoWorkerError
from droidherd.engine.queue import QueueClient
from droidherd.engine.tasks import TasksClient
from droidherd.engine.visibility import REPLACED
from droidherd.engine.workflow_calls import WorkflowCalls
from tests.workflows.conftest import namespace_client
from tests.workflows.world import until, world
from workflows.guard import message_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

OLD = EncryptionKeys("k1", {"k1": b"1" * 32})
BOTH = EncryptionKeys("k2", {"k2": b"2" * 32, "k1": b"1" * 32})
NEW = EncryptionKeys("k2", {"k2": b"2" * 32})
NONE = EncryptionKeys()
LATER = datetime(2100, 1, 1, tzinfo=UTC)
FAILURES = 3


async def with_keys(client: Client, keys: EncryptionKeys) -> Client:
    """A client of the same namespace."""
    address = client.service_client.config.target_host
    return await Client.connect(address, namespace=client.namespace, data_converter=converter_of(keys))


async def tries(run: "WorkflowHandle[Any, Any]") -> int | None:
    """How often its workflow task was tried, once that is more often than any record forgives."""
    attempt = (await run.describe()).raw_description.pending_workflow_task.attempt
    return attempt if attempt > FAILURES else None


async def test_tasks_go_on_after_a_new_key_and_wait_for_a_removed_one(
    temporal_server: EmbeddedTemporal,
):
    plain = await namespace_client(temporal_server)
    old, both, new = await asyncio.gather(*(with_keys(plain, keys) for keys in (OLD, BOTH, NEW)))
    async with world(old, joined=False) as here:
        await here.submit("t1", not_before=LATER)
        assert TaskStatus.PENDING == (await here.view("t1")).state
    async with world(both, joined=False) as here:
        assert TaskStatus.PENDING == (await here.view("t1")).state
        await here.submit("t2", not_before=LATER)
    record = ReplayRecord(limit=2)
    async with world(new, joined=False, record=record) as here:
        run = here.task("t1")
        await run.signal(names.Signal.PAUSE, OperatorRequest(actor="ann"))
        await until(lambda: tries(run), "its workflow task to fail")
        assert TaskStatus.PENDING == (await here.view("t2")).state, "what the new key opens goes on"
        assert WorkflowExecutionStatus.RUNNING is (await run.describe()).status
        errors = [one.workflow_task_failed_event_attributes async for one in run.fetch_history_events()]
        [failed] = [one.failure for one in errors if one.HasField("failure")]
        assert "the key 'k1', which this process does not have" in str(await converter_of(NEW).decode_failure(failed))
        config = EngineConfig(pool=here.pool)
        reading = await TasksClient(new, config, QueueClient(new, config)).view("t1")
        assert (True, "its workflow tasks fail: ") == (reading.stale, reading.view.why[:25])
        assert "the key 'k1'" in reading.view.why
        assert "put that key back into `encryption.keys_file`" in reading.view.why
    async with world(both, joined=False) as here:

        async def paused() -> bool | None:
            return (await here.view("t1")).state is TaskStatus.PAUSED or None

        await until(paused, "t1 to hear what it was told meanwhile")


async def test_messages_of_a_fleet_that_is_being_changed_over_are_read_or_refused(temporal_server: EmbeddedTemporal):
    plain = await namespace_client(temporal_server)
    old, strange = await asyncio.gather(
        with_keys(plain, OLD), with_keys(plain, EncryptionKeys("k9", {"k9": b"9" * 32}))
    )
    async with world(old, joined=False) as here:
        await here.submit("t1", not_before=LATER)
        await strange.get_workflow_handle("t1").signal(names.Signal.CANCEL, OperatorRequest(actor="mallory"))
        task = TaskInput(spec=TaskSpec(type="sample"))
        lost = await strange.start_workflow(
            names.Workflow.TASK, task, id="t2", task_queue=names.QUEUE, task_timeout=timedelta(seconds=1)
        )
        await until(lambda: tries(lost), "its workflow task to fail")
        config = EngineConfig(pool=here.pool)
        assert "the key 'k9'" in await WorkflowCalls(old, config).why_stuck("t2")
        assert TaskStatus.PENDING == (await here.view("t1")).state
        await plain.get_workflow_handle("t1").signal(names.Signal.PAUSE, OperatorRequest(actor="ann"))

        async def paused() -> bool | None:
            return (await here.view("t1")).state is TaskStatus.PAUSED or None

        await until(paused, "a plain message to be read")


async def test_a_worker_without_keys_refuses_what_is_encrypted_and_goes_on(temporal_server: EmbeddedTemporal):
    plain = await namespace_client(temporal_server)
    sealed = await with_keys(plain, OLD)
    assert plain.data_converter is CONVERTER
    async with world(plain, joined=False) as here:
        await here.submit("t1", not_before=LATER)
        await sealed.get_workflow_handle("t1").signal(names.Signal.CANCEL, OperatorRequest(actor="ann"))
        assert TaskStatus.PENDING == (await here.view("t1")).state


async def test_encryption_does_not_hide_what_kind_of_error_it_was(temporal_server: EmbeddedTemporal):
    sealed = await with_keys(await namespace_client(temporal_server), OLD)
    async with world(sealed, joined=False) as here:
        await here.submit("t1", not_before=LATER)
        config = EngineConfig(pool=here.pool)
        with pytest.raises(NoWorkerError, match=r"could not answer: \w+ \(the rest of it is encrypted\)"):
            await WorkflowCalls(sealed, config).query("t1", names.Query.AUDIT, None, dict)
        await here.task("t1").terminate({"error": "ValueError: odd", "failures": 5}, reason=f"{REPLACED} 5 times")
        reading = await TasksClient(sealed, config, QueueClient(sealed, config)).view("t1")
        assert reading.view.error is not None
        assert reading.view.error.message.endswith(f"{REPLACED} 5 times: ValueError: odd")


async def test_the_guard_reads_an_error_before_it_is_encrypted():
    converter, failure = converter_of(OLD), Failure()
    error = ApplicationError("odd", type="Strange")
    converter.failure_converter.to_failure(error, converter.payload_converter, failure)
    assert ("Encoded failure", "odd") == (failure.message, message_of(failure))
