"""Makes what tends emulators from the settings of a process."""

from droidherd.adb.program import bundled
from droidherd.controllers.avd import AvdController
from droidherd.controllers.command import CommandController
from droidherd.controllers.ldplayer import LDPlayerController
from droidherd.controllers.model import Controller
from droidherd.controllers.mumu import MuMuController
from droidherd.controllers.registry import AVD, LDPLAYER, MUMU, VIRTUAL, Controllers
from droidherd.controllers.virtual import VirtualController
from droidherd.settings import Settings


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
