"""How the processes that measure end: the SDK's threads may still run, and the interpreter's own exit crash in them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXIT = "the interpreter's own exit"
RUN = f"""
import atexit, runpy, sys
atexit.register(print, {EXIT!r})
{{before}}
runpy.run_module({{module!r}}, run_name="__main__", alter_sys=True)
"""
ENDS = "from long import parts; parts.pytest_part = lambda name, *_: parts.Figures(name, passed={passed})"


def left(place: Path, module: str, *words: str, before: str = "") -> tuple[int, str]:
    """Exit code and whatever was said."""
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(before=before, module=module), *words],
        env={"PYTHONPATH": f"{place}:{ROOT}"},
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("words", "code", "expected"), [("--help", 0, "Measure droidherd"), ("--rounds=0", 2, "Invalid value")]
)
def test_benchmarks_end_without_the_interpreters_own_exit(tmp_path: Path, words: str, code: int, expected: str):
    ended, output = left(tmp_path, "bench", words)
    assert (code, True, False) == (ended, expected in output, EXIT in output), output


@pytest.mark.parametrize(("passed", "code"), [(True, 0), (False, 1)])
def test_the_long_run_ends_without_the_interpreters_own_exit(tmp_path: Path, *, passed: bool, code: int):
    (tmp_path / "long").mkdir()
    for file in (ROOT / "long").glob("*.py"):
        shutil.copy(file, tmp_path / "long")  # it writes its results beside itself
    ended, output = left(tmp_path, "long", "--part=buttons", "--json", before=ENDS.format(passed=passed))
    assert (code, True, False) == (ended, '"name": "buttons"' in output, EXIT in output), output
    assert (tmp_path / "long" / "results" / "latest.json").is_file()
