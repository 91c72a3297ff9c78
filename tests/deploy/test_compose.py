"""The compose file by structure: Docker does not run where these tests run."""

import re
import subprocess
from typing import Any

import jsonschema
import pytest

from droidherd.cli.local import embedded
from droidherd.settings import Settings
from tests.deploy.files import DEPLOY, load_yaml

COMPOSE = load_yaml("compose/compose.yaml")
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]

TEXTS = {"type": "array", "items": {"type": "string"}}
CONDITION = {"enum": ["service_started", "service_healthy", "service_completed_successfully"]}
SERVICE: dict[str, Any] = {
    "type": "object",
    "required": ["image", "restart"],
    "additionalProperties": False,
    "properties": {
        "image": {"type": "string", "pattern": ":[^:]+(@sha256:[0-9a-f]{64})?$", "not": {"pattern": ":latest(@|$)"}},
        "build": {
            "type": "object",
            "required": ["context", "dockerfile"],
            "properties": {"context": {"type": "string"}, "dockerfile": {"type": "string"}},
        },
        "restart": {"type": "string", "pattern": "^(no|always|unless-stopped|on-failure(:[0-9]+)?)$"},
        "command": TEXTS,
        "entrypoint": TEXTS,
        "profiles": TEXTS,
        "environment": {"type": "object", "additionalProperties": {"type": "string"}},
        "volumes": {"type": "array", "items": {"type": "string", "pattern": "^[^:]+:/[^:]*(:ro)?$"}},
        "ports": {"type": "array", "items": {"type": "string", "pattern": r"^127\.0\.0\.1:[0-9]+:[0-9]+$"}},
        "secrets": TEXTS,
        "extra_hosts": TEXTS,
        "stop_grace_period": {"type": "string", "pattern": "^[0-9]+s$"},
        "depends_on": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["condition"],
                "additionalProperties": False,
                "properties": {"condition": CONDITION},
            },
        },
        "healthcheck": {
            "type": "object",
            "required": ["test"],
            "properties": {"test": TEXTS, "interval": {"type": "string"}, "retries": {"type": "integer"}},
        },
    },
}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_has_the_shape_of_one_and_listens_on_loopback_only(name: str):
    jsonschema.validate(SERVICES[name], SERVICE)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_refers_only_to_what_exists(name: str):
    service = SERVICES[name]
    for other, how in service.get("depends_on", {}).items():
        assert other in SERVICES
        if how["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[other]
    for secret in service.get("secrets", ()):
        assert secret in COMPOSE["secrets"]
    for volume in service.get("volumes", ()):
        source = volume.split(":")[0]
        if source.startswith("."):
            assert (DEPLOY / "compose" / source).resolve().exists(), source
        else:
            assert source in COMPOSE["volumes"]


def test_an_image_from_elsewhere_is_named_with_its_digest():
    """Also in files that come later. What is built here has none before it is built."""
    built = {service["image"] for service in SERVICES.values() if "build" in service}
    named = {
        name
        for path in DEPLOY.rglob("*")
        if path.is_file()
        for name in re.findall(r"^\s*(?:-\s*)?(?:image:|FROM)\s+(\S+)", path.read_text(), re.MULTILINE)
    }
    assert {"droidherd:local"} == built
    assert {"python", "postgres", "temporalio/server"} <= {name.partition(":")[0] for name in named}
    assert [] == [name for name in named - built if not re.fullmatch(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", name)]


def test_images_of_temporal_are_of_the_version_that_is_tested():
    line = [str(embedded.find_program()), "--version"]
    printed = subprocess.run(line, capture_output=True, text=True, timeout=20, check=True).stdout
    ((server, ui),) = re.findall(r"\(Server ([\d.]+), UI ([\d.]+)\)", printed)
    image = {name: service["image"].split("@")[0] for name, service in SERVICES.items()}
    assert {f"temporalio/admin-tools:{server}"} == {image["schema"], image["namespace"]}
    assert (f"temporalio/server:{server}", f"temporalio/ui:{ui}") == (image["temporal"], image["temporal-ui"])


def test_what_runs_once_may_not_run_for_ever():
    once = {
        o for s in SERVICES.values() for o, how in s.get("depends_on", {}).items() if "completed" in how["condition"]
    }
    assert {"schema", "namespace"} == once
    assert {True} == {SERVICES[name]["restart"].startswith("on-failure") for name in once}


def test_every_setting_it_passes_is_one():
    known: set[str] = set()
    for name, field in Settings.model_fields.items():
        group = getattr(field.annotation, "model_fields", {})
        known |= {f"DROIDHERD_{name}__{inner}".upper() for inner in group} | {f"DROIDHERD_{name}".upper()}
    passed = {key for s in SERVICES.values() for key in s.get("environment", {}) if key.startswith("DROIDHERD_")}
    assert set() == passed - known
    assert passed


def test_the_example_names_every_variable():
    text = (DEPLOY / "compose/compose.yaml").read_text()
    wanted = set(re.findall(r"\$\{([A-Z_]+)", text))
    given = set(re.findall(r"^([A-Z_]+)=", (DEPLOY / "compose/.env.example").read_text(), re.MULTILINE))
    assert wanted == given


def test_no_password_stands_in_the_file():
    text = (DEPLOY / "compose/compose.yaml").read_text()
    values = re.findall(r"^ *\w*(?:PASSWORD|PWD|SECRET)\w*: *(\S+)", text, re.MULTILINE)
    assert values
    assert [] == [value for value in values if not value.startswith("${")]


def test_an_api_outside_loopback_gets_a_key():
    api = SERVICES["api"]
    assert not api["environment"]["DROIDHERD_API__HOST"].startswith("127.")
    assert "/run/secrets/api_key" == api["environment"]["DROIDHERD_API__KEY_FILE"]


def test_the_image_copies_every_package():
    text = (DEPLOY / "compose/Dockerfile").read_text()
    root = DEPLOY.parent
    for package in ("droidherd", "workflows", "activities", "api"):
        assert f"COPY {package} {package}" in text
    for name in re.findall(r"COPY ((?:\S+ )+)\./", text)[0].split():
        assert (root / name).exists(), name


@pytest.mark.parametrize("script", ["compose/setup-schema.sh", "temporal/namespace.sh"])
def test_a_script_is_executable_and_parses(script: str):
    path = DEPLOY / script
    assert path.stat().st_mode & 0o111
    done = subprocess.run(["sh", "-n", str(path)], capture_output=True, text=True, timeout=10, check=False)
    assert (0, "") == (done.returncode, done.stderr)
