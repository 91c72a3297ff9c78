"""Records the histories that `worker_main.py verify` replays.

python -m tests.replay.record                 every path, about three minutes
python -m tests.replay.record --only NAME     those whose name contains NAME
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from droidherd.cli.local import ports
from droidherd.cli.local.embedded import EmbeddedTemporal, Profile
from tests.replay import farming, library, scenarios
from tests.replay.scenario import ALL, Scenario
from tests.support.temporal import NEW_NAMESPACES
from tests.workflows.timing import IMPATIENT_FLEET
from tests.workflows.world import world

AT_ONCE = 4
TRIES = 3
"""A busy machine makes a path take another turn than the one it is about; it is played again."""
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
            early = {"limit.historyCount.suggestContinueAsNew": EARLY} if short else {}
            config = {**NEW_NAMESPACES, **early}
            profile = Profile(port=ports.free(), database=None, dynamic_config=config)
            engine = EmbeddedTemporal.start(self._folder / f"engine-{short}", in_memory=True, profile=profile)
            self._started[short] = self._stack.enter_context(engine)
        return self._started[short]


async def record(one: Scenario, engine: EmbeddedTemporal, attempt: int = 1) -> list[str]:
    """Play it in a namespace of its own and write down its histories. Returns the names of the files."""
    namespace = f"{one.name.replace('_', '-')}-{attempt}"
    await asyncio.to_thread(engine.add_namespace, namespace)
    client = await Client.connect(
        engine.address, namespace=namespace, data_converter=pydantic_data_converter, identity="recorder"
    )
    setting = one.setting
    async with world(
        client,
        *setting.emulators,
        pool=setting.pool,
        timing=setting.timing,
        fleet=IMPATIENT_FLEET,
        joined=setting.joined,
        delivery=setting.delivery(client) if setting.delivery else None,
    ) as here:
        await one.play(here)
        await asyncio.sleep(0.3)  # what was set in motion may still be on its way
        library.forget(one.name)
        return [line for keep in one.keep for line in await library.write(client, one.name, keep)]


async def record_all(chosen: Sequence[Scenario], engines: Engines) -> dict[str, str]:
    """Play several at once, each again when it fails. Returns the name and the last error of those that never came."""
    failed: dict[str, str] = {}
    gate = asyncio.Semaphore(AT_ONCE)

    async def play(one: Scenario) -> None:
        async with gate:
            for attempt in range(1, TRIES + 1):
                began = time.monotonic()
                try:
                    async with asyncio.timeout(LIMIT_S):
                        result = ", ".join(await record(one, engines.get(short=one.setting.short), attempt))
                    failed.pop(one.name, None)
                except Exception as error:  # noqa: BLE001 - one path that fails does not keep the others from being recorded
                    result = failed[one.name] = f"{type(error).__name__}: {error}"
                sys.stdout.write(f"{time.monotonic() - began:6.1f} s  {one.name}: {result}\n")
                sys.stdout.flush()
                if one.name not in failed:
                    return

    slow_first = sorted(chosen, key=lambda one: one.name != "rejected_cannot_be_satisfied")
    await asyncio.gather(*map(play, slow_first))
    return failed


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.replay.record", description=__doc__)
    parser.add_argument("--only", default="", help="paths whose name contains this")
    only = parser.parse_args(argv).only
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)  # stages that fail are what many paths are about
    sys.stdout.write(f"{len(ALL)} paths about {', '.join(scenarios.__all__)}\n")
    chosen = [one for one in ALL.values() if only in one.name]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        failed = asyncio.run(record_all(chosen, Engines(Path(folder), stack)))
        if only in farming.NAME:
            failed |= farming.record(Path(folder) / farming.NAME)
    library.keep_only([*ALL, farming.NAME])
    library.write_readme([(one.name, one.why) for one in ALL.values()] + [(farming.NAME, farming.WHY)])
    for name, error in failed.items():
        sys.stderr.write(f"not recorded: {name}: {error}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
