import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.architecture import imports
from tests.architecture.source import PACKAGES, ROOT, parse, product

BREACHES = [
    ("droidherd/domain/a.py", "import pydantic"),
    ("droidherd/domain/a.py", "from droidherd.contracts.base import Contract"),
    ("droidherd/contracts/a.py", "import temporalio"),
    ("droidherd/contracts/a.py", "def f():\n    import fastapi"),
    ("workflows/a.py", "from droidherd.adb import client"),
    ("workflows/a.py", "import cv2"),
    ("workflows/a.py", "from . import options"),
    ("api/routes/a.py", "import worker_main"),
    ("activities/a.py", "from droidherd.cli.main import main"),
]

HARMLESS = [
    ("droidherd/domain/a.py", "import dataclasses, enum\nfrom droidherd.domain.errors import FinalError"),
    ("droidherd/contracts/a.py", "from pydantic import Field\nfrom droidherd.domain.ports import Box"),
    ("workflows/a.py", "from temporalio import workflow\nfrom droidherd.contracts.plan import Plan"),
    ("droidherd/cli/main.py", "from droidherd.cli import up"),
]


def configuration() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def lint(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(("path", "text"), BREACHES)
def test_a_name_from_the_wrong_package_is_found(path: str, text: str):
    assert 1 == len(list(imports.findings([parse(path, text)])))


@pytest.mark.parametrize(("path", "text"), HARMLESS)
def test_a_name_from_the_right_package_is_left_alone(path: str, text: str):
    assert [] == [str(one) for one in imports.findings([parse(path, text)])]


def test_the_product_names_only_what_it_may():
    assert "" == "\n".join(sorted(str(one) for one in imports.findings(product())))


def test_the_import_contracts_hold():
    done = lint(ROOT)
    assert (0, "") == (done.returncode, "" if done.returncode == 0 else done.stdout)


def test_a_contract_finds_an_indirect_import(tmp_path: Path):
    package = tmp_path / "app"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "core.py").write_text("import app.middle")
    (package / "middle.py").write_text("import app.driver")
    (package / "driver.py").touch()
    (tmp_path / "pyproject.toml").write_text(
        '[tool.importlinter]\nroot_packages = ["app"]\n[[tool.importlinter.contracts]]\nname = "x"\n'
        'type = "forbidden"\nsource_modules = ["app.core"]\nforbidden_modules = ["app.driver"]\n'
    )
    done = lint(tmp_path)
    assert 1 == done.returncode
    assert "app.core -> app.middle" in done.stdout


def test_every_package_stands_in_a_contract():
    """A new folder gets its direction on the day it is made."""
    contracts = configuration()["tool"]["importlinter"]["contracts"]
    held: set[str] = set()
    for contract in contracts:
        held |= {
            *contract.get("source_modules", ()),
            *contract.get("modules", ()),
            *contract.get("forbidden_modules", ()),
        }
    expected = {package for package in imports.packages(product()) if package.split(".")[0] == "droidherd"}
    assert [] == sorted(expected - held)


def test_every_package_is_part_of_the_product_by_decision():
    """Setuptools finds the packages below the rooms; a folder without `__init__.py` would not be installed."""
    include = configuration()["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {f"{package}*" for package in PACKAGES} == set(include)
    folders = {Path(module.path).parent for module in product()} - {Path()}
    assert set() == {str(folder) for folder in folders if not (ROOT / folder / "__init__.py").exists()}
