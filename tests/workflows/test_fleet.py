"""Hosts and emulators as workflows: who may join, what silence means, what must pass a gate."""

import asyncio
import time
from dataclasses import replace

import pytest
from temporalio.client import Client

from droidherd.contracts import names
from droidherd.contracts.fleet import EmulatorView, GateWork
from droidherd.domain.errors import FlowError
from droidherd.domain.fleet.emulator import GATE_TRIES
from droidherd.domain.messages import Health
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.engine.connection import EngineConfig
from droidherd.engine.hosts import HostsClient
from tests.workflows.plays import Deaf, Hold, asks, completes, fails
from tests.workflows.timing import FLEET_TIMING, IMPATIENT_FLEET, TASK_TIMING
from tests.workflows.world import World, until, wake, world
from workflows import options

pytestmark = pytest.mark.asyncio(loop_scope="module")


def full(here: World) -> list[GateWork]:
    """Boot gates; a new pool also has every emulator reset."""
    return [gate for gate in here.gates.seen if gate.full]


async def entity(here: World, emulator: str, *states: str) -> EmulatorView:
    """As its own workflow sees it."""

    async def there() -> EmulatorView | None:
        view = await here.emulator(emulator).query(names.Query.VIEW, result_type=EmulatorView)
        return view if view.state in states else None

    return await until(there, f"{emulator} to be {states}")


async def test_a_host_that_joined_brings_its_emulators_up_through_the_gate(client: Client):
    async with world(client, "e1") as here:
        view = await entity(here, "e1", "up")
        assert ("h1", "default", "127.0.0.1:20002", "serial-e1") == (
            view.host,
            view.pool,
            view.address,
            view.serialno,
        )
        assert {"emulator_id": "e1", "android": "14"} == view.labels
        assert [("e1", "boot-e1-1")] == [(gate.emulator_id, gate.boot) for gate in full(here)]
        host = here.client.get_workflow_handle(names.host_id("h1"))
        assert {"e1": "good"} == await host.query(names.Query.VIEW, result_type=dict[str, str])


async def test_a_second_machine_under_the_same_id_is_refused_while_the_first_lives(client: Client):
    async with world(client, "e1") as here:
        refused = await here.join(2, machine="m2")
        assert (False, "host id h1 is served by w1@m1") == (refused.accepted, refused.reason)
        assert (True, "") == ((await here.join(1)).accepted, "")
        older = await here.join(0)
        assert (False, "a newer worker has joined already") == (older.accepted, older.reason)
        assert (await here.join(2)).accepted


async def test_silence_makes_suspect_and_a_restarted_presence_makes_good_again(client: Client):
    quick = FLEET_TIMING.model_copy(update={"presence_timeout_s": 1.0})
    async with world(client, "e1", fleet=quick) as here:
        hold = Hold()
        await here.submit("task", hold)
        await hold.began.wait()
        here.presence.silent.set()
        await here.emulator_is("e1", "suspect")
        here.presence.silent.clear()
        await here.emulator_is("e1", "up")
        hold.let_go.set()
        view = await here.ended("task")
        assert (["completed"], 1) == ([one.outcome for one in view.attempts], len(here.stages.of("task")))


