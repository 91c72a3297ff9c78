"""What can befall an instance that `droidherd up` started: stops, deaths during start, ended workflows, a full disk."""

import asyncio
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import httpx
import psutil

from droidherd.adb.server import pid_path
from droidherd.cli.local.supervise import RESTARTS_A_MINUTE
from droidherd.contracts import names
from droidherd.processes import pidfile
from droidherd.processes.pidfile import PidFile
from tests.chaos.rounds import Strike
from tests.chaos.strikes import STOPPED_S, stop_for, terminate
from tests.cli.stand import Stand
from tests.support.farm import Place, until

PROGRAM = (sys.executable, "-P", "-m", "droidherd.cli")
FLOWS = Path(__file__).with_name("flows")
EMULATORS = 4
PARTS = ("temporal", "virtual", "worker", "api")
LIMIT_S = 180.0
SMALL_DISK_BYTES, WITNESS_BYTES = 150_000_000, 300_000_000


class PlayedInstance:
    """One instance, and everything that is done to it."""

    def __init__(self, data: Path, chance: random.Random, **settings: str) -> None:
        """Nothing runs yet. `settings`: by variable, without the `DROIDHERD_`."""
        self.stand = Stand(data, PROGRAM)
        self.stand.environment["DROIDHERD_FLOWS__PATHS"] = json.dumps([str(FLOWS)])
        # Rounds follow one another within seconds: an emulator that needs a restart in each is not a broken one.
        self.stand.environment["DROIDHERD_RECOVERY__RESTARTS"] = "100"
        self.stand.environment |= {f"DROIDHERD_{name}": value for name, value in settings.items()}
        self.chance = chance
        self.api = ""
        self.place = Place(data=data, address="", emulators=[f"virtual-{n}" for n in range(1, EMULATORS + 1)])
        self.problems: list[str] = []
        self._ends: dict[str, list[float]] = defaultdict(list)
        self._family: dict[tuple[int, str], PidFile] = {}

    def start(self) -> None:
        urls = self.stand.up("--virtual", str(EMULATORS))
        self.api, self.place.address = urls["api"], urls["temporal"]

    def stop(self) -> None:
        """In order. Nothing may be left."""
        self._remember()
        done = self.stand.run("down")
        if done.returncode:
            self.problems.append(f"down ended with {done.returncode}: {done.stderr[-500:]}")
        self.problems += [f"after down {one} still runs" for one in self.left()]

    def left(self) -> list[str]:
        """Processes that name the data directory, or were seen among those of the instance."""
        found = {f"{one.name} ({one.pid})" for one in self._family.values() if one.lives()}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                line = process.cmdline()
                if process.pid != os.getpid() and any(str(self.stand.data) in word for word in line):
                    found.add(f"{' '.join(line)[:120]} ({process.pid})")
        return sorted(found)

    def _remember(self) -> None:
        with contextlib.suppress(psutil.Error):
            self._family |= {(one.pid, one.birth): one for one in self.stand.family()}

    # --- processes ------------------------------------------------------------------------------------------------

    def process(self, name: str) -> PidFile:
        """By the name of its pid file; `adb` is the worker's server."""
        file = pidfile.read(pid_path(self.stand.data / "adb")) if name == "adb" else self.stand.processes().get(name)
        if file is None:
            raise ProcessLookupError(f"{name} has no pid file")
        return file

    def stopped(self, *victims: str) -> Strike:
        """SIGSTOP, and after a while SIGCONT."""

        async def strike() -> None:
            await asyncio.gather(*(stop_for(self.process(one).pid, self.chance.uniform(*STOPPED_S)) for one in victims))

        return strike

    def killed(self, *victims: str) -> Strike:
        async def strike() -> None:
            for one in victims:
                await self._kill(one)

        return strike

    def killed_while_coming_back(self, *victims: str) -> Strike:
        """Each dies, and dies again while it starts; others die meanwhile."""

        async def strike() -> None:
            for victim in victims:
                await self._kill(victim)
                for _ in range(self.chance.randint(1, 2)):
                    await self._kill_in_its_start(victim, self.process(victim).pid)
                if self.chance.random() < 0.5:
                    await self._kill(self.chance.choice(PARTS))

        return strike

    def killed_while_up_starts(self) -> Strike:
        """Down at once, then up again; one to three parts die while they start, and perhaps the supervisor, too."""

        async def strike() -> None:
            self._remember()
            if self.chance.random() < 0.5:
                await asyncio.to_thread(self.stand.run, "down", "--now")
            else:
                for one in (*PARTS, "up"):
                    self.process(one).kill()
            before = {name: file.pid for name, file in self.stand.processes().items()}
            line = self.stand.line("up", "--detach", "--json", "--virtual", str(EMULATORS))
            up = await asyncio.create_subprocess_exec(
                *line, env=self.stand.environment, cwd=self.stand.data.parent,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            )  # fmt: skip
            victims = self.chance.sample(PARTS, self.chance.randint(1, 3))
            both = self.chance.random() < 0.25
            await asyncio.gather(*(self._kill_in_its_start(one, before.get(one, 0)) for one in victims))
            if both:
                self.process("up").kill()
            output, _ = await asyncio.wait_for(up.communicate(), LIMIT_S)
            if up.returncode and not both:
                self.problems.append(f"up ended with {up.returncode} after the deaths of {victims}: {output[-800:]!r}")
            if up.returncode:
                await asyncio.to_thread(self.start)
            self._remember()

        return strike

    async def _kill(self, name: str) -> None:
        """Not so often that its supervisor must give it up."""
        ends = self._ends[name]
        if len(ends) >= RESTARTS_A_MINUTE:
            await asyncio.sleep(max(0.0, ends[-RESTARTS_A_MINUTE] + 61.0 - time.monotonic()))
        ends.append(time.monotonic())
        self.process(name).kill()

    async def _kill_in_its_start(self, name: str, before: int) -> None:
        """As soon as there is another one, or up to two seconds later."""

        async def another() -> PidFile | None:
            file = self.stand.processes().get(name)
            return file if file is not None and file.pid != before and file.lives() else None

        file = await until(another, f"another {name}", LIMIT_S)
        await asyncio.sleep(self.chance.choice((0.0, self.chance.uniform(0.0, 2.0))))
        if file.lives():
            await self._kill(name)

    # --- workflows ------------------------------------------------------------------------------------------------

    def ended(self, *ids: str) -> Strike:
        """`terminate` on these workflows, at once."""

        async def strike() -> None:
            client = await self.place.client()
            await asyncio.gather(*(terminate(client, one) for one in ids))

        return strike

    @property
    def emulator_ids(self) -> list[str]:
        return [names.emulator_id(one) for one in self.place.emulators]

    def drained_and_ended(self) -> Strike:
        """What a person drained stays drained, though its workflow ends; then it is given back."""

        async def strike() -> None:
            victim = self.chance.choice(self.place.emulators)
            async with httpx.AsyncClient(base_url=self.api, timeout=30) as http:
                await until(lambda: _posted(http, f"/api/emulators/{victim}/drain"), f"{victim} to be drained")
                await terminate(await self.place.client(), names.emulator_id(victim))
                for _ in range(5):
                    await asyncio.sleep(3)
                    answer = await http.get(f"/api/emulators/{victim}")
                    state = answer.json().get("state") if answer.is_success else answer.status_code
                    if state == "up":
                        self.problems.append(f"{victim} was drained by a person, its workflow ended, and it is up")
                        break
                await until(lambda: _posted(http, f"/api/emulators/{victim}/undrain"), f"{victim} to be given back")

        return strike

    def account_ended(self) -> Strike:
        """What a person set for an account outlives its workflow."""

        async def strike() -> None:
            account, note = "kept", f"set at {time.time():.0f}"
            async with httpx.AsyncClient(base_url=self.api, timeout=30) as http:
                await until(lambda: _noted(http, account, note), "the account to be set")
                await terminate(await self.place.client(), names.account_id(account))
                try:
                    await until(lambda: _has_note(http, account, note), "the account to have its note again", 30)
                except TimeoutError as lost:
                    self.problems.append(str(lost))

        return strike

    # --- the disk -------------------------------------------------------------------------------------------------

    def disk_full(self) -> Strike:
        """Not a byte is free for a while, and somebody may die meanwhile."""

        async def strike() -> None:
            ballast = self.stand.data / "ballast"
            try:
                await asyncio.to_thread(fill, ballast, self.chance.choice((0, 0, 3_000_000)))
                await asyncio.sleep(self.chance.uniform(2.0, 8.0))
                for victim in self.chance.sample(PARTS, self.chance.choice((0, 0, 1, 2))):
                    with contextlib.suppress(ProcessLookupError):
                        self.process(victim).kill()
                await asyncio.sleep(self.chance.uniform(2.0, 12.0))
            finally:
                ballast.unlink(missing_ok=True)

        return strike


