"""Makes what tends emulators from the settings of a process."""

from droidherd.adb.client import AdbClient
from droidherd.adb.program import bundled
from droidherd.caretaker import Caretaker, Patience
from droidherd.controllers.avd import AvdController
from droidherd.controllers.command import CommandController
from droidherd.controllers.ldplayer import LDPlayerController
from droidherd.controllers.model import Controller
from droidherd.controllers.mumu import MuMuController
from droidherd.controllers.registry import AVD, LDPLAYER, MUMU, VIRTUAL, Controllers
from droidherd.controllers.virtual import VirtualController
from droidherd.domain.messages import Care
from droidherd.emulator.cameras import Cameras
from droidherd.emulator.gate import Gatekeeper
from droidherd.emulator.inventory import Inventory
from droidherd.settings import Settings

GATE_S = 120.0
"""How long a boot gate is waited at; what boots for longer is tended to on the boots' own queue."""
SLACK_S = 60.0
"""Beside a boot and two calls of a vendor's program: what a start may take."""


def controllers_of(settings: Settings) -> Controllers:
    """The built-in ones, and those of the operator."""
    known = settings.controllers
    adb = settings.adb.program or bundled()
    found: dict[str, Controller] = {
        VIRTUAL: VirtualController(settings.data / "virtual" / "ready.json"),
        AVD: AvdController(known.avd_program, known.avd_arguments, adb, settings.data / "logs"),
        MUMU: MuMuController(known.mumu_program),
        LDPLAYER: LDPlayerController(known.ldplayer_program),
    }
    for name, lines in known.commands.items():
        found[name] = CommandController(name, lines.start, lines.stop, lines.restart, lines.status)
    return Controllers(found)


def gatekeeper_of(settings: Settings, adb: AdbClient, inventory: Inventory, cameras: Cameras) -> Gatekeeper:
    return Gatekeeper(adb, inventory, boot_s=min(GATE_S, settings.controllers.boot_s), cameras=cameras)


def caretaker_of(settings: Settings, adb: AdbClient, inventory: Inventory) -> Caretaker:
    """What a host can do for its emulators."""
    known = settings.controllers
    patience = Patience(known.call_s, known.boot_s)
    return Caretaker(adb, inventory, controllers_of(settings), patience, settings.data / "quarantine")


def care_of(settings: Settings) -> Care:
    """What its emulators are told of it."""
    recovery, known = settings.recovery, settings.controllers
    return Care(
        reconnect_s=recovery.reconnect_s,
        restarts=recovery.restarts,
        backoff_s=recovery.backoff_s,
        backoff_max_s=recovery.backoff_max_s,
        forgive_s=recovery.forgive_s,
        limit_s=known.boot_s + 2 * known.call_s + SLACK_S,
        on_demand=settings.queue.idle_stop_s > 0,
    )
