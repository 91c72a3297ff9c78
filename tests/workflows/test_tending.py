"""Emulators whose host can do something for them, on a real engine: the ladder, boots in turn, orders of people."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import Client

from droidherd.contracts.fleet import EmulatorView
from droidherd.contracts.names import Query
from droidherd.contracts.queue import AuditPage, AuditQuery, EventsPage
from droidherd.domain.emulator import GATE_TRIES
from droidherd.domain.messages import Sight
from droidherd.testing.waiting import until
from tests.workflows.physics import IMPATIENT_FLEET, TASK_PHYSICS
from tests.workflows.plays import Hold
from tests.workflows.world import POOL, World, world

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def did(here: World, emulator: str, *measures: str) -> None:
    async def there() -> bool | None:
        return True if here.tends.of(emulator) == [*measures] else None

    await until(there, f"{emulator} to be tended to by {measures}")


async def known(here: World, emulator: str) -> None:
    """Wait until it heard what its host can do."""

    async def there() -> bool | None:
        view = await here.emulator(emulator).query(Query.VIEW, result_type=EmulatorView)
        return True if view.controller else None

    await until(there, f"{emulator} to know its host")


async def audited(here: World) -> list[tuple[str, str]]:
    page = await here.dispatcher().query(Query.AUDIT, AuditQuery(), result_type=AuditPage)
    return [(one.kind, one.actor) for one in sorted(page.events, key=lambda one: one.cursor) if one.emulator_id]


async def test_a_silent_emulator_is_restarted_on_the_boots_queue_and_its_task_moves_back(client: Client):
    async with world(client, "e1") as here:
        here.cares()
        hold = Hold()
        await here.submit("task", hold)
        await hold.began.wait()
        await here.sees("e1", Sight.DOWN)
        await did(here, "e1", "restart")
        await here.sees("e1", Sight.GOOD, boot="b2")
        hold.let_go.set()
        assert "completed" == (await here.ended("task")).state
        assert [("emulator_restart", "system:recovery")] == await audited(here)


async def test_boots_of_one_host_take_turns(client: Client):
    async with world(client, "e1", "e2", "e3") as here:
        here.cares()
        gates = {name: asyncio.Event() for name in ("e1", "e2", "e3")}
        here.tends.holding.update(gates)
        for name in gates:
            await here.sees(name, Sight.DOWN)

        async def one_boots() -> bool | None:
            return True if here.tends.at_once else None

        for count in (1, 2, 3):
            await until(one_boots, "an emulator to boot")
            assert count == len(here.tends.seen)
            name = here.tends.seen[-1].emulator_id
            gates[name].set()
            await here.sees(name, Sight.GOOD, boot="b2")
            await here.emulator_is(name, "up")
        assert 1 == here.tends.most_at_once


async def test_one_that_no_restart_helps_is_quarantined_with_evidence_and_released_by_a_person(client: Client):
    async with world(client, "e1") as here:
        here.cares(restarts=2)
        here.tends.evidence["e1"] = [
            "restart: it does not boot",
            "restart: it does not boot",
            "see /data/quarantine/e1",
        ]
        await here.sees("e1", Sight.DOWN)
        await here.emulator_is("e1", "quarantined")
        await did(here, "e1", "restart", "restart", "evidence")

        async def told() -> EmulatorView | None:
            view = await here.emulator("e1").query(Query.VIEW, result_type=EmulatorView)
            return view if "see" in view.evidence else None

        view = await until(told, "the evidence")
        assert ("see /data/quarantine/e1", "virtual", "") == (view.evidence, view.controller, view.doing)
        assert (await here.cared("e1", "release", "new disk")).done
        await did(here, "e1", "restart", "restart", "evidence", "restart")
        await here.sees("e1", Sight.GOOD, boot="b2")
        await here.emulator_is("e1", "up")
        restarts = [("emulator_restart", "system:recovery")]
        expected = [*restarts * 2, ("emulator_quarantine", "system:recovery"), ("emulator_release", "anna"), *restarts]
        assert expected == await audited(here)


async def test_a_gate_that_fails_leads_up_the_ladder(client: Client):
    async with world(client, "e1", joined=False) as here:
        here.cares(restarts=0, controller="none")
        here.gates.evidence["e1"] = ["the launcher has no focus"] * 2
        await here.register("e1")
        await here.serve_host()
        await here.join()
        await here.emulator_is("e1", "up")
        assert ["reconnect", "restart_app"] == here.tends.of("e1")
        assert 2 < GATE_TRIES


async def test_people_quarantine_restart_and_are_refused_with_the_reason(client: Client):
    async with world(client, "e1") as here:
        refused = await here.cared("e1", "restart")
        assert (False, "its host is away") == (refused.done, refused.detail)
        here.cares()
        await here.sees("e1", Sight.SUSPECT)
        await here.sees("e1", Sight.GOOD)
        await known(here, "e1")
        await here.emulator_is("e1", "up")
        assert (await here.cared("e1", "quarantine", "flickers")).done
        await here.emulator_is("e1", "quarantined")
        await did(here, "e1", "evidence")
        assert (await here.cared("e1", "release")).done
        await here.emulator_is("e1", "up")
        assert (await here.cared("e1", "restart", "new settings")).done
        await did(here, "e1", "evidence", "restart")
        for action, state in (("drain", "draining"), ("undrain", "up")):
            assert (await here.cared("e1", action)).done
            await here.emulator_is("e1", state)
        acts = ["emulator_quarantine", "emulator_release", "emulator_restart", "emulator_drain", "emulator_undrain"]
        assert [(one, "anna") for one in acts] == await audited(here)


async def test_a_measure_that_is_called_back_ends_and_one_of_a_replaced_worker_is_done_again(client: Client):
    async with world(client, "e1") as here:
        here.cares()
        hold = here.tends.holding["e1"] = asyncio.Event()
        await here.sees("e1", Sight.DOWN)
        await did(here, "e1", "restart")
        await here.join(2)
        await here.sees("e1", Sight.DOWN, incarnation=2)
        await did(here, "e1", "restart", "restart")
        await here.sees("e1", Sight.GOOD, boot="b2", incarnation=2)
        await here.emulator_is("e1", "up")
        hold.set()


async def test_an_idle_emulator_is_switched_off_and_on_again_for_work_and_before_its_time(client: Client):
    pool = POOL.model_copy(update={"idle_stop_s": 0.5})
    physics = TASK_PHYSICS.model_copy(update={"startup_lead_s": 60.0})
    async with world(client, "e1", pool=pool, physics=physics) as here:
        here.cares()
        for sight in (Sight.SUSPECT, Sight.GOOD):
            await here.sees("e1", sight)
        await did(here, "e1", "stop")
        await here.emulator_is("e1", "stopped")
        await here.sees("e1", Sight.DOWN)
        await here.submit("now")
        await did(here, "e1", "stop", "start")
        await here.sees("e1", Sight.GOOD, boot="b2")
        assert "completed" == (await here.ended("now")).state
        await did(here, "e1", "stop", "start", "stop")
        await here.sees("e1", Sight.DOWN)
        await here.submit("later", not_before=datetime.now(UTC) + timedelta(seconds=3))
        await did(here, "e1", "stop", "start", "stop", "start")
        assert "pending" == (await here.view("later")).state
        await here.sees("e1", Sight.GOOD, boot="b3")
        assert "completed" == (await here.ended("later")).state


async def test_what_may_have_been_switched_off_is_nobodys_and_is_switched_off_once_more(client: Client):
    pool = POOL.model_copy(update={"idle_stop_s": 0.5})
    async with world(client, "e1", pool=pool, fleet=IMPATIENT_FLEET) as here:
        silence = here.tends.silent["e1"] = asyncio.Event()
        here.cares()
        await here.sees("e1", Sight.SUSPECT)
        await known(here, "e1")
        await here.sees("e1", Sight.GOOD)
        await here.emulator_is("e1", "stopped")
        silence.set()
        assert ["stop", "stop"] == here.tends.of("e1")
        page = await here.dispatcher().query(Query.EVENTS, 0, result_type=EventsPage)
        states = [one.kind for one in page.events if one.kind.startswith("emulator_")]
        assert ["emulator_up", "emulator_rest", "emulator_draining", "emulator_stopped"] == states[-4:]
