"""Which controllers there are, by name."""

from collections.abc import Mapping
from dataclasses import dataclass

from droidherd.controllers.model import NONE, Controller, ControllerError

VIRTUAL, AVD, MUMU, LDPLAYER = "virtual", "avd", "mumu", "ldplayer"
BUILT_IN = (VIRTUAL, AVD, MUMU, LDPLAYER)


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