def mount_small(data: Path) -> None:
    """A disk of its own for a data directory, and another one for the emulators' journals, which are the witness.

    Needs a mount namespace (`unshare --map-root-user --mount`), which takes both along when it ends.
    """
    for folder, size in ((data, SMALL_DISK_BYTES), (data / "virtual", WITNESS_BYTES)):
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)], check=True)


def fill(ballast: Path, free: int) -> None:
    """Until no more than so many bytes are left on its disk."""
    step = b"x" * 65536
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while (left := shutil.disk_usage(ballast.parent).free) > free:
            file.write(step[: left - free])


async def _noted(http: httpx.AsyncClient, account: str, note: str) -> bool | None:
    with contextlib.suppress(httpx.HTTPError):
        return (await http.put(f"/api/accounts/{account}", json={"actor": "anna", "note": note})).is_success or None
    return None


async def _has_note(http: httpx.AsyncClient, account: str, note: str) -> bool | None:
    with contextlib.suppress(httpx.HTTPError):
        answer = await http.get(f"/api/accounts/{account}")
        listed = await http.get("/api/accounts")
        rows = listed.json()["accounts"] if listed.is_success else ()
        return (note in answer.text and any(one["account"] == account for one in rows)) or None
    return None


async def _posted(http: httpx.AsyncClient, path: str) -> bool | None:
    with contextlib.suppress(httpx.HTTPError):
        answer = await http.post(path, json={"actor": "anna", "reason": "a look at its cable"})
        return True if answer.status_code in (200, 422) else None
    return None


@contextlib.contextmanager
def instance(data: Path, chance: random.Random, **settings: str) -> Generator[PlayedInstance]:
    """Started, and taken down in order."""
    one = PlayedInstance(data, chance, **settings)
    try:
        one.start()
        yield one
        one.stop()
    finally:
        one.stand.run("down", "--now")
