"""A host's round goes on whatever happens to its adb server."""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from droidherd import telemetry
from droidherd.adb.client import AdbClient
from droidherd.adb.server import AdbServer
from droidherd.domain.errors import EmulatorLostError, InfrastructureError, ServerSilencedError
from droidherd.domain.messages import Health, Seen
from droidherd.emulator import probe_loop
from droidherd.emulator.inventory import Inventory, InventoryEntry
from droidherd.emulator.lease import UptimeClock
from droidherd.emulator.probe import DeviceLink, ProbeResult
from droidherd.emulator.probe_loop import ProbedHost, ProbeLoop, ProbeTiming
from tests.adb.talker import Talk, talking
from tests.emulator.farm import One


class Stubborn(AdbServer):
    """Fails in the ways given, then keeps running."""

    def __init__(self, home: Path, *troubles: Exception) -> None:
        super().__init__(1, home, "adb", environment={})
        self.troubles = list(troubles)
        self.back = False

    def ensure(self) -> bool:
        if self.troubles:
            raise self.troubles.pop(0)
        self.back = True
        return False

    def client(self, connects_at_once: int = 32) -> AdbClient:
        return AdbClient(self.port, connects_at_once=connects_at_once)


async def tell(_news: tuple[Seen, ...], _listed: tuple[str, ...] | None) -> None:
    """Nobody listens."""


async def until_up(host: str, expected: float) -> None:
    registry = telemetry.metrics.registry
    for _ in range(2000):
        if expected == registry.get_sample_value("droidherd_adb_server_up", {"host": host}):
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"droidherd_adb_server_up never became {expected}")


def probe_loop_of(server: AdbServer, host: str, data: Path, threads: ThreadPoolExecutor) -> ProbeLoop:
    return ProbeLoop(ProbedHost(host, "default"), server, Inventory(data), ProbeTiming(1.0, 1.0, 5.0), threads)


async def test_an_adb_server_that_cannot_be_started_now_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(probe_loop, "REFUSED_S", 0.01)
    server = Stubborn(tmp_path, InfrastructureError("did not start"), OSError("disk full"))
    with ThreadPoolExecutor(2) as threads:
        rounds = asyncio.create_task(probe_loop_of(server, "h-again", tmp_path, threads).run(tell, 1))
        await until_up("h-again", 1)
        assert server.back
        rounds.cancel()
        await asyncio.gather(rounds, return_exceptions=True)


async def test_the_metric_says_that_the_adb_server_is_away(tmp_path: Path):
    telemetry.metrics.adb_up.labels(host="h-away").set(1)
    server = Stubborn(tmp_path, *[InfrastructureError("did not start")] * 1000)
    with ThreadPoolExecutor(2) as threads:
        rounds = asyncio.create_task(probe_loop_of(server, "h-away", tmp_path, threads).run(tell, 1))
        await until_up("h-away", 0)
        assert not server.back
        rounds.cancel()
        await asyncio.gather(rounds, return_exceptions=True)


