"""One round of the faults that tell most about the whole system; `python -m long --part crash_…` plays 20 of each."""

import os
from pathlib import Path

import pytest

from tests.chaos.faults import Extent, play_fault

SEED = 20261120


@pytest.mark.long
@pytest.mark.parametrize("name", ["start_up", "end_all", "stop_worker", "cut_adb"])
async def test_after_a_fault_nothing_is_lost_and_everything_serves(name: str, tmp_path: Path):
    seed = int(os.environ.get("DROIDHERD_TEST_SEED", SEED))
    played = await play_fault(tmp_path / "data", name, Extent(1, seed))
    assert [] == played.problems, f"seed {seed}: {played.figures()}"
