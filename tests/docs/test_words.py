"""Words that are no longer used, and what is said instead. The table is that of the rename; rows are only added."""

import ast
import io
import re
import subprocess
import tempfile
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = Path(__file__)
PRODUCT = ("droidherd", "workflows", "activities", "api", "worker_main.py", "bench", "long", "tests")
IDENTIFIERS = "identifiers"
"""An English word: it may stand in a sentence, but names nothing."""
EVERYWHERE = "everywhere"
"""A coinage: it stands nowhere, neither in code nor in docs, messages or flows."""


@dataclass(frozen=True)
class Retired:
    """One word, as a part of identifiers (`soil` of `_soil_entry`, `Soil` of `SoilEntry`)."""

    word: str
    instead: str
    where: str = IDENTIFIERS
    but: tuple[str, ...] = ()
    """Identifiers that mean something else: names of other libraries, of Android, of Temporal."""
    only_in: str = ""
    """The only package in which it is retired: elsewhere `home` is a directory, or Android's launcher."""


TABLE = (
    Retired("house", "AppState, GatewayConfig, instance"),
    Retired("houses", "AppState, GatewayConfig, instance"),
    Retired("home", "AppState", only_in="api"),
    Retired("door", "API, ApiClient"),
    Retired("doors", "API, ApiClient"),
    Retired("ledger", "TaskState", EVERYWHERE),
    Retired("carry", "TaskState"),
    Retired("wish", "action, request"),
    Retired("wishes", "action, request"),
    Retired("wished", "asked, ordered"),
    Retired("sight", "health"),
    Retired("sights", "health"),
    Retired("insistence", "CancelRequest", EVERYWHERE),
    Retired("deed", "AuditEntry", EVERYWHERE),
    Retired("deeds", "AuditEntry", EVERYWHERE),
    Retired("tally", "stats", EVERYWHERE),
    Retired("tallies", "stats", EVERYWHERE),
    Retired("physics", "timing", EVERYWHERE),
    Retired("seat", "manual session"),
    Retired("errand", "emulator job", EVERYWHERE),
    Retired("errands", "emulator job", EVERYWHERE),
    Retired("reckoning", "catch-up", EVERYWHERE),
    Retired("reckon", "catch-up", EVERYWHERE),
    Retired("chart", "screen map", but=("flowchart",)),
    Retired("bearings", "screen map", EVERYWHERE),
    Retired("occasion", "subscription run"),
    Retired("aim", "coordinate map"),
    Retired("workshop", "flowtools", EVERYWHERE),
    Retired("courier", "delivery", EVERYWHERE),
    Retired("postman", "delivery", EVERYWHERE),
    Retired("bag", "Batch"),
    Retired("letter", "Envelope"),
    Retired("fate", "DeliveryResult"),
    Retired("receipts", "DeliveryResult"),
    Retired("trail", "trace"),
    Retired("ribbon", "trace", EVERYWHERE),
    Retired("reel", "frame buffer", EVERYWHERE),
    Retired("tapes", "recording", EVERYWHERE),
    Retired("taping", "recording", EVERYWHERE),
    Retired("taped", "recording"),
    Retired("stay", "StageAttempt", but=("stay_on_while_plugged_in",)),
    Retired("outfit", "StageContext", EVERYWHERE),
    Retired("stagerun", "StageContext"),
    Retired("grip", "LeaseHandle"),
    Retired("onlooker", "viewer", EVERYWHERE),
    Retired("onlookers", "viewer", EVERYWHERE),
    Retired("patrol", "probe loop", EVERYWHERE),
    Retired("caretaker", "recovery", EVERYWHERE),
    Retired("care", "recovery, RecoveryPolicy"),
    Retired("cared", "recovery, RecoveryPolicy"),
    Retired("tend", "recovery"),
    Retired("tending", "recovery"),
    Retired("ladder", "recovery steps", EVERYWHERE),
    Retired("rung", "recovery steps", EVERYWHERE),
    Retired("rungs", "recovery steps", EVERYWHERE),
    Retired("sentry", "resource monitor", EVERYWHERE),
    Retired("vitals", "resource monitor", EVERYWHERE),
    Retired("keeper", "CredentialStore"),
    Retired("vault", "Redactor"),
    Retired("book", "AccountReader"),
    Retired("ghost", "orphan lease"),
    Retired("ghosts", "orphan lease"),
    Retired("soil", "mark dirty", EVERYWHERE),
    Retired("soiled", "mark dirty"),
    Retired("tidy", "reset"),
    Retired("tidies", "reset"),
    Retired("tidied", "reset"),
    Retired("precedence", "priority", EVERYWHERE),
    Retired("muster", "sync workers", EVERYWHERE),
    Retired("crew", "HostWorkers", EVERYWHERE),
    Retired("signing", "actor", but=("signing_key",)),
    Retired("verdict", "admission, result", but=("verdict", "Verdict", "verdict_of")),
    Retired("verdicts", "admission, result", but=("verdicts",)),
    Retired("sought", "searched", EVERYWHERE),
    Retired("mend", "fix", EVERYWHERE),
    Retired("mends", "fix", EVERYWHERE),
    Retired("mended", "fix", EVERYWHERE),
    Retired("sound", "valid"),
    Retired("whom", "which"),
    Retired("room", "disk space, package"),
    Retired("rooms", "package"),
    Retired("of your own", "custom", EVERYWHERE),
    Retired("there is nothing of this name", "Not found: no task `x`", EVERYWHERE),
    Retired("parting", "final"),
    Retired("upkeep", "maintenance"),
    Retired("said", "describe, failure_of: say what"),
    Retired("told", "say what"),
)
"""`verdict` by itself is that of an error, `order` a sequence or what a person ordered, `engine` a package."""

PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
BY_WORD = {row.word: row for row in TABLE}


def identifiers(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def fields_and_keys(text: str) -> Iterator[tuple[int, str]]:
    """Texts in code that are names: keys, ids, tags. A sentence is no name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"[\w./-]+", node.value):
            yield node.lineno, node.value


def retired_identifiers(text: str, package: str = "") -> Iterator[str]:
    for line, name in (*identifiers(text), *fields_and_keys(text)):
        for part in {*PARTS.findall(name), name}:
            row = BY_WORD.get(part.lower())
            if row is not None and name not in row.but and row.only_in in ("", package):
                yield f"{line}: {name}: say {row.instead}"


def retired_prose(text: str) -> Iterator[str]:
    for row in TABLE:
        if row.where == EVERYWHERE:
            for found in re.finditer(rf"(?i)(?<![a-z]){row.word}(?![a-z])", text):
                yield f"{text.count(chr(10), 0, found.start()) + 1}: {found.group()}: say {row.instead}"


def _files(pattern: str, *places: str) -> list[Path]:
    """What git tracks: caches and what somebody tries out beside it is nobody else's."""
    line = ["git", "ls-files", "-z", "--", *places]
    tracked = subprocess.run(line, cwd=ROOT, capture_output=True, check=True, text=True).stdout.split("\0")
    found = [ROOT / name for name in tracked if name]
    return sorted(one for one in found if one != HERE and one.match(pattern) and one.is_file())


CODE = _files("*.py", *PRODUCT)
PAGES = [*_files("*.md", "README.md", "CONTRIBUTING.md", "docs", "deploy", "tests", "bench", "long")]
FLOWS = [*_files("*.yaml", "droidherd", "bench"), *_files("*.toml", "deploy")]


@pytest.mark.parametrize("package", sorted({path.relative_to(ROOT).parts[0] for path in CODE}))
def test_no_retired_word_stands_in_the_code_of(package: str):
    found = [
        f"{path.relative_to(ROOT)}:{one}"
        for path in CODE
        if path.relative_to(ROOT).parts[0] == package
        for text in [path.read_text(encoding="utf-8")]
        for one in (*retired_identifiers(text, package), *retired_prose(text))
    ]
    assert not found, "\n".join(found[:40])


def test_no_retired_word_stands_in_docs_and_flows():
    found = [
        f"{path.relative_to(ROOT)}:{one}"
        for path in (*PAGES, *FLOWS)
        for one in retired_prose(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found[:40])


def test_file_names_hold_no_retired_word():
    parts = {(str(path.relative_to(ROOT)), part.lower()) for path in CODE for part in PARTS.findall(path.stem)}
    found = sorted(name for name, part in parts if part in BY_WORD)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def soil_it(): pass", 2),
        ("class SoilMap: ...", 1),
        ("x = 'the ledger of a task'", 1),
        ("a.tidy()", 1),
        ("turmoil = 'it was soiled'", 0),
        ("class StageRun: ...", 1),
        ("class CameraVerdict: ...", 1),
        ("verdict = Verdict.FINAL", 0),
    ],
)
def test_a_retired_word_is_found(text: str, count: int):
    assert count == len([*retired_identifiers(text), *retired_prose(text)])


def test_what_git_does_not_track_is_not_read():
    with tempfile.NamedTemporaryFile(suffix=".py", dir=ROOT / "bench") as untracked:
        assert Path(untracked.name) not in _files("*.py", "bench")
    assert ROOT / "bench" / "stand.py" in _files("*.py", "bench")
    assert [ROOT / "README.md"] == _files("*.md", "README.md")
