"""Emulators whose host can do something for them, on a real engine: the steps, boots in turn, orders of people."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import Client

from droidherd.contracts.fleet import EmulatorView
from droidherd.contracts.names import Query
from droidherd.contracts.queue import AuditPage, AuditQuery, EventsPage
from droidherd.domain.fleet.emulator import GATE_TRIES
from droidherd.domain.messages import Health
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.testing.skipping import until
from tests.workflows.plays import Hold
from tests.workflows.timing import IMPATIENT_FLEET, TASK_TIMING
from tests.workflows.world import POOL, World, world

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def did(here: World, emulator: str, *steps: str) -> None:
    async def there() -> bool | None:
        return True if here.recoveries.of(emulator) == [*steps] else None

    await until(there, f"{emulator} to be recovered by {steps}")


async def known(here: World, emulator: str) -> None:
    """Wait until it heard what its host can do."""

    async def there() -> bool | None:
        view = await here.emulator(emulator).query(Query.VIEW, result_type=EmulatorView)
        return True if view.controller else None

    await until(there, f"{emulator} to know its host")


async def audited(here: World) -> list[tuple[str, str]]:
    page = await here.dispatcher().query(Query.AUDIT, AuditQuery(), result_type=AuditPage)
    return [(one.kind, one.actor) for one in sorted(page.events, key=lambda one: one.cursor) if one.emulator_id]


async def test_a_silent_emulator_is_restarted_on_boots_queue_and_its_task_returns(client: Client):
    async with world(client, "e1") as here:
        here.allow_recovery()
        hold = Hold()
        await here.submit("task", hold)
        await hold.began.wait()
        await here.sees("e1", Health.DOWN)
        await did(here, "e1", "restart")
        await here.sees("e1", Health.GOOD, boot="b2")
        hold.let_go.set()
        assert "completed" == (await here.ended("task")).state
        assert [("emulator_restart", "system:recovery")] == await audited(here)


async def test_boots_of_one_host_take_turns(client: Client):
    async with world(client, "e1", "e2", "e3") as here:
        here.allow_recovery()
        gates = {name: asyncio.Event() for name in ("e1", "e2", "e3")}
        here.recoveries.holding.update(gates)
        for name in gates:
            await here.sees(name, Health.DOWN)

        async def one_boots() -> bool | None:
            return True if here.recoveries.at_once else None

        for count in (1, 2, 3):
            await until(one_boots, "an emulator to boot")
            assert count == len(here.recoveries.seen)
            name = here.recoveries.seen[-1].emulator_id
            gates[name].set()
            await here.sees(name, Health.GOOD, boot="b2")
            await here.emulator_is(name, "up")
        assert 1 == here.recoveries.most_at_once


async def test_one_that_no_restart_helps_is_quarantined_and_released_by_a_person(client: Client):
    async with world(client, "e1") as here:
        here.allow_recovery(restarts=2)
        here.recoveries.evidence["e1"] = [
            "restart: it does not boot",
            "restart: it does not boot",
            "see /data/quarantine/e1",
        ]
        await here.sees("e1", Health.DOWN)
        await here.emulator_is("e1", "quarantined")
        await did(here, "e1", "restart", "restart", "evidence")

        async def with_evidence() -> EmulatorView | None:
            view = await here.emulator("e1").query(Query.VIEW, result_type=EmulatorView)
            return view if "see" in view.evidence else None

        view = await until(with_evidence, "the evidence")
        assert ("see /data/quarantine/e1", "virtual", "") == (view.evidence, view.controller, view.doing)
        assert (await here.control_emulator("e1", "release", "new disk")).done
        await did(here, "e1", "restart", "restart", "evidence", "restart")
        await here.sees("e1", Health.GOOD, boot="b2")
        await here.emulator_is("e1", "up")
        restarts = [("emulator_restart", "system:recovery")]
        expected = [*restarts * 2, ("emulator_quarantine", "system:recovery"), ("emulator_release", "anna"), *restarts]
        assert expected == await audited(here)


async def test_a_gate_that_fails_leads_through_the_recovery_steps(client: Client):
    async with world(client, "e1", joined=False) as here:
        here.allow_recovery(restarts=0, controller="none")
        here.gates.evidence["e1"] = ["the launcher has no focus"] * 2
        await here.register("e1")
        await here.serve_host()
        await here.join()
        await here.emulator_is("e1", "up")
        assert ["reconnect", "restart_app"] == here.recoveries.of("e1")
        assert 2 < GATE_TRIES


async def test_people_quarantine_restart_and_are_refused_with_the_reason(client: Client):
    async with world(client, "e1") as here:
        refused = await here.control_emulator("e1", "restart")
        assert (False, "its host is away") == (refused.done, refused.detail)
        here.allow_recovery()
        await here.sees("e1", Health.SUSPECT)
        await here.sees("e1", Health.GOOD)
        await known(here, "e1")
        await here.emulator_is("e1", "up")
        assert (await here.control_emulator("e1", "quarantine", "flickers")).done
        await here.emulator_is("e1", "quarantined")
        await did(here, "e1", "evidence")
        assert (await here.control_emulator("e1", "release")).done
        await here.emulator_is("e1", "up")
        assert (await here.control_emulator("e1", "restart", "new settings")).done
        await did(here, "e1", "evidence", "restart")
        for action, state in (("drain", "draining"), ("undrain", "up")):
            assert (await here.control_emulator("e1", action)).done
            await here.emulator_is("e1", state)
        acts = ["emulator_quarantine", "emulator_release", "emulator_restart", "emulator_drain", "emulator_undrain"]
        assert [(one, "anna") for one in acts] == await audited(here)


async def test_a_cancelled_recovery_step_ends_and_a_replaced_workers_is_done_again(client: Client):
    async with world(client, "e1") as here:
        here.allow_recovery()
        hold = here.recoveries.holding["e1"] = asyncio.Event()
        await here.sees("e1", Health.DOWN)
        await did(here, "e1", "restart")
        await here.join(2)
        await here.sees("e1", Health.DOWN, incarnation=2)
        await did(here, "e1", "restart", "restart")
        await here.sees("e1", Health.GOOD, boot="b2", incarnation=2)
        await here.emulator_is("e1", "up")
        hold.set()


async def test_idle_emulator_is_switched_off_and_on_again_for_work_and_before_time(client: Client):
    pool = POOL.model_copy(update={"idle_stop_s": 0.5})
    timing = TASK_TIMING.model_copy(update={"startup_lead_s": 60.0})
    async with world(client, "e1", pool=pool, timing=timing) as here:
        here.allow_recovery()
        for health in (Health.SUSPECT, Health.GOOD):
            await here.sees("e1", health)
        await did(here, "e1", "stop")
        await here.emulator_is("e1", "stopped")
        await here.sees("e1", Health.DOWN)
        await here.submit("now")
        await did(here, "e1", "stop", "start")
        await here.sees("e1", Health.GOOD, boot="b2")
        assert "completed" == (await here.ended("now")).state
        await did(here, "e1", "stop", "start", "stop")
        await here.sees("e1", Health.DOWN)
        await here.submit("later", not_before=datetime.now(UTC) + timedelta(seconds=3))
        await did(here, "e1", "stop", "start", "stop", "start")
        assert "pending" == (await here.view("later")).state
        await here.sees("e1", Health.GOOD, boot="b3")
        assert "completed" == (await here.ended("later")).state


async def test_what_may_have_been_switched_off_is_nobodys_and_switched_off_again(client: Client):
    pool = POOL.model_copy(update={"idle_stop_s": 0.5})
    async with world(client, "e1", pool=pool, fleet=IMPATIENT_FLEET) as here:
        silence = here.recoveries.silent["e1"] = asyncio.Event()
        here.allow_recovery()
        await here.sees("e1", Health.SUSPECT)
        await known(here, "e1")
        await here.sees("e1", Health.GOOD)
        await here.emulator_is("e1", "stopped")
        silence.set()
        assert ["stop", "stop"] == here.recoveries.of("e1")
        page = await here.dispatcher().query(Query.EVENTS, 0, result_type=EventsPage)
        states = [one.kind for one in page.events if one.kind.startswith("emulator_")]
        assert ["emulator_up", "emulator_rest", "emulator_draining", "emulator_stopped"] == states[-4:]


async def test_a_waiting_task_and_the_log_say_why_its_emulator_is_not_up(
    client: Client, caplog: pytest.LogCaptureFixture
):
    async with world(client, "e1") as here:
        here.allow_recovery()
        await here.emulator_is("e1", "up")
        with caplog.at_level("INFO", logger="temporalio.workflow"):
            for action, state in (("drain", "draining"), ("quarantine", "quarantined")):
                await here.control_emulator("e1", action, "new image")
                await here.emulator_is("e1", state)
                await here.submit(f"task-{action}")
                await here.reached(f"task-{action}", TaskStatus.QUEUED)
                waits = (await here.view(f"task-{action}")).why
                assert f"e1 is {state} (by anna: new image)" in waits
    changes = [vars(one) for one in caplog.records if one.msg.startswith("emulator is %s")]
    assert ("up", "draining", "by anna: new image") == tuple(changes[0][name] for name in ("before", "state", "why"))
