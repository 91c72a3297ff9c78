"""Every service workflow goes on for ever: after any number of accepted messages it continues as new, and answers."""

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle, WorkflowUpdateFailedError

from droidherd.cli.local import ports
from droidherd.cli.local.embedded import EmbeddedTemporal, Profile
from droidherd.contracts import names
from droidherd.contracts.accounts import AccountInput, SetAccount
from droidherd.contracts.fleet import DrainRequest, Join, Reports
from droidherd.contracts.queue import DispatcherInput
from droidherd.contracts.tasks import OperatorRequest, TaskInput, TaskSpec
from droidherd.domain import messages as m
from droidherd.domain.dispatch.audit import AuditEntry
from droidherd.domain.replay import ReplayRecord
from droidherd.domain.task.lifecycle import FINAL
from droidherd.engine.connection import CONVERTER, EngineConfig
from tests.support.temporal import NEW_NAMESPACES
from tests.workflows.subscription_runs import subscription
from tests.workflows.world import World, until, world

pytestmark = pytest.mark.asyncio(loop_scope="module")

FEW, MANY = 250, 10_000
SUGGESTED_AT = 100
"""Events of a history, in a test of few messages: 4,096 on a server as it comes."""
AT_ONCE = 25
LATER = datetime(2100, 1, 1, tzinfo=UTC)
Handle = WorkflowHandle[Any, Any]
Send = Callable[[int], Awaitable[object]]
"""The message of a number."""


async def to_dispatcher(here: World) -> tuple[Handle, Send]:
    """News of emulators, entries of the audit, requests of tasks that are not there."""
    handle = here.dispatcher()

    def send(number: int) -> Awaitable[object]:
        if number % 3 == 0:
            news = m.Announce(f"x{number % 50}", "h9", number, number, m.EmulatorStatus.SUSPECT, boot="b")
            return handle.signal("announce", news)
        if number % 3 == 1:
            return handle.signal(names.Signal.AUDIT_ENTRY, AuditEntry("noted", "ann", f"number {number}"))
        return handle.signal("enqueue", m.Enqueue(m.Key(f"nobody-{number}", "r1", 1), 1, f"lane-{number}", "check"))

    return handle, send


async def to_line(here: World) -> tuple[Handle, Send]:
    """Tasks that are not there want an emulator before all others."""
    handle = here.dispatcher()
    return handle, lambda number: handle.signal("enqueue", phantom(number))


def phantom(number: int) -> m.Enqueue:
    key = m.Key(f"phantom-{number}", "r1", 1)
    return m.Enqueue(key, 1, "anonymous", "check", priority=1, ticket=-MANY - number)


async def to_emulator(here: World) -> tuple[Handle, Send]:
    """It is drained, and not, again and again."""
    handle = here.emulator("e1")

    def send(number: int) -> Awaitable[object]:
        return handle.signal("drain" if number % 2 else "undrain", DrainRequest(actor="ann", reason=f"number {number}"))

    return handle, send


async def to_host(here: World) -> tuple[Handle, Send]:
    """Its worker reports."""
    join = Join(host_id="h8", incarnation=1, machine="m8", worker="w8")
    start = {"host_id": "h8"}
    handle = await here.client.start_workflow(
        names.Workflow.HOST, start, id=names.host_id("h8"), task_queue=names.FLEET_QUEUE
    )
    await handle.execute_update(names.Update.JOIN, join)

    def send(number: int) -> Awaitable[object]:
        health = m.Health.GOOD if number % 2 else m.Health.SUSPECT
        seen = m.Seen(f"y{number % 5}", "h8", 1, 0, health, "b1", pool="elsewhere")
        return handle.signal(names.Signal.REPORTS, Reports(incarnation=1, seen=(seen,)))

    return handle, send


async def to_account(here: World) -> tuple[Handle, Send]:
    """Its record is set, each time to something else."""
    handle = await here.client.start_workflow(
        names.Workflow.ACCOUNT, AccountInput(), id=names.account_id("busy"), task_queue=names.FLEET_QUEUE
    )

    def send(number: int) -> Awaitable[object]:
        text = f"number {number}"
        return handle.execute_update(names.Update.SET, SetAccount(note=text, actor="ann", reason=text, pool=here.pool))

    return handle, send


async def to_account_by_signals(here: World) -> tuple[Handle, Send]:
    """Somebody signals what it does not know."""
    handle = await here.client.start_workflow(
        names.Workflow.ACCOUNT, AccountInput(), id=names.account_id("signalled"), task_queue=names.FLEET_QUEUE
    )
    return handle, lambda number: handle.signal("nobody_knows_this", number)


async def to_subscription_run(here: World) -> tuple[Handle, Send]:
    """Its task waits for its time."""
    one = subscription("busy")
    one = one.model_copy(update={"task": one.task.model_copy(update={"not_before": LATER})})
    handle = await here.client.start_workflow(
        names.Workflow.SUBSCRIPTION_RUN,
        one,
        id=f"{names.subscription_run_id(one.id)}-2026-11-20T08:00:00Z",
        task_queue=names.QUEUE,
    )
    return handle, lambda number: handle.signal("nobody_knows_this", number)


