"""Makes what tends emulators from the settings of a process."""

from droidherd.adb.client import AdbClient
from droidherd.adb.program import bundled_adb
from droidherd.controllers.command import CommandController
from droidherd.controllers.model import Controller, ControllerHost
from droidherd.controllers.registry import VENDORS, VIRTUAL, Controllers
from droidherd.controllers.virtual import VirtualController
from droidherd.domain.messages import RecoveryPolicy
from droidherd.emulator.cameras import Cameras
from droidherd.emulator.gate import Gatekeeper
from droidherd.emulator.inventory import Inventory
from droidherd.recovery.recovery import Recovery, RecoveryLimits
from droidherd.settings import Settings

GATE_S = 120.0
"""How long a boot gate is waited at; what boots for longer is recovered on the boots' own queue."""
SLACK_S = 60.0
"""Beside a boot and two calls of a vendor's program: what a start may take."""


def controllers_of(settings: Settings) -> Controllers:
    """The built-in ones, and those of the operator."""
    known = settings.controllers
    host = ControllerHost(settings.adb.program or bundled_adb(), settings.data)
    found: dict[str, Controller] = {VIRTUAL: VirtualController(settings.data / "virtual" / "ready.json")}
    found |= {entry.name: entry.make(known, host) for entry in VENDORS}
    for name, lines in known.commands.items():
        found[name] = CommandController(name, lines.start, lines.stop, lines.restart, lines.status)
    return Controllers(found)


def gatekeeper_of(settings: Settings, adb: AdbClient, inventory: Inventory, cameras: Cameras) -> Gatekeeper:
    return Gatekeeper(adb, inventory, boot_s=min(GATE_S, settings.controllers.boot_s), cameras=cameras)


def recovery_of(settings: Settings, adb: AdbClient, inventory: Inventory) -> Recovery:
    """What a host can do for its emulators."""
    known = settings.controllers
    patience = RecoveryLimits(known.call_s, known.boot_s)
    folder, environment = settings.data / "quarantine", settings.tool_environment
    return Recovery(adb, inventory, controllers_of(settings), patience, folder, environment)


def recovery_policy_of(settings: Settings) -> RecoveryPolicy:
    """What its emulators are told of it."""
    recovery, known = settings.recovery, settings.controllers
    return RecoveryPolicy(
        reconnect_s=recovery.reconnect_s,
        restarts=recovery.restarts,
        backoff_s=recovery.backoff_s,
        backoff_max_s=recovery.backoff_max_s,
        forgive_s=recovery.forgive_s,
        limit_s=known.boot_s + 2 * known.call_s + SLACK_S,
        on_demand=settings.queue.idle_stop_s > 0,
    )
