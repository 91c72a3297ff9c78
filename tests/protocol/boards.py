"""Full boards, for tests of size and of determinism."""

import random
import uuid

from droidherd.domain import messages as m
from droidherd.domain.dispatch.dispatcher import Dispatcher
from droidherd.domain.dispatch.state import PoolConfig
from droidherd.domain.messages import EmulatorStatus, OnBusy

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
LONGEST = 64
BEGAN_MS = 1_700_000_000_000


def a_name(random_: random.Random) -> str:
    return "".join(random_.choices(LETTERS, k=LONGEST))


def full(entries: int, *, mutexes: int = 0, seed: int = 1) -> Dispatcher:
    """A dispatcher to which that many tasks with the longest random names said `enqueue`."""
    random_ = random.Random(seed)
    d = Dispatcher("pool", PoolConfig())
    now = BEGAN_MS
    for i in range(100):
        labels = ("app=game", f"host={a_name(random_)}", "region=eu")
        d.on_announce(m.Announce(f"e{i}", "h", now, 1, EmulatorStatus.SUSPECT, labels, "b"), now)
    for _ in range(entries):
        now += random_.randint(1, 500)
        run = str(uuid.UUID(int=random_.getrandbits(128)))
        d.on_enqueue(
            m.Enqueue(
                m.Key(a_name(random_), run, 1),
                random_.randint(1, 9),
                "account",
                "daily_reward",
                ("app=game", "region=eu"),
                a_name(random_),
                tuple(a_name(random_) for _ in range(mutexes)),
                random_.randint(1, 10),
                OnBusy.QUEUE,
                sticky=f"e{random_.randint(0, 99)}",
            ),
            now,
        )
    return d