async def test_a_round_whose_adb_server_nobody_keeps_ends_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A bug in keeping the server must not leave a host that looks watched."""
    monkeypatch.setattr(probe_loop, "INVENTORY_EVERY_S", 0.01)
    server = Stubborn(tmp_path, ValueError("a bug"))
    with ThreadPoolExecutor(2) as threads, pytest.raises(ValueError, match="a bug"):
        async with asyncio.timeout(20):
            await probe_loop_of(server, "h-bug", tmp_path, threads).run(tell, 1)


async def test_a_dying_emulator_is_known_at_once_and_the_log_says_why(
    one: One, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """However seldom it is probed."""
    Inventory(tmp_path).add(InventoryEntry(emulator_id=one.name, address=one.address))
    healths: asyncio.Queue[Health] = asyncio.Queue()
    began_ms = int(time.time() * 1000)

    async def tell_health(news: tuple[Seen, ...], _listed: tuple[str, ...] | None) -> None:
        for seen in news:
            healths.put_nowait(seen.health)

    async def until_seen(wanted: Health) -> None:
        async with asyncio.timeout(60):
            while await healths.get() is not wanted:
                pass

    with ThreadPoolExecutor(4) as threads, caplog.at_level(logging.WARNING):
        watched = ProbeLoop(
            ProbedHost("h", "default"), one.farm.server, Inventory(tmp_path), ProbeTiming(600.0, 60.0, 900.0), threads
        )
        rounds = asyncio.create_task(watched.run(tell_health, 1))
        await until_seen(Health.GOOD)
        probed = watched.last_probes().emulators[one.name]
        assert (one.address, True) == (probed.address, began_ms <= probed.good_at_ms <= time.time() * 1000)
        one.control.kill(one.name)
        await until_seen(Health.SUSPECT)
        rounds.cancel()
        await asyncio.gather(rounds, return_exceptions=True)
    one.control.start(one.name)
    assert f"{one.name} does not answer: {one.address}: " in caplog.text


class Scripted(ProbeLoop):
    """One whose emulators answer so many probes, and no more."""

    answers = 10**9

    def _meet(self, entry: InventoryEntry) -> ProbeResult:
        self.answers -= 1
        if self.answers < 0:
            raise EmulatorLostError("no answer", to=entry.emulator_id)
        clock = UptimeClock(uptime_s=1.0, read_at_s=0.0)
        return ProbeResult("s1", "b1", booted=True, token="", free="", clock=clock, name=entry.emulator_id)


async def reported_health(
    data: Path, threads: ThreadPoolExecutor, answers: int, *until: Callable[[], Health]
) -> list[Health]:
    """What is told of `e1`, in order. Each of `until` does something, and says what must be told then."""
    watched = Scripted(
        ProbedHost("h", "default"), Stubborn(data), Inventory(data), ProbeTiming(0.01, 60.0, 0.0), threads
    )
    watched.answers = answers
    healths: list[Health] = []
    heard = asyncio.Event()

    async def tell_health(news: tuple[Seen, ...], _listed: tuple[str, ...] | None) -> None:
        healths.extend(seen.health for seen in news)
        heard.set()

    rounds = asyncio.create_task(watched.run(tell_health, 1))
    try:
        async with asyncio.timeout(20):
            for act in until:
                wanted, known = act(), len(healths)
                while wanted not in healths[known:]:
                    await heard.wait()
                    heard.clear()
    finally:
        rounds.cancel()
        await asyncio.gather(rounds, return_exceptions=True)
    return healths


async def test_an_emulator_that_answers_a_new_loop_once_and_dies_is_reported_down(tmp_path: Path):
    """The probe loop before may have said that it is good."""
    Inventory(tmp_path).add(InventoryEntry(emulator_id="e1", address="127.0.0.1:1"))
    with ThreadPoolExecutor(4) as threads:
        assert [Health.DOWN] == await reported_health(tmp_path, threads, 1, lambda: Health.DOWN)


async def test_a_probe_loop_repeats_what_it_knows_and_disowns_strays(tmp_path: Path):
    """For a workflow that was terminated, and for a pool that believes what its predecessor heard."""
    Inventory(tmp_path).add(InventoryEntry(emulator_id="e1", address="127.0.0.1:1"))
    words: asyncio.Queue[tuple[str, Health]] = asyncio.Queue()

    async def tell_health(news: tuple[Seen, ...], _listed: tuple[str, ...] | None) -> None:
        for seen in news:
            words.put_nowait((seen.emulator_id, seen.health))

    with ThreadPoolExecutor(4) as threads:
        watched = Scripted(
            ProbedHost("h", "default"), Stubborn(tmp_path), Inventory(tmp_path), ProbeTiming(60.0, 60.0, 0.0), threads
        )
        rounds = asyncio.create_task(watched.run(tell_health, 1))
        async with asyncio.timeout(20):
            assert ("e1", Health.GOOD) == await words.get()
            watched.tell_again(["e1", "unknown"], 1)
            assert ("e1", Health.GOOD) == await words.get()
            watched.disown(["e1", "e2"], 1)
            assert ("e2", Health.LEFT) == await words.get()
        rounds.cancel()
        await asyncio.gather(rounds, return_exceptions=True)
        assert words.empty()


async def first_word(data: Path) -> tuple[tuple[Seen, ...], tuple[str, ...] | None]:
    """What a probe loop says before anything else."""
    words: asyncio.Queue[tuple[tuple[Seen, ...], tuple[str, ...] | None]] = asyncio.Queue()

    async def tell_word(news: tuple[Seen, ...], listed: tuple[str, ...] | None) -> None:
        words.put_nowait((news, listed))

    with ThreadPoolExecutor(4) as threads:
        rounds = asyncio.create_task(probe_loop_of(Stubborn(data), "h", data, threads).run(tell_word, 1))
        async with asyncio.timeout(20):
            word = await words.get()
        rounds.cancel()
        await asyncio.gather(rounds, return_exceptions=True)
    return word


async def test_a_probe_loop_that_begins_names_all_who_are_listed(tmp_path: Path):
    """Who is not among them was taken off the list while nobody followed it."""
    assert ((), ()) == await first_word(tmp_path)
    for name in ("e1", "e2"):
        Inventory(tmp_path).add(InventoryEntry(emulator_id=name, address=f"127.0.0.1:{name[1]}"))
    assert ((), ("e1", "e2")) == await first_word(tmp_path)


async def test_a_probe_loop_that_cannot_read_the_list_names_nobody(tmp_path: Path):
    Inventory(tmp_path).path.write_text("{", encoding="utf-8")
    assert ((), None) == await first_word(tmp_path)


async def test_a_probe_loop_names_all_when_somebody_has_corrected_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Who was taken off with the typo would be on the books for as long as this worker lives."""
    monkeypatch.setattr(probe_loop, "INVENTORY_EVERY_S", 0.01)
    inventory, words = Inventory(tmp_path), list[tuple[str, ...] | None]()
    inventory.path.write_text("{", encoding="utf-8")
    named = asyncio.Event()

    async def tell_words(_news: tuple[Seen, ...], listed: tuple[str, ...] | None) -> None:
        words.append(listed)
        if listed is None:
            inventory.path.unlink(missing_ok=True)
            inventory.add(InventoryEntry(emulator_id="e1", address="127.0.0.1:1"))
        else:
            named.set()

    with ThreadPoolExecutor(4) as threads:
        rounds = asyncio.create_task(probe_loop_of(Stubborn(tmp_path), "h", tmp_path, threads).run(tell_words, 1))
        async with asyncio.timeout(20):
            await named.wait()
        rounds.cancel()
        await asyncio.gather(rounds, return_exceptions=True)
    assert [None, ("e1",)] == [words[0], words[-1]]


