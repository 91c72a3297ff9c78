"""The examples of docs/testing.md do what the page says."""

import asyncio
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_first_example_runs_in_an_empty_folder(tmp_path: Path):
    """With nothing of this repository's settings, and no folder of it in the path."""
    (settings,) = re.findall(r"```ini\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "pytest.ini").write_text(dedent(settings), encoding="utf-8")
    (tmp_path / "test_daily.py").write_text(EXAMPLES[0], encoding="utf-8")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON", "COV"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False, timeout=120)
    assert (0, True) == (done.returncode, "1 passed" in done.stdout), done.stdout


def test_the_page_has_its_five_examples():
    assert [1, 2, 1, 1, 1] == [len(re.findall(r"def test_", text)) for text in EXAMPLES]


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_of_the_page_runs(tmp_path: Path, number: int):
    path = tmp_path / f"example_{number}.py"
    path.write_text(EXAMPLES[number], encoding="utf-8")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    tests: list[Callable[[], Any]] = [one for name, one in vars(module).items() if name.startswith("test_")]
    for test in tests:
        if inspect.iscoroutinefunction(test):
            asyncio.run(test())
        else:
            wants_folder = "tmp_path" in inspect.signature(test).parameters
            test(**({"tmp_path": tmp_path} if wants_folder else {}))