async def test_a_presence_that_raises_is_begun_again_after_a_pause(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(options, "PRESENCE_BACKOFF_S", 3600.0)
    async with world(client, "e1") as here:
        await entity(here, "e1", "up")
        here.presence.broken.set()
        await here.emulator_is("e1", "suspect")
        here.presence.broken.clear()
        assert 1 == here.presence.began
        assert (await here.join(2)).accepted
        await here.emulator_is("e1", "up")
        assert 2 == here.presence.began, "a worker that joins does not wait for the pause of its predecessor"


async def test_a_presence_that_raised_is_tried_again(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(options, "PRESENCE_BACKOFF_S", 0.05)
    async with world(client, "e1") as here:
        await entity(here, "e1", "up")
        here.presence.broken.set()
        await here.emulator_is("e1", "suspect")
        here.presence.broken.clear()
        await here.emulator_is("e1", "up")
        assert 2 <= here.presence.began


async def test_a_lost_host_loses_its_emulators_and_a_new_worker_brings_them_back(client: Client):
    async with world(client, "e1", fleet=IMPATIENT_FLEET) as here:
        here.presence.silent.set()
        assert here.host_worker is not None
        await here.host_worker.shutdown()
        await here.emulator_is("e1", "down")
        await here.submit("task")
        await here.reached("task", TaskStatus.QUEUED)
        here.presence.silent.clear()
        await here.serve_host()
        assert (await here.join(2, machine="m2")).accepted
        assert TaskStatus.COMPLETED is (await here.ended("task")).state
        assert 1 == len(full(here))  # the same boot needs no second gate


async def test_a_new_worker_takes_nothing_from_a_task_that_asks_a_person(client: Client):
    async with world(client, "e1") as here:
        await here.submit("task", asks(), completes)
        before = await here.reached("task", TaskStatus.WAITING)
        await here.join(2)
        await here.signalled("task", "revoked")
        await here.control("task", "answer", choice="yes")
        view = await here.ended("task")
        assert (TaskStatus.COMPLETED, [before.attempts[-1].token]) == (view.state, [one.token for one in view.attempts])


async def test_a_new_worker_takes_the_stages_of_the_old_one_over_by_word(client: Client):
    async with world(client, "e1") as here:
        hold = Hold()
        await here.submit("task", hold)
        await hold.began.wait()
        await here.join(2)
        await here.tried("task", 2)
        hold.let_go.set()
        view = await here.ended("task")
        first, second = here.stages.of("task")
        assert (first.lease, first.tries + 1) == (second.lease, second.tries)
        assert [(1, "completed")] == [(one.n, one.outcome) for one in view.attempts]


async def test_a_host_that_leaves_takes_its_emulators_along(client: Client):
    async with world(client, "e1") as here:
        here.presence.leaving.set()
        await here.emulator_is("e1", "retired")
        assert "retired" == (await entity(here, "e1", "retired")).state


async def test_an_emulator_unlisted_while_its_worker_is_down_has_left_afterwards(client: Client):
    async with world(client, "e1", "e2") as here:
        hold = Hold()
        await here.submit("task", hold, completes)
        await hold.began.wait()
        first = here.stages.of("task")[0].emulator_id
        del here.presence.last_seen[first]
        await here.join(2)
        await here.emulator_is(first, "retired")
        view = await here.ended("task")
        (other,) = here.presence.last_seen
        assert (TaskStatus.COMPLETED, other) == (view.state, here.stages.of("task")[-1].emulator_id)
        host = here.client.get_workflow_handle(names.host_id("h1"))
        assert {other: "good"} == await host.query(names.Query.VIEW, result_type=dict[str, str])


async def test_a_host_whose_list_became_empty_while_its_worker_was_down_lost_all(client: Client):
    async with world(client, "e1", "e2") as here:
        here.presence.last_seen.clear()
        here.presence.emptied = True
        await here.join(2)
        await here.emulator_is("e1", "retired")
        await here.emulator_is("e2", "retired")
        host = here.client.get_workflow_handle(names.host_id("h1"))
        assert {} == await host.query(names.Query.VIEW, result_type=dict[str, str])


async def test_terminated_host_is_believed_as_soon_as_its_worker_has_joined_again(client: Client):
    async with world(client, "e1") as here:
        for health in (Health.SUSPECT, Health.GOOD):
            await here.sees("e1", health)
        await here.emulator_is("e1", "up")
        host = here.client.get_workflow_handle(names.host_id("h1"))
        await host.terminate("by hand")
        await here.join()

        async def reported_again() -> bool | None:
            return {"e1": "good"} == await host.query(names.Query.VIEW, result_type=dict[str, str]) or None

        await until(reported_again, "a presence to tell of e1 again")
        await here.sees("e1", Health.DOWN)
        await here.emulator_is("e1", "down")


async def test_a_reset_survives_the_workflow_that_was_to_have_it_done(client: Client):
    async with world(client, "e1") as here:
        hold = here.gates.holding["e1"] = asyncio.Event()
        await here.submit("dirty", fails(FlowError("no such screen"), clean=False))
        await here.ended("dirty")

        async def resetting() -> bool | None:
            return True if here.gates.seen[-1].fence else None

        await until(resetting, "the reset to begin")
        await here.emulator("e1").terminate("struck down by a test")
        hold.set()
        await here.presence.tell(1)  # as a worker does that misses it
        await here.submit("next")
        assert TaskStatus.COMPLETED == (await here.ended("next")).state
        assert here.gates.seen[-1].fence


ORDERS = [("drain", "draining", "undrain"), ("quarantine", "quarantined", "release")]


@pytest.mark.parametrize(("action", "state", "back"), ORDERS)
async def test_what_a_person_set_on_an_emulator_survives_its_workflow(
    client: Client, action: str, state: str, back: str
):
    async with world(client, "e1") as here:
        await here.control_emulator("e1", action, "broken screen")
        await here.emulator_is("e1", state)
        for _ in range(2):  # the second successor finds what the first one found
            await is_replaced(here, "e1")
            await entity(here, "e1", state)
        await here.submit("waits")
        assert "broken screen" in (await here.reached("waits", TaskStatus.QUEUED)).why
        await here.control_emulator("e1", back)
        await here.ended("waits")
        await is_replaced(here, "e1")
        await entity(here, "e1", "up")


async def is_replaced(here: World, emulator: str) -> None:
    """Its workflow is terminated, and a worker that misses it tells of the emulator again."""
    before = (await here.emulator(emulator).describe()).run_id
    await here.emulator(emulator).terminate(reason="struck down by a test")
    await here.presence.tell(1)

    async def another() -> bool | None:
        return (await here.emulator(emulator).describe()).run_id != before or None

    await until(another, "its workflow to run again")


async def test_the_runs_of_emulators_are_found_as_long_as_they_are_open(client: Client):
    async with world(client, "e1") as here:
        hosts = HostsClient(client, EngineConfig())

        async def known() -> dict[str, str] | None:
            return await hosts.emulator_runs(["e1", "e2"]) or None

        async def gone() -> bool | None:
            return not await hosts.emulator_runs(["e1", "e2"]) or None

        run_id = (await here.emulator("e1").describe()).run_id
        assert {"e1": run_id} == await until(known, "e1 to be found")
        await here.emulator("e1").terminate("struck down by a test")
        await until(gone, "e1 to be missed")


async def test_a_host_that_moves_to_another_pool_leaves_nothing_in_the_old_one(client: Client):
    async with world(client, "e1") as here:
        hold = Hold()
        await here.submit("task", hold)
        await hold.began.wait()
        here.presence.moves_to("other")
        here.pool = "other"
        await wake(here)
        await here.join(2)
        await here.emulator_is("e1", "up")
        here.pool = "default"
        await here.emulator_is("e1", "retired")
        view = await here.reached("task", TaskStatus.QUEUED)
        assert "is retired" in view.why


async def test_a_gate_that_keeps_failing_quarantines_with_evidence_until_a_restart(client: Client):
    async with world(client, "e1", joined=False) as here:
        here.gates.evidence["e1"] = ["the launcher has no focus"] * GATE_TRIES
        await here.register("e1")
        await here.serve_host()
        await here.join()
        view = await entity(here, "e1", "quarantined")
        assert ("the launcher has no focus", GATE_TRIES) == (view.evidence, len(full(here)))
        await here.sees("e1", Health.GOOD, boot="boot-2")
        assert "" == (await entity(here, "e1", "up")).evidence


async def test_a_restarted_emulator_passes_the_gate_again_with_a_higher_floor(client: Client):
    async with world(client, "e1") as here:
        await here.sees("e1", Health.GOOD, boot="boot-2")

        async def gated() -> bool | None:
            return True if len(full(here)) > 1 else None

        await until(gated, "the second gate")
        first, second = full(here)
        assert ("boot-2", True) == (second.boot, first.floor < second.floor)
        await here.emulator_is("e1", "up")


async def test_a_second_host_that_sees_an_emulator_waits_until_the_first_lost_it(client: Client):
    async with world(client, "e1") as here:
        await here.join(1, host="h2", machine="m2")
        other = replace(here.presence.last_seen["e1"], host_id="h2", address="127.0.0.1:30000")
        await here.serve_host("h2")
        await here.presence.tell(1, other)
        assert "h1" == (await entity(here, "e1", "up")).host
        await here.sees("e1", Health.DOWN)

        async def taken_over() -> bool | None:
            return True if (await entity(here, "e1", "up", "down", "recovering")).host == "h2" else None

        await until(taken_over, "the second host to own it")
        assert "127.0.0.1:30000" == (await entity(here, "e1", "up")).address


async def test_host_emulator_and_pool_tell_the_web_ui_how_they_are(client: Client):
    async with world(client, "e1") as here:
        assert "**host h1**: watched by w1@m1, 1 emulators\n- e1: good" == await here.details(names.host_id("h1"))
        assert "**up** on host h1 at 127.0.0.1:20002" == await here.details(names.emulator_id("e1"))
        await here.submit("task")
        await here.ended("task")
        await here.idle()
        lines = (await here.details(names.dispatcher_id("default"))).splitlines()
        assert "**pool default**: 0 waiting, 0 running, 1 of 1 emulators free" == lines[0]
        assert ["- lane account: 0 of 10 in use, 0 waiting"] == [line for line in lines if "account" in line]
        here.presence.leaving.set()
        await here.emulator_is("e1", "retired")
        assert "**host h1**: watched by nobody, 0 emulators" == await here.details(names.host_id("h1"))


async def test_a_task_tells_that_its_worker_was_restarted_and_what_runs_again(client: Client):
    async with world(client, "e1") as here:
        dead = Deaf()
        await here.submit("task", dead, completes)
        await dead.began.wait()
        await here.join(2)
        view = await here.ended("task")
        dead.let_go.set()
        line = next(line for line in view.events if line.event == "interrupted")
        assert line.reason.endswith(" on e1 of host h1, try 1: the worker was restarted; it runs again there")


async def test_a_task_of_a_rebooted_emulator_and_a_dead_worker_waits_for_neither(client: Client):
    """Not for the heartbeats of the worker, nor for the guard on the emulator: that refuses the lease by now."""
    patient = TASK_TIMING.model_copy(update={"heartbeat_timeout_s": 90.0, "lease_ttl_s": 80.0})
    async with world(client, "e1", "e2", timing=patient) as here:
        dead = Deaf()
        await here.submit("task", dead, completes, account="42")
        await dead.began.wait()
        left = here.stages.of("task")[0].emulator_id
        here.presence.last_seen[left] = replace(here.presence.last_seen[left], boot="boot-2")
        await here.join(2)
        view = await here.ended("task")
        assert (TaskStatus.COMPLETED, [left]) == (view.state, [one.emulator for one in view.attempts][:1])
        assert [1, 1] == [one.n for one in view.attempts]
        dead.let_go.set()


async def test_a_worker_whose_clock_was_wrong_joins_beyond_the_newest(client: Client):
    async with world(client, "e1") as here:
        await entity(here, "e1", "up")
        ahead = await here.join(int(time.time() * 1000) + 3_600_000)
        assert (False, True) == (ahead.accepted, "ahead of Temporal's" in ahead.reason)
        assert (await here.join(ahead.newest + 1)).accepted
        behind = await here.join(3)
        assert (False, ahead.newest + 1) == (behind.accepted, behind.newest)


async def test_forged_reports_far_ahead_of_the_clock_are_outdone(client: Client):
    async with world(client, "e1") as here:
        view = await entity(here, "e1", "up")
        ahead = int(time.time() * 1000) + 86_000_000
        down = {"incarnation": ahead, "seq": ahead, "host_id": view.host, "emulator_id": "e1", "boot": "x"}
        await here.emulator("e1").signal("seen", {**down, "health": "down", "pool": here.pool})
        await here.emulator_is("e1", "up")
        await here.dispatcher().signal("announce", {**down, "state": "down"})
        await here.emulator_is("e1", "up")
        await here.submit("task", completes)
        assert TaskStatus.COMPLETED is (await here.ended("task")).state
