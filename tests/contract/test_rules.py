"""Rules that hold for every message of the contract, and for HTTP: names and forms of times, durations and senders."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import TypeAdapter

from api.app import create_app
from droidherd.contracts.inbound import UnreadableError, has_defaults, read
from droidherd.settings import Settings
from workflows.dispatcher.workflow import DispatcherWorkflow
from workflows.inbound import Argument

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
TIMES = re.compile(r"(^|_)(at|since|until|due|before|first|last|times|started|ended)$")
NO_TIMES = {
    *(("AuditQuery", "before"), ("AuditPage", "next_before"), ("Undo", "before")),
    *(("EventView", "before"), ("NumberedEvent", "before"), ("SubscriptionView", "started")),
}
"""Cursors, values and states from before a change, and a count."""
UNITS = re.compile(r"(^|_)(ms|us|ns|sec|secs|seconds|minutes|hours|days|timeout|duration)$")
WRONG: tuple[object, ...] = (
    None,
    0,
    -1,
    1.5,
    10**30,
    True,
    "",
    "no such",
    "é" * 2_000,
    [],
    [[]],
    ["x", 1],
    {},
    {"no such": 1},
)
PYDANTIC = re.compile(r"(?i)input should|validation error|pydantic|\bctx\b|type=|Unable to|value error")


def properties(schema: dict[str, Any], name: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Model, field, schema; of every model in it."""
    for owner, one in {name: schema, **schema.get("$defs", {})}.items():
        for field, kind in one.get("properties", {}).items():
            yield owner, field, kind


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, str]]:
    """Of the contract and of HTTP: model, field, its schema as text."""
    found: dict[tuple[str, str], str] = {}
    for path in SCHEMAS.glob("*.json"):
        for owner, field, kind in properties(json.loads(path.read_text(encoding="utf-8")), path.stem):
            found[owner, field] = json.dumps(kind)
    http = create_app(Settings(data=tmp_path_factory.mktemp("rules"))).openapi()["components"]["schemas"]
    for owner, schema in http.items():
        for field, kind in schema.get("properties", {}).items():
            found[owner, field] = json.dumps(kind)
    return [(owner, field, kind) for (owner, field), kind in sorted(found.items())]


def test_a_time_is_rfc_3339_and_its_name_says_that_it_is_one(fields: list[tuple[str, str, str]]):
    times = {(owner, field) for owner, field, kind in fields if "date-time" in kind}
    named = {(owner, field) for owner, field, _ in fields if TIMES.search(field)}
    assert 30 < len(times)
    assert set() == named - times - NO_TIMES, "these look like times, and are none"


def test_a_duration_is_a_number_of_seconds_and_ends_with_its_unit(fields: list[tuple[str, str, str]]):
    assert [] == [(owner, field) for owner, field, _ in fields if UNITS.search(field)]
    in_seconds = [(owner, field, kind) for owner, field, kind in fields if field.endswith("_s")]
    assert 20 < len(in_seconds)
    assert [] == [one for one in in_seconds if not re.search(r'"(number|integer)"', one[2]) or "date-time" in one[2]]


def sent_by_people(generate: ModuleType) -> dict[str, Any]:
    """What changes something because a person wants it: all signals and updates but those of machines."""
    return {
        f"{workflow} {name}": kind
        for workflow, spoken in generate.CONTRACT.items()
        for name, kind in {**spoken["signals"], **{one: pair[0] for one, pair in spoken["updates"].items()}}.items()
        if name not in {"wake", "configure", "audit_entry", "admission"}
    }


def test_who_wants_it_and_why_stand_at_the_top_of_every_message(generate: ModuleType):
    messages = sent_by_people(generate)
    assert 20 < len(messages)
    for name, kind in messages.items():
        given = TypeAdapter(kind).json_schema()
        owners = [owner for owner, field, _ in properties(given, kind.__name__) if field == "actor"]
        assert [kind.__name__] == owners, name
        for field in ("actor", "reason"):
            assert "string" == given["properties"][field]["type"], name
            assert field not in given.get("required", []), name


def test_who_wants_it_and_why_stand_at_the_top_of_every_body(tmp_path: Path):
    for name, schema in create_app(Settings(data=tmp_path)).openapi()["components"]["schemas"].items():
        if name.endswith("Request"):
            assert not {"ask", "request", "by"} & schema.get("properties", {}).keys(), name


def arguments(generate: ModuleType) -> dict[str, Any]:
    """Model → itself, of everything that may be sent."""
    kinds = [
        kind
        for spoken in generate.CONTRACT.values()
        for kind in (
            spoken["input"],
            *spoken["signals"].values(),
            *(pair[0] for pair in (*spoken["updates"].values(), *spoken["queries"].values())),
        )
    ]
    return {kind.__name__: kind for kind in kinds if kind is not type(None)}


def wrong_ones(kind: Any) -> Iterator[tuple[str, object]]:
    """A field, or nothing; and an argument in which it has every wrong form."""
    yield from (("", one) for one in WRONG)
    schema = TypeAdapter(kind).json_schema()
    time = "2026-11-20T08:00:00Z"
    made = {"created_at": time, "catch_up": {"until": time}}
    least: dict[str, object] = {"spec": {"type": "x"}, "task": {"type": "x"}, **made}
    choices = {field: one["enum"][0] for field, one in schema.get("properties", {}).items() if "enum" in one}
    needed = {field: (least | choices).get(field, "x") for field in schema.get("required", [])}
    for field in schema.get("properties", {}):
        for one in WRONG:
            yield field, {**needed, field: one}
    if "spec" in schema.get("properties", {}):
        for field in schema["$defs"]["TaskSpec"]["properties"]:
            for one in WRONG:
                yield field, {"spec": {"type": "x", field: one}}


def refusal(kind: Any, given: object) -> str:
    """Empty: it is taken."""
    try:
        read(kind, "json/plain", json.dumps(given).encode(), strict=True)
    except UnreadableError as error:
        return str(error)
    return ""


def test_no_refusal_has_pydantics_words_and_each_names_its_field(generate: ModuleType):
    refused = 0
    for name, kind in arguments(generate).items():
        for field, given in wrong_ones(kind):
            words = refusal(kind, given)
            refused += bool(words)
            assert not PYDANTIC.search(words), (name, given, words)
            assert not words or field in words, (name, given, words)
    assert 500 < refused


def test_a_query_whose_fields_all_have_defaults_needs_no_argument(generate: ModuleType):
    needed = {
        name
        for spoken in generate.CONTRACT.values()
        for name, (argument, _) in spoken["queries"].items()
        if argument is str and not has_defaults(argument)
    }
    assert {"account", "place"} == needed
    parameter = Argument.of(DispatcherWorkflow.events)
    assert parameter is not None
    assert 0 == parameter.default
