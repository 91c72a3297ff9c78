"""The written contract says what the code does."""

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import jsonschema
import pytest
from temporalio import workflow

from droidherd.contracts.tasks import Admission, TaskInput, TaskSpec
from droidherd.domain.task.lifecycle import TaskStatus
from workflows.account import AccountWorkflow
from workflows.dispatcher.workflow import DispatcherWorkflow
from workflows.emulator import EmulatorWorkflow
from workflows.inbound import Argument
from workflows.maintenance import MaintenanceWorkflow
from workflows.subscription_run import SubscriptionRunWorkflow
from workflows.task.workflow import TaskWorkflow

DOCS = Path(__file__).parents[2] / "docs"
SCHEMAS = DOCS / "schemas"
DEFINED = {
    "TaskWorkflow": TaskWorkflow,
    "DispatcherWorkflow": DispatcherWorkflow,
    "EmulatorWorkflow": EmulatorWorkflow,
    "AccountWorkflow": AccountWorkflow,
    "MaintenanceWorkflow": MaintenanceWorkflow,
    "SubscriptionRunWorkflow": SubscriptionRunWorkflow,
}


def kind_of(handler: Callable[..., Any]) -> Any:
    parameter = Argument.of(inspect.unwrap(handler))
    return parameter.kind if parameter else None


def load(name: str) -> Any:
    return json.loads((SCHEMAS / name).read_text(encoding="utf-8"))


def test_the_schemas_are_in_step_with_the_models(generate: ModuleType):
    assert [] == generate.out_of_step(), "run docs/schemas/generate.py"


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_every_schema_is_a_schema(path: Path):
    if path.name != "index.json":
        jsonschema.Draft202012Validator.check_schema(load(path.name))


@pytest.mark.parametrize("name", sorted(DEFINED))
def test_the_index_names_only_what_a_workflow_understands_with_these_types(name: str, generate: ModuleType):
    definition = workflow._Definition.must_from_class(DEFINED[name])
    spoken = next(value for key, value in generate.CONTRACT.items() if key == name)
    assert (name, spoken["result"]) == (definition.name, definition.ret_type or type(None))
    taken = kind_of(definition.run_fn)
    # A task also takes its own state, and what it cannot read, which ends as a failed task.
    assert spoken["input"] in {taken, *get_args(taken)}
    none = type(None)
    for message, kind in spoken["signals"].items():
        assert kind is (kind_of(definition.signals[message].fn) or none), message
    for message, (argument, answer) in spoken["updates"].items():
        update = definition.updates[message]
        assert (argument, answer) == (kind_of(update.fn) or none, update.ret_type), message
    for message, (argument, answer) in spoken["queries"].items():
        query = definition.queries[message]
        assert (argument, answer) == (kind_of(query.fn) or none, query.ret_type), message


def test_everything_a_person_may_send_is_in_the_index():
    """Left out: what our own workflows and workers send, and the whole state, which may change at any time."""
    index = load("index.json")["workflows"]
    ours = {
        "TaskWorkflow": {"admitted", "rejected", "grant", "revoked", "recall"},
        "DispatcherWorkflow": {"ask", "enqueue", "soon", "ending", "done", "announce", "closed", "holders", "snapshot"},
        "EmulatorWorkflow": {"seen", "reset", "recall", "switch", "state"},
        "AccountWorkflow": {"state"},
        "MaintenanceWorkflow": set[str](),
        "SubscriptionRunWorkflow": set[str](),
    }
    for name, kind in DEFINED.items():
        definition = workflow._Definition.must_from_class(kind)
        handled = {*definition.signals, *definition.updates, *definition.queries}
        written = {message for group in ("signals", "updates", "queries") for message in index[name][group]}
        assert written == {str(one) for one in handled if one} - ours[name]


def misfits(document: Any, schema: str) -> list[str]:
    return [error.message for error in jsonschema.Draft202012Validator(load(schema)).iter_errors(document)]


def test_what_the_models_write_fits_the_schemas():
    spec = TaskInput(spec=TaskSpec(type="tap_once", account="a", labels={"x": "y"}))
    for model in (spec, Admission(task_id="t", state=TaskStatus.QUEUED, position=1)):
        assert [] == misfits(json.loads(model.model_dump_json()), f"{type(model).__name__}.json")


def test_the_least_that_may_be_sent_fits_the_schemas():
    assert [] == misfits({"spec": {"type": "tap_once"}}, "TaskInput.json")
    assert [] == misfits({}, "OperatorRequest.json")
    assert ["'type' is a required property"] == misfits({"spec": {}}, "TaskInput.json")


def test_a_misspelt_field_does_not_fit_the_schemas():
    assert misfits({"spec": {"type": "tap_once", "notBefore": "2026-11-20T08:00:00Z"}}, "TaskInput.json")
    assert misfits({"actr": "ann"}, "OperatorRequest.json")


def test_every_type_that_the_typescript_file_names_is_defined_there():
    text = (SCHEMAS / "droidherd.d.ts").read_text(encoding="utf-8")
    defined = set(re.findall(r"^export (?:interface|type) (\w+)", text, re.MULTILINE))
    fields = re.sub(r'"[^"]*"|//.*|/[*].*|^  \w+Workflow:.*', "", text, flags=re.MULTILINE)
    used = set(re.findall(r"\b[A-Z]\w+", fields)) - {"Array", "Record"}
    assert used <= defined
    assert {"TaskInput", "TaskView", "OperatorCommand"} <= defined


def test_the_index_says_that_an_id_is_used_once():
    assert "REJECT_DUPLICATE" == load("index.json")["workflows"]["TaskWorkflow"]["id_reuse_policy"]


def test_every_link_of_the_page_leads_somewhere():
    text = (DOCS / "contract.md").read_text(encoding="utf-8")
    links = [part.partition(")")[0] for part in text.split("](")[1:]]
    for link in links:
        assert link.startswith("https://") or (DOCS / link.partition("#")[0]).exists(), link
