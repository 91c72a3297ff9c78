"""What one decision of the dispatcher costs, few waiting against very many. The pure machine alone."""

import gc
import statistics
import time

from bench.figures import Figure, Watch
from bench.history import FEW, LIMIT, MANY
from droidherd.domain import messages as m
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.state import PoolConfig

EMULATORS = 10
TASKS = 400
START_MS = 1_800_000_000_000


async def measure(rounds: int, watch: Watch) -> list[Figure]:
    few: list[float] = []
    many: list[float] = []
    for turn in range(rounds):
        watch("decisions", turn / rounds)
        few.append(decision_us(FEW))
        many.append(decision_us(MANY))
    at_few, at_many = statistics.median(few), statistics.median(many)
    return [
        Figure("decision_us_100_waiting", at_few, "µs", parts=tuple(few)),
        Figure("decision_us_9990_waiting", at_many, "µs", parts=tuple(many)),
        Figure("decision_growth", at_many / at_few, note="9,990 waiting against 100"),
    ]


def decision_us(waiting: int) -> float:
    """Per message, of a pool in motion: one ends, the head of the line is granted, another one lines up."""
    machine = Dispatcher("bench", PoolConfig(limit=LIMIT))
    now_ms = START_MS
    for number in range(EMULATORS):
        up = m.Announce(f"e{number}", "h", 1, 1, m.EmulatorStatus.UP, boot="b")
        machine.on_announce(up, now_ms)
    for number in range(EMULATORS + waiting):
        machine.on_enqueue(_ask(number), now_ms)
    gc.collect()
    began_s = time.perf_counter()
    for number in range(TASKS):
        now_ms += 50
        machine.outbox.lines.clear()
        machine.on_done(m.Done(_key(number), 2, "completed", seconds=0.5), now_ms)
        machine.on_enqueue(_ask(EMULATORS + waiting + number), now_ms)
    return 1e6 * (time.perf_counter() - began_s) / (2 * TASKS)


def _ask(number: int) -> m.Enqueue:
    return m.Enqueue(_key(number), 1, "account", "tap_once", account=f"player-{number}", single=True)


def _key(number: int) -> m.Key:
    return m.Key(f"t-{number:06}", "00000000-0000-0000-0000-000000000000", 1)
