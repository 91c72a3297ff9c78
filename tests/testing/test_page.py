"""The examples of docs/testing.md do what the page says."""

import asyncio
import inspect
import re
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


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