async def a_later_task(here: World, task: str) -> Handle:
    start = TaskInput(spec=TaskSpec(type="sample", not_before=LATER))
    return await here.client.start_workflow(names.Workflow.TASK, start, id=task, task_queue=names.QUEUE)


async def to_task(here: World) -> tuple[Handle, Send]:
    """It is paused and resumed before its time."""
    handle = await a_later_task(here, "busy")

    def send(number: int) -> Awaitable[object]:
        return handle.signal("resume" if number % 2 else "pause", OperatorRequest(actor="ann"))

    return handle, send


async def to_paused_task(here: World) -> tuple[Handle, Send]:
    """What is asked of it is not possible."""
    handle = await a_later_task(here, "busy-and-paused")
    await handle.signal("pause", OperatorRequest(actor="ann"))
    return handle, lambda number: handle.signal("answer", {"choice": f"number {number}"})


KINDS = [
    to_dispatcher,
    to_line,
    to_emulator,
    to_host,
    to_account,
    to_account_by_signals,
    to_subscription_run,
    to_task,
    to_paused_task,
]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTemporal]:
    """Suggests early to continue as new."""
    config = {**NEW_NAMESPACES, "limit.historyCount.suggestContinueAsNew": SUGGESTED_AT}
    profile = Profile(port=ports.free(), database=None, dynamic_config=config)
    with EmbeddedTemporal.start(tmp_path_factory.mktemp("temporal"), in_memory=True, profile=profile) as server:
        yield server


async def a_client(server: EmbeddedTemporal) -> Client:
    name = f"lives-{next(_numbers)}"
    server.add_namespace(name)
    return await Client.connect(server.address, namespace=name, data_converter=CONVERTER)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def short_lived(impatient: EmbeddedTemporal) -> AsyncGenerator[World]:
    async with world(await a_client(impatient), "e1") as here:
        yield here


@pytest.mark.parametrize("kind", KINDS, ids=lambda one: one.__name__)
async def test_after_some_messages_it_continues_as_new_and_answers(
    short_lived: World, kind: Callable[[World], Awaitable[tuple[Handle, Send]]]
):
    await flood(short_lived, kind, FEW)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS, ids=lambda one: one.__name__)
async def test_after_ten_thousand_messages_it_has_continued_as_new_and_answers(
    client: Client, kind: Callable[[World], Awaitable[tuple[Handle, Send]]]
):
    async with world(client, "e1") as here:
        await flood(here, kind, MANY)


@pytest.mark.long
async def test_ten_thousand_requests_while_no_worker_runs_leave_a_pool_that_grants(client: Client):
    start = DispatcherInput(pool="default")
    timeout = timedelta(seconds=EngineConfig().workflow_task_s)
    name, queue = names.dispatcher_id("default"), names.FLEET_QUEUE
    dispatcher = await client.start_workflow(
        names.Workflow.DISPATCHER, start, id=name, task_queue=queue, task_timeout=timeout
    )
    numbers = iter(range(MANY - 1))

    async def sender() -> None:
        for number in numbers:
            await dispatcher.signal("enqueue", phantom(number))

    await asyncio.gather(*(sender() for _ in range(AT_ONCE)))
    began_s = time.monotonic()
    async with world(client, joined=False, record=ReplayRecord(limit=5)) as here:
        here.owns("e1")
        await here.serve_host()
        await asyncio.gather(here.serve("e1"), here.join())
        await here.submit("t1")

        async def ended() -> bool | None:
            return (await here.view("t1")).state in FINAL or None

        await until(ended, "the pool to grant", 120)
    logging.getLogger(__name__).info("%d requests: granted after %.0f s", MANY, time.monotonic() - began_s)


async def flood(here: World, kind: Callable[[World], Awaitable[tuple[Handle, Send]]], count: int) -> None:
    handle, send = await kind(here)
    numbers = iter(range(count))

    async def sender() -> None:
        for number in numbers:
            await accepted(send, number)

    await asyncio.gather(*(sender() for _ in range(AT_ONCE)))
    await asyncio.wait_for(handle.query("__temporal_workflow_metadata"), 60)

    async def continued() -> bool | None:
        runs = [run.status async for run in here.client.list_workflows(f"WorkflowId = '{handle.id}'")]
        return True if WorkflowExecutionStatus.CONTINUED_AS_NEW in runs else None

    await until(continued, f"{handle.id} to continue as new", 60)
    now = here.client.get_workflow_handle(handle.id)
    assert WorkflowExecutionStatus.RUNNING is (await now.describe()).status
    if kind not in (to_dispatcher, to_line):
        await now.terminate()


async def accepted(send: Send, number: int) -> None:
    """A message that comes while a run ends is refused, and sent again."""

    async def taken() -> bool | None:
        try:
            await send(number)
        except WorkflowUpdateFailedError:  # its audit has yet to hear of the changes before
            return None
        return True

    await until(taken, f"message {number} to be taken", 60)
