"""From the host's monotonic clock to an emulator's uptime, never later than true."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UptimeClock:
    """One reading: the emulator said `uptime_s`, and its reply was here at `read_at_s` on the host's monotonic clock.

    The reading is older than its reply, so what is computed from it lags behind the truth by the way of the reply.
    """

    uptime_s: float
    read_at_s: float

    def at(self, host_s: float) -> float:
        """What the emulator's uptime is at `host_s`, or a little less."""
        return self.uptime_s + (host_s - self.read_at_s)

    def deadline(self, host_s: float) -> int:
        """The last whole second of uptime that ends before `host_s`. The guard compares whole seconds with `<=`."""
        return max(0, math.floor(self.at(host_s)) - 1)
