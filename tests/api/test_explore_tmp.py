import sys, time
from pathlib import Path

sys.path.insert(0, "/work/wt/api")
from tests.api.fuzz import fuzz
from tests.api.world import World


def test_explore(world: World, tmp_path: Path):
    t = time.time()
    found = fuzz(world.url, tmp_path, examples=3, seed=1, phases="fuzzing")
    Path("/tmp/fuzz.out").write_text(
        found.report + f"\nREQUESTS {found.requests} code {found.code} in {time.time() - t}"
    )
