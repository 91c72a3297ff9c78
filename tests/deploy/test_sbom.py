"""The list of what an installation consists of."""

import hashlib
import importlib
import io
import json
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from droidherd.cli.local import embedded

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("sbom") / "sbom.json"
    subprocess.run([sys.executable, str(ROOT / ".ci" / "sbom.py"), str(file)], check=True, capture_output=True)
    return json.loads(file.read_text())


def test_everything_that_is_needed_at_run_time_is_a_component(document: dict[str, Any]):
    assert ("CycloneDX", "1.6", 1) == (document["bomFormat"], document["specVersion"], document["version"])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {canonicalize_name(one["name"]) for one in document["components"]}
    assert {canonicalize_name(Requirement(one).name) for one in project["dependencies"]} <= named
    assert {"rapidocr", "cffi"} <= named, "the extra with models, and what dependencies need"
    assert not {"pytest", "ruff", "setuptools"} & named


def test_each_component_has_a_version_a_licence_and_a_reference(document: dict[str, Any]):
    parts = [document["metadata"]["component"], *document["components"]]
    assert [] == [one["name"] for one in parts if not (one["version"] and one.get("licenses"))]
    references = [one["bom-ref"] for one in parts]
    assert len(references) == len(set(references))
    needed = {one for entry in document["dependencies"] for one in entry["dependsOn"]}
    assert needed <= set(references) == {entry["ref"] for entry in document["dependencies"]}


def test_programs_inside_wheels_are_named_with_their_digests(document: dict[str, Any]):
    inside = {one["name"]: one for part in document["components"] for one in part.get("components", ())}
    assert {"adb", "temporal"} <= inside.keys()
    assert embedded.known_digest() == inside["temporal"]["hashes"][0]["content"]


@pytest.mark.parametrize("program", [b"the program that is tested", b"another program"])
def test_an_archive_of_the_release_is_compared_with_the_program_we_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: bytes
):
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    verify = importlib.import_module("verify_engine")
    archive = tmp_path / f"temporal_cli_{embedded.CLI_VERSION}_linux_amd64.tar.gz"
    with tarfile.open(archive, "w:gz") as members:
        inside = tarfile.TarInfo("temporal")
        inside.size = len(program)
        members.addfile(inside, io.BytesIO(program))
    assert f"not {verify.ARCHIVES['linux_amd64']}" in verify.problem_of(archive)

    monkeypatch.setitem(verify.ARCHIVES, "linux_amd64", hashlib.sha256(archive.read_bytes()).hexdigest())
    tested = hashlib.sha256(b"the program that is tested").hexdigest()
    monkeypatch.setattr(verify, "PROGRAMS", {("linux", "x86_64"): tested})
    assert (program == b"another program") == ("the program in" in verify.problem_of(archive))
    assert set(verify.KEYS.values()) == set(embedded.PROGRAMS)
