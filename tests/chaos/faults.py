"""Every fault of the whole system, by name: where it is played, how it strikes, and whether it may leave a question."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from droidherd.contracts import names
from tests.chaos.instance import EMULATORS, FLOWS, PlayedInstance, instance, mount_small
from tests.chaos.rounds import Rounds, Strike
from tests.support.api_server import api_server
from tests.support.farm import Farm, farm
from tests.support.proxy import Links, Mode

AWAY_S = (1.0, 40.0)
SMALL_DISK = {"LIMITS__DISK_FREE_BYTES": "8000000", "LIMITS__DISK_RESERVE_BYTES": "4000000",
              "LIMITS__DISK_CHECK_S": "1"}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """One kind. `may_ask`: it can hide from everybody whether an act happened."""

    strike: Callable[[PlayedInstance], Strike]
    may_ask: bool = False
    settings: tuple[tuple[str, str], ...] = ()


DISPATCHER, HOST = names.dispatcher_id("default"), names.host_id("local")

OF_INSTANCES: Mapping[str, Fault] = {
    "stop_worker": Fault(lambda one: one.stopped("worker")),
    "stop_api": Fault(lambda one: one.stopped("api")),
    "stop_temporal": Fault(lambda one: one.stopped("temporal")),
    "stop_adb_server": Fault(lambda one: one.stopped("adb"), may_ask=True),
    "stop_virtual": Fault(lambda one: one.stopped("virtual"), may_ask=True),
    "stop_two": Fault(lambda one: one.stopped(*one.chance.sample(("worker", "api", "temporal", "virtual"), 2)), True),
    "end_emulators": Fault(lambda one: one.ended(*one.emulator_ids)),
    "end_drained": Fault(lambda one: one.drained_and_ended()),
    "end_host": Fault(lambda one: one.ended(HOST)),
    "end_account": Fault(lambda one: one.account_ended()),
    "end_dispatcher": Fault(lambda one: one.ended(DISPATCHER)),
    "end_all": Fault(lambda one: one.ended(*one.chance.sample([DISPATCHER, HOST, *one.emulator_ids], 6))),
    "start_up": Fault(lambda one: one.killed_while_up_starts(), may_ask=True),
    "start_part": Fault(
        lambda one: one.killed_while_coming_back(one.chance.choice(("temporal", "virtual", "worker", "api"))), True
    ),
    "full_disk": Fault(lambda one: one.disk_full(), True, tuple(SMALL_DISK.items())),
}


def _on_links(put: Callable[[Links, Mode, random.Random], None], mode: Mode) -> Callable[[Farm, random.Random], Strike]:
    def strike_on(place: Farm, chance: random.Random) -> Strike:
        async def strike() -> None:
            links = place.links
            assert links is not None
            await asyncio.to_thread(put, links, mode, chance)
            try:
                await asyncio.sleep(chance.uniform(*AWAY_S))
            finally:
                await asyncio.to_thread(put, links, Mode.OPEN, chance)

        return strike

    return strike_on


def _temporal(links: Links, mode: Mode, chance: random.Random) -> None:
    links.worker.set(mode)
    if mode is Mode.OPEN or chance.random() < 0.3:
        links.api.set(mode)


def _adb(links: Links, mode: Mode, chance: random.Random) -> None:
    links.set_adb(mode)


def _emulators(links: Links, mode: Mode, chance: random.Random) -> None:
    some = list(links.emulators.values())
    for one in some if mode is Mode.OPEN else chance.sample(some, chance.randint(1, len(some))):
        one.set(mode)


OF_LINKS: Mapping[str, tuple[Callable[[Farm, random.Random], Strike], bool]] = {
    "cut_temporal": (_on_links(_temporal, Mode.CUT), False),
    "hold_temporal": (_on_links(_temporal, Mode.HELD), False),
    "cut_adb": (_on_links(_adb, Mode.CUT), True),
    "hold_adb": (_on_links(_adb, Mode.HELD), True),
    "cut_emulators": (_on_links(_emulators, Mode.CUT), True),
    "hold_emulators": (_on_links(_emulators, Mode.HELD), True),
}


ON_SMALL_DISKS = ("full_disk",)
"""Played in a mount namespace."""
FAULTS = (*OF_INSTANCES, *OF_LINKS)


@dataclass(frozen=True)
class Extent:
    """How much is played: so many rounds, but none that would begin after so many seconds."""

    rounds: int
    seed: int
    seconds: float = float("inf")


async def play_fault(data: Path, name: str, extent: Extent, progress: Callable[[str], None] = lambda _: None) -> Rounds:
    """Some rounds of one fault. What is wrong stands in the result; where nothing serves any more, TimeoutError."""
    began_s = time.monotonic()
    rounds, seed = extent.rounds, extent.seed
    chance = random.Random(f"{seed} {name}")
    async with _stage(data, name, chance) as (played, strike):
        for number in range(rounds):
            if time.monotonic() - began_s > extent.seconds:
                break
            await asyncio.wait_for(played.play(strike()), 600)
            progress(f"{name}: round {number + 1} of {rounds}, {len(played.problems)} wrong")
        await played.end()
    return played


@asynccontextmanager
async def _stage(data: Path, name: str, chance: random.Random) -> AsyncGenerator[tuple[Rounds, Callable[[], Strike]]]:
    with contextlib.ExitStack() as stack:
        if name in OF_INSTANCES:
            fault = OF_INSTANCES[name]
            if name in ON_SMALL_DISKS:
                mount_small(data)
            one = await asyncio.to_thread(stack.enter_context, instance(data, chance, **dict(fault.settings)))
            played = Rounds(one.place, one.api, chance, name, fault.may_ask, problems=one.problems)
            yield played, lambda: fault.strike(one)
        else:
            strike_on, may_ask = OF_LINKS[name]
            place = await asyncio.to_thread(stack.enter_context, farm(data, EMULATORS, flows=FLOWS, linked=True))
            api = await asyncio.to_thread(stack.enter_context, api_server(place))
            await place.all_up(await place.client())
            yield Rounds(place, api.url, chance, name, may_ask), lambda: strike_on(place, chance)
        await asyncio.to_thread(stack.close)
