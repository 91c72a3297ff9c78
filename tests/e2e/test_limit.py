"""Point 6 of the foundation: a dispatcher at its limit continues as new, and forgets nobody."""

import asyncio
import random
import string
import uuid
from pathlib import Path

from temporalio.client import Client

from droidherd.contracts import names
from droidherd.contracts.queue import (
    CommandResult,
    DispatcherInput,
    OperatorCommand,
    PoolSettings,
    QueuePage,
    QueueQuery,
)
from droidherd.domain import messages as m
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.state import PoolConfig
from tests.support.farm import farm, until
from tests.support.handing_over import hand_over

LIMIT = 10_000
POOL = "full"
"""No emulator of the farm belongs to it, so nobody else starts its dispatcher."""
ALPHABET = string.ascii_letters + string.digits + "._-"


def full_board(count: int) -> str:
    """Waiting tasks with the longest ids there may be, as random as ids get."""
    chance = random.Random(5)
    machine = Dispatcher(POOL, PoolConfig(limit=LIMIT))

    def longest() -> str:
        return "".join(chance.choices(ALPHABET, k=64))

    for number in range(count):
        run = str(uuid.UUID(int=chance.getrandbits(128)))
        key = m.Key(longest(), run, 1)
        machine.on_enqueue(m.Enqueue(key, 1, "account", "tap_once", account=longest()), 1_700_000_000_000 + number)
    machine.outbox.lines.clear()
    return machine.state.dump()


async def test_a_dispatcher_at_its_limit_continues_as_new_with_everybody_in_line(tmp_path: Path) -> None:
    with farm(tmp_path, 1) as place:
        client = await place.client()
        text = await asyncio.to_thread(full_board, LIMIT)
        assert LIMIT == (await _start(client, text)).waiting
        first_run = await _run_id(client)
        for number in range(6):
            await _order(client, number)
        await until(lambda: _continued(client, first_run), "the dispatcher to continue as new", 60)
        page = await _queue(client)
        assert LIMIT == page.waiting
        assert 1 == page.queue[0].position
        assert "operator" == page.lanes[0].paused_by


async def _start(client: Client, text: str) -> QueuePage:
    await hand_over(client, DispatcherInput(pool=POOL, snapshot=text, settings=PoolSettings(continue_after=5)))
    return await _queue(client)


async def _queue(client: Client) -> QueuePage:
    handle = client.get_workflow_handle(names.dispatcher_id(POOL))
    return await handle.query(names.Query.QUEUE, QueueQuery(limit=10), result_type=QueuePage)


async def _order(client: Client, number: int) -> None:
    """Once, though it is repeated when the dispatcher continues as new just then: the request id says so."""
    handle = client.get_workflow_handle(names.dispatcher_id(POOL))
    order = OperatorCommand(request_id=str(number), actor="operator", reason="full", lane="account")

    async def ask() -> CommandResult:
        return await handle.execute_update(names.Update.PAUSE_LANE, order, id=str(number), result_type=CommandResult)

    assert (await until(ask, "the order to be taken", 60)).done


async def _run_id(client: Client) -> str:
    return (await client.get_workflow_handle(names.dispatcher_id(POOL)).describe()).run_id


async def _continued(client: Client, before: str) -> bool | None:
    return True if await _run_id(client) != before else None
