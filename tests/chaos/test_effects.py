"""Each effect of a stage happens once, or is reported unknown and then observed, whoever dies in the middle."""

import os
from pathlib import Path

from tests.chaos.effects import Campaign

SEED = 20261119


def test_no_effect_happens_twice_or_never_though_its_worker_is_killed(tmp_path: Path):
    seed = int(os.environ.get("DROIDHERD_TEST_SEED", SEED))
    outcome = Campaign(tmp_path, effects=100, kills=5, cuts=5, seed=seed).run()
    assert ([], []) == (outcome.twice, outcome.missing), f"seed {seed}: {outcome}"
    assert (5, 5) == (outcome.kills, outcome.cuts), f"seed {seed}: {outcome}"
    assert outcome.unknown >= 1, f"seed {seed}: no blow fell between an intent and its result: {outcome}"
