"""Which controllers there are, by name. A new one is a module with an entry that is listed here."""

from collections.abc import Mapping
from dataclasses import dataclass

from droidherd.controllers.avd import AVD
from droidherd.controllers.ldplayer import LDPLAYER
from droidherd.controllers.model import NONE, Controller, ControllerEntry, ControllerError
from droidherd.controllers.mumu import MUMU

VIRTUAL = "virtual"
"""Our own emulators. Their controller has no settings and no program."""
VENDORS: tuple[ControllerEntry, ...] = (AVD, MUMU, LDPLAYER)
BUILT_IN = (VIRTUAL, *(entry.name for entry in VENDORS))


@dataclass(frozen=True, slots=True)
class Controllers:
    """Looked up by what stands in the inventory."""

    by_name: Mapping[str, Controller]

    def find(self, name: str) -> Controller | None:
        """None: this emulator is started and stopped by people."""
        if name == NONE:
            return None
        if name not in self.by_name:
            raise ControllerError(
                f"there is no controller {name!r}",
                remedy=f"take one of {', '.join((NONE, *self.by_name))}, or write controllers.commands.{name}",
            )
        return self.by_name[name]
