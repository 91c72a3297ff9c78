"""Emulators that die, and one that never boots again: real processes from the engine to the emulator."""

from pathlib import Path

from temporalio.client import Client

from droidherd.contracts import names
from droidherd.contracts.fleet import EmulatorView
from droidherd.contracts.queue import EmulatorsPage
from tests.support.farm import Farm, farm, until

SETTINGS = {
    "CONTROLLERS__BOOT_S": "8",
    "RECOVERY__RECONNECT_S": "0.2",
    "RECOVERY__BACKOFF_S": "0.3",
    "RECOVERY__RESTARTS": "2",
}


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def states(here: Farm, client: Client, **wanted: str) -> None:
    async def there() -> bool | None:
        handle = client.get_workflow_handle(names.dispatcher_id("default"))
        page = await handle.query(names.Query.EMULATORS, result_type=EmulatorsPage)
        found = {one.emulator_id.replace("-", "_"): str(one.state) for one in page.emulators}
        return True if wanted.items() <= found.items() else None

    await until(there, f"the emulators to be {wanted}")


async def test_dead_emulators_are_started_and_one_that_never_boots_is_quarantined(tmp_path: Path):
    with farm(
        tmp_path, 2, in_memory=True, settings=SETTINGS, probe_every_s=0.3, probe_timeout_s=10.0, down_after_s=1.5
    ) as here:
        client = await here.client()
        await here.wake(client)
        await here.all_up(client)
        with here.control() as control:
            before = [control.counters(name)["boot"] for name in here.emulators]
            control.set_fault("virtual-2", "no_boot")
            for name in here.emulators:
                control.kill(name)

            async def again() -> bool | None:
                return True if control.counters("virtual-1")["boot"] > before[0] else None

            await until(again, "the first to be started again")
            await states(here, client, virtual_1="up", virtual_2="quarantined")
            after = [control.counters(name)["boot"] for name in here.emulators]
            assert [1, 2] == [b - a for a, b in zip(before, after, strict=True)]

            async def answer() -> EmulatorView | None:
                handle = client.get_workflow_handle(names.emulator_id("virtual-2"))
                view = await handle.query(names.Query.VIEW, result_type=EmulatorView)
                return view if "see " in view.evidence else None

            view = await until(answer, "the evidence")
            kept = Path(view.evidence.partition("see ")[2])
            assert ("did not reach booted" in view.evidence, "virtual") == (True, view.controller)
            assert {"what.txt"} <= names_in(kept) <= {"what.txt", "screen.png", "logcat.txt"}
            control.clear_fault("virtual-2")
            control.reboot("virtual-2", boot_s=0.0)  # as a person would who saw to it
            await states(here, client, virtual_1="up", virtual_2="up")
