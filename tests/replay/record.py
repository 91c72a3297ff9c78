"""Records the histories that `worker_main.py verify` replays.

python -m tests.replay.record                 every path, about two minutes
python -m tests.replay.record --only NAME     some of them (a part of the name is enough)
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from droidherd.cli import ports
from droidherd.cli.embedded import EmbeddedTemporal, Profile
from tests.replay import farming, library, scenarios
from tests.replay.scenario import ALL, Scenario
from tests.workflows.physics import IMPATIENT_FLEET
from tests.workflows.world import world

AT_ONCE = 4
LIMIT_S = 150.0
EARLY = 40
"""Events after which the impatient engine suggests to continue as new."""


class Engines:
    """A patient engine, and one that suggests to continue as new very early. Started when first asked for."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._started: dict[bool, EmbeddedTemporal] = {}

    def get(self, *, short: bool) -> EmbeddedTemporal:
        if short not in self._started:
            config = {"limit.historyCount.suggestContinueAsNew": EARLY} if short else {}
            profile = Profile(port=ports.free(), database=None, dynamic_config=config)
            engine = EmbeddedTemporal.start(self._folder / f"engine-{short}", in_memory=True, profile=profile)
            self._started[short] = self._stack.enter_context(engine)
        return self._started[short]


async def record(one: Scenario, engine: EmbeddedTemporal) -> list[str]:
    """Play it in a namespace of its own; write down what it leaves."""
    namespace = one.name.replace("_", "-")
    await asyncio.to_thread(engine.add_namespace, namespace)
    client = await Client.connect(
        engine.address, namespace=namespace, data_converter=pydantic_data_converter, identity="recorder"
    )
    setting = one.setting
    async with world(
        client,
        *setting.emulators,
        pool=setting.pool,
        physics=setting.physics,
        fleet=IMPATIENT_FLEET,
        joined=setting.joined,
        direct=setting.line.all() if setting.line else None,
    ) as here:
        await one.play(here)
        await asyncio.sleep(0.3)  # what was set in motion may still be on its way
        return [line for keep in one.keep for line in await library.write(client, one.name, keep)]


async def record_all(chosen: Sequence[Scenario], engines: Engines) -> dict[str, str]:
    """name → what went wrong."""
    wrong: dict[str, str] = {}
    gate = asyncio.Semaphore(AT_ONCE)

    async def attempt(one: Scenario) -> None:
        async with gate:
            began = time.monotonic()
            try:
                async with asyncio.timeout(LIMIT_S):
                    files = await record(one, engines.get(short=one.setting.short))
            except Exception as error:  # noqa: BLE001 - one path that fails does not keep the others from being recorded
                wrong[one.name] = f"{type(error).__name__}: {error}"
                files = []
            said = wrong.get(one.name, ", ".join(files))
            sys.stdout.write(f"{time.monotonic() - began:6.1f} s  {one.name}: {said}\n")
            sys.stdout.flush()

    slow_first = sorted(chosen, key=lambda one: one.name != "rejected_cannot_be_satisfied")
    await asyncio.gather(*map(attempt, slow_first))
    return wrong


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.replay.record", description=__doc__)
    parser.add_argument("--only", default="", help="paths whose name contains this")
    only = parser.parse_args(argv).only
    sys.stdout.write(f"{len(ALL)} paths about {', '.join(scenarios.__all__)}\n")
    chosen = [one for one in ALL.values() if only in one.name]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        wrong = asyncio.run(record_all(chosen, Engines(Path(folder), stack)))
        if only in farming.NAME:
            wrong |= farming.record(Path(folder) / farming.NAME)
    library.write_readme([(one.name, one.why) for one in ALL.values()] + [(farming.NAME, farming.WHY)])
    for name, trouble in wrong.items():
        sys.stderr.write(f"not recorded: {name}: {trouble}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
