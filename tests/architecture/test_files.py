"""What is no Python belongs to the product as well: an installed droidherd has its flows, images and pages."""

import tomllib
from pathlib import Path

from tests.architecture.source import PACKAGES, ROOT

KEPT_OUT = {"__pycache__"}


def test_every_file_of_a_package_is_installed_with_it():
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = [ROOT / package for package in PACKAGES]
    installed = {
        path
        for package, patterns in setup["package-data"].items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    files: set[Path] = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    others = {path for path in files if path.suffix != ".py" and not KEPT_OUT & set(path.parts)}
    assert set() == {str(path.relative_to(ROOT)) for path in others - installed}
    assert len(installed) > 50
