"""Updates that wait for their answer leave room for those that do not: Temporal takes ten of a run by default."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowUpdateFailedError

from droidherd.contracts import names
from droidherd.contracts.engine import PoolWork, Predecessor
from droidherd.contracts.queue import CommandResult, DispatcherInput, OperatorCommand
from droidherd.contracts.tasks import Admission, TaskView
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.connection import EngineConfig
from droidherd.engine.errors import OverloadedError
from droidherd.engine.workflow_calls import WorkflowCalls
from tests.workflows.plays import asks
from tests.workflows.world import until, world
from workflows.guard import _Guarded
from workflows.inbound import WAITING_MAX

pytestmark = pytest.mark.asyncio(loop_scope="module")

CALLERS = 12


class Late:
    """A dispatcher's predecessor is found late: until then it answers no command and admits no task."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    @activity.defn
    async def find_predecessor(self, work: PoolWork) -> Predecessor:
        await self.may_answer.wait()
        return Predecessor()


class Callers:
    """Twelve at once."""

    def __init__(self, call: "Coroutine[Any, Any, Any]", *others: "Coroutine[Any, Any, Any]") -> None:
        self.calls = [asyncio.ensure_future(one) for one in (call, *others)]

    async def refused(self) -> Counter[str]:
        """Once all are refused that will be."""

        async def enough() -> bool | None:
            return sum(one.done() for one in self.calls) >= CALLERS - WAITING_MAX or None

        await until(enough, "those to be answered that may not wait")
        errors = [one.exception() for one in self.calls if one.done()]
        return Counter(getattr(getattr(one, "cause", None), "type", "") for one in errors)

    async def answers(self) -> list[Any]:
        found = await asyncio.gather(*self.calls, return_exceptions=True)
        return [one for one in found if not isinstance(one, BaseException)]


async def test_twelve_that_wait_keep_nobody_out_who_is_answered_at_once(client: Client):
    late = Late()
    refusals = Counter({names.ASK_AGAIN: CALLERS - WAITING_MAX})
    async with world(client, joined=False, find_predecessor=late.find_predecessor) as here:
        started = await client.start_workflow(
            names.Workflow.DISPATCHER,
            DispatcherInput(pool=here.pool),
            id=names.dispatcher_id(here.pool),
            task_queue=names.FLEET_QUEUE,
        )
        dispatcher = client.get_workflow_handle(started.id)
        await here.submit("patient")
        task = here.task("patient")
        waiting = Callers(*(task.execute_update(names.Update.ADMISSION, result_type=Admission) for _ in range(CALLERS)))
        assert refusals == await waiting.refused()
        asked = here.control("patient", "cancel")
        assert isinstance(await asyncio.wait_for(asked, 30), TaskView)

        command = OperatorCommand(actor="ann", lane="x")
        pause = names.Update.PAUSE_LANE
        ordering = Callers(
            *(dispatcher.execute_update(pause, command, result_type=CommandResult) for _ in range(CALLERS))
        )
        assert refusals == await ordering.refused()
        calls = WorkflowCalls(client, EngineConfig(pool=here.pool))
        with pytest.raises(OverloadedError, match="ask again in a second"):
            await calls.update(dispatcher.id, pause, command, "", CommandResult)

        late.may_answer.set()
        assert WAITING_MAX == len(await waiting.answers())
        assert WAITING_MAX == len(await ordering.answers())


async def test_of_two_answers_that_arrive_together_the_second_is_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
):
    together: list[int] = []
    activate = _Guarded.activate

    def note(self: _Guarded, act: Any) -> Any:
        together.append(sum(job.HasField("do_update") for job in act.jobs))
        return activate(self, act)

    async with world(client, "e1") as here:
        await here.submit("asks", asks(keep=False))
        await here.reached("asks", TaskStatus.WAITING)
    answers = {one: asyncio.ensure_future(here.control("asks", "answer", choice=one)) for one in ("yes", "no")}
    monkeypatch.setattr(_Guarded, "activate", note)
    async with world(client, joined=False) as here:
        await asyncio.wait(answers.values(), timeout=30)
        view = await here.view("asks")
        await here.control("asks", "cancel")
    assert 2 == max(together), "both came in one activation"
    (counts,) = [one for one, call in answers.items() if call.exception() is None]
    (refused,) = [error for call in answers.values() if (error := call.exception()) is not None]
    assert isinstance(refused, WorkflowUpdateFailedError)
    assert names.ILLEGAL_TRANSITION == getattr(refused.cause, "type", "")
    assert [counts] == [line.reason for line in view.events if line.event == "person_answered_later"]
