"""Each command, body and example of README and docs is one that the product knows.

Nothing runs here: `tests/e2e/test_newcomer.py` runs them in order, on an instance.
"""

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import typer
import yaml
from jsonschema import Draft202012Validator
from typer.core import TyperGroup

from api.app import create_app
from droidherd.cli import main
from droidherd.contracts import names
from droidherd.settings import Settings
from tests.docs.blocks import ELSEWHERE, ROOT, Block, blocks, blocks_of

ALL = blocks(everywhere=True)
SHELL = [one for one in ALL if one.language == "sh"]
COMMANDS = [(one, line) for one in SHELL for line in one.lines()]
SPAN = re.compile(r"`droidherd ([a-z][^`]*)`")
SCHEMAS = ROOT / "docs" / "schemas"
ROOT_COMMAND = typer.main.get_command(main.app)
RUN = ("sh", "python")
PREFIXES = {"dispatcher/": "DispatcherWorkflow", "emulator/": "EmulatorWorkflow", "account/": "AccountWorkflow",
            "maintenance/": "MaintenanceWorkflow"}  # fmt: skip


def of(program: str) -> list[Any]:
    """The documented lines that begin with it, each with its words."""
    found = [(block, shlex.split(line, comments=True)) for block, line in COMMANDS]
    return [pytest.param(block, words, id=f"{block.place}-{number}") for number, (block, words) in enumerate(found)
            if words and words[0] == program]  # fmt: skip


def test_every_block_is_run_or_checked_or_says_why_not():
    odd = [one.place for one in blocks() if one.mark and not one.not_run and not one.schema]
    assert [] == odd, "marks are `not run: REASON` and `schema: NAME`"
    known = (*RUN, "json", "yaml", "toml")
    assert [] == [one.place for one in blocks() if one.language not in known and not one.not_run]
    assert [] == [one.place for one in blocks() if one.language == "json" and not one.schema and not one.not_run]


@pytest.mark.parametrize(
    "block", [pytest.param(one, id=f"{one.place}: {one.not_run}") for one in blocks(everywhere=True) if one.not_run]
)
def test_a_block_that_cannot_run_here_says_why(block: Block):
    """`pytest -v` lists them with their reasons."""
    assert len(block.not_run.split()) > 1


def test_the_tests_that_run_other_pages_are_there():
    named = [path for tests in ELSEWHERE.values() for path in re.findall(r"tests/[\w/]+\.py", tests)]
    assert [] == [path for path in named if not (ROOT / path).exists()]


def test_a_mark_belongs_to_the_block_below_it():
    text = "<!-- not run: needs a phone -->\n```sh\na\n```\ntext\n```sh\nb \\\n  c\n```\n"
    first, second = blocks_of(text, "p.md")
    assert ("needs a phone", "") == (first.not_run, second.not_run)
    assert (2, 6, ["b   c"]) == (first.line, second.line, list(second.lines()))


def parse(words: list[str]) -> None:
    """As the command itself would, without doing anything."""
    command: Any = ROOT_COMMAND
    rest, name = list(words), ""
    if rest == ["--version"]:
        return
    while isinstance(command, TyperGroup):
        assert rest, words
        name = rest.pop(0)
        assert name in command.commands, f"droidherd {' '.join(words)}: no command {name!r}"
        command = command.commands[name]
    if "--help" not in rest:
        command.make_context(name, rest)


@pytest.mark.parametrize(("block", "words"), of("droidherd"))
def test_a_documented_command_line_is_understood(block: Block, words: list[str]):
    parse(words[1:])


def test_a_command_line_that_is_not_understood_is_seen():
    for words in (["tasks"], ["task", "list", "--nosuch"], ["task", "show"]):
        with pytest.raises((AssertionError, typer.TyperException)):
            parse(words)


def test_commands_in_prose_and_messages_are_commands():
    """Their words; what follows stands for something."""
    wrong: list[str] = []
    product = [
        path for folder in ("droidherd", "workflows", "activities", "api") for path in ROOT.glob(f"{folder}/**/*.py")
    ]
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), ROOT / "deploy" / "README.md", *sorted(product)]:
        for span in SPAN.findall(path.read_text(encoding="utf-8")):
            command: Any = ROOT_COMMAND
            words = span.replace("...", "").split()
            while isinstance(command, TyperGroup) and words and re.fullmatch("[a-z]+", words[0]):
                if words[0] not in command.commands:
                    wrong.append(f"{path.name}: droidherd {span}")
                    break
                command = command.commands[words.pop(0)]
    assert [] == wrong