async def test_an_emulator_taken_off_list_and_put_back_is_reported_good_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(probe_loop, "INVENTORY_EVERY_S", 0.01)
    inventory = Inventory(tmp_path)

    def put() -> Health:
        inventory.add(InventoryEntry(emulator_id="e1", address="127.0.0.1:1", serialno="s1"))
        return Health.GOOD

    def take() -> Health:
        inventory.remove("e1")
        return Health.LEFT

    with ThreadPoolExecutor(4) as threads:
        healths = await reported_health(tmp_path, threads, 10**9, put, take, put)
    assert [Health.GOOD, Health.LEFT, Health.GOOD] == healths


@pytest.mark.parametrize("server", ["silent", "ended", "away"])
def test_who_silences_the_adb_server_while_it_is_connected_is_named(server: str):
    def script(talk: Talk) -> None:
        asked = talk.hear()
        if asked.startswith(b"host:disconnect:") and server != "away":
            talk.say(b"OKAY0000")
        elif server == "silent":
            talk.silence()

    with talking(script) as talker, pytest.raises(EmulatorLostError) as caught:
        DeviceLink(AdbClient(talker.port)).renew("127.0.0.1:1", 0.2)
    assert (server != "away") == isinstance(caught.value, ServerSilencedError)


async def test_who_silences_the_adb_server_is_left_alone_for_longer_each_time(tmp_path: Path):
    with ThreadPoolExecutor(1) as threads:
        rounds = probe_loop_of(Stubborn(tmp_path), "h-silent", tmp_path, threads)
        entry = InventoryEntry(emulator_id="e1", address="127.0.0.1:1")
        waits: list[float] = []
        for _ in range(12):
            rounds._note_unanswered(entry, ServerSilencedError("silent", to=entry.address))
            waits.append(rounds._silence_s("e1"))
        rounds._note_unanswered(entry, EmulatorLostError("gone", to=entry.address))
    assert [2.0, 4.0, 8.0] == waits[:3]
    assert probe_loop.SILENCE_MAX_S == waits[-1] == rounds._silence_s("e1")
    assert 0.0 == rounds._silence_s("e2")
