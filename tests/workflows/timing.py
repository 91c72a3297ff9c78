"""How long silence is borne: by the world of most tests for long, and for a moment in those that are about silence.

A machine that stands still for seconds makes the engine do something else where a test is not about that.
"""

from droidherd.contracts.fleet import FleetTiming
from droidherd.contracts.plan import TaskTiming

IMPATIENT_TASKS = TaskTiming(
    heartbeat_timeout_s=1.0, lease_ttl_s=0.2, cleanup_s=0.5, lease_margin_s=5.0, start_grace_s=1.0
)
TASK_TIMING = IMPATIENT_TASKS.model_copy(update={"heartbeat_timeout_s": 20.0})
IMPATIENT_FLEET = FleetTiming(presence_timeout_s=1.0, presence_grace_s=1.0, gate_timeout_s=5.0, gate_backoff_s=0.05)
FLEET_TIMING = IMPATIENT_FLEET.model_copy(
    update={"presence_timeout_s": 20.0, "presence_grace_s": 20.0, "gate_timeout_s": 30.0}
)