# --- HTTP ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return create_app(Settings(data=tmp_path_factory.mktemp("docs"))).openapi()


def excerpt(schema: Any) -> Any:
    """The same, with nothing that has to be there."""
    if isinstance(schema, dict):
        return {name: excerpt(value) for name, value in schema.items() if name != "required" or isinstance(value, dict)}
    return [excerpt(one) for one in schema] if isinstance(schema, list) else schema


def option(words: list[str], *named: str) -> str:
    return next((words[at + 1] for at, word in enumerate(words[:-1]) if word in named), "")


def operation(routes: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    """What serves it: the path with the fewest placeholders that fits."""
    fitting = [
        known
        for known in routes["paths"]
        if method in routes["paths"][known] and re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", known), path)
    ]
    assert fitting, f"nothing serves {method} {path}"
    return routes["paths"][min(fitting, key=lambda known: known.count("{"))][method]


def errors(schema: dict[str, Any], document: Any, components: dict[str, Any]) -> list[str]:
    whole = {**schema, "components": components}
    return [f"{'.'.join(map(str, one.absolute_path))}: {one.message}" for one in
            Draft202012Validator(whole).iter_errors(document)]  # fmt: skip


@pytest.mark.parametrize(("block", "words"), of("curl"))
def test_a_documented_request_fits_its_route(block: Block, words: list[str], routes: dict[str, Any]):
    body = option(words, "--json", "-d", "--data")
    method = (option(words, "-X", "--request") or ("POST" if body else "GET")).lower()
    (address,) = [word for word in words if "localhost:" in word]
    url = urlsplit(f"http://{address}" if "://" not in address else address)
    served = operation(routes, method, url.path)
    known = {one["name"] for one in served.get("parameters", []) if one["in"] == "query"}
    assert set() == {part.partition("=")[0] for part in url.query.split("&") if part} - known
    if body:
        schema = served["requestBody"]["content"]["application/json"]["schema"]
        assert [] == errors(schema, json.loads(body), routes["components"])


@pytest.mark.parametrize(
    "block", [pytest.param(one, id=one.place) for one in blocks() if one.language == "json" and one.schema]
)
def test_a_documented_answer_has_the_shape_of_the_real_one(block: Block, routes: dict[str, Any]):
    """An excerpt: what is shown must fit; more may be there."""
    document = json.loads(block.text)
    components = excerpt(routes["components"])
    schemas = components["schemas"]
    assert block.schema in schemas, f"there is no schema {block.schema}; there are: {', '.join(sorted(schemas))}"
    properties = schemas[block.schema]["properties"]
    if block.schema != "ProblemDetails":  # its further members are those of its type
        assert set() == set(document) - set(properties)
    found = [one for name, value in document.items() if name in properties
             for one in errors(properties[name], value, components)]  # fmt: skip
    assert [] == found


# --- Temporal -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("block", "words"), of("temporal"))
def test_a_documented_message_fits_its_schema(block: Block, words: list[str]):
    index = json.loads((SCHEMAS / "index.json").read_text(encoding="utf-8"))["workflows"]
    workflow_id = option(words, "--workflow-id")
    kind = option(words, "--type") or next(
        (workflow for prefix, workflow in PREFIXES.items() if workflow_id.startswith(prefix)), "TaskWorkflow"
    )
    workflow, name = index[kind], option(words, "--name", "--update-name")
    if queue := option(words, "--task-queue"):
        assert queue in {names.QUEUE, names.FLEET_QUEUE}
    messages = {one: known for group in ("signals", "updates", "queries") for one, known in workflow[group].items()}
    assert name in {*messages, ""}
    given = option(words, "--input", "--update-input")
    if not given:
        return
    wanted = messages[name]["argument"] if name else workflow["input"]
    if "$ref" in wanted:
        wanted = json.loads((SCHEMAS / wanted["$ref"]).read_text(encoding="utf-8"))
    assert [] == errors(wanted, json.loads(given), {})


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [pytest.param(one, id=one.place) for one in ALL if one.language == "toml"])
def test_documented_settings_are_settings(block: Block):
    document = tomllib.loads(block.text)
    if "project" not in document:
        Settings.model_validate(document)


@pytest.mark.parametrize("block", [pytest.param(one, id=one.place) for one in ALL if one.language == "yaml"])
def test_documented_yaml_can_be_read(block: Block):
    assert yaml.safe_load(block.text)


def test_every_page_is_looked_at():
    assert {Path(one.page).name for one in ALL} >= {
        "README.md",
        "http.md",
        "contract.md",
        "flows.md",
        "subscriptions.md",
    }
