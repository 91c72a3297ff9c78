"""What a host makes of its probes: two good ones for up, one bad one for suspect, long silence for down."""

import math
from dataclasses import dataclass, field

from droidherd.domain.messages import Sight

GOOD_FOR_UP = 2


@dataclass(slots=True)
class Watched:
    """One emulator, as its host's probes see it."""

    sight: Sight | None = None
    """None: nothing was told of it yet. Others may still believe what was told by whoever watched it before."""
    boot: str = ""
    good_in_a_row: int = 0
    last_good_s: float = -math.inf


@dataclass(slots=True)
class Watch:
    """All emulators of one host. `good` and `bad` return whether there is news to tell."""

    down_after_s: float
    emulators: dict[str, Watched] = field(default_factory=dict)

    def good(self, emulator_id: str, boot: str, now_s: float) -> bool:
        """A probe was answered end to end."""
        watched = self.emulators.setdefault(emulator_id, Watched())
        before = (watched.sight, watched.boot)
        watched.last_good_s = now_s
        watched.good_in_a_row += 1
        watched.boot = boot
        if watched.good_in_a_row >= GOOD_FOR_UP:
            watched.sight = Sight.GOOD
        return (watched.sight, watched.boot) != before and watched.sight is Sight.GOOD

    def bad(self, emulator_id: str, now_s: float) -> bool:
        """A probe was not answered, or not by the one we meant."""
        watched = self.emulators.setdefault(emulator_id, Watched())
        before = watched.sight
        watched.good_in_a_row = 0
        if watched.sight is not Sight.DOWN:
            gone = now_s - watched.last_good_s >= self.down_after_s
            watched.sight = Sight.DOWN if gone else Sight.SUSPECT
        return watched.sight is not before

    def forget(self, emulator_id: str) -> None:
        """It is watched no longer. Should it come back, whatever is found then is news."""
        self.emulators.pop(emulator_id, None)

    def settled(self, emulator_id: str) -> bool:
        """Whether the next probe may wait for its turn; an emulator on its way up is probed again at once."""
        watched = self.emulators.get(emulator_id)
        return watched is not None and watched.sight is Sight.GOOD
