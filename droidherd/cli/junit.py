"""JUnit XML, as CI servers read it: one test case per task or per run of a flow."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree as ET

from droidherd.cli.client import Document, rows_of
from droidherd.cli.errors import CliError
from droidherd.domain.text import visible

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may have, not even escaped."""


@dataclass(frozen=True, slots=True)
class JunitCase:
    """How one task or one run of a flow ended."""

    name: str
    group: str
    """CI servers sort cases by it: the task type, or the flow."""
    seconds: float
    failure: str = ""
    """Empty: it completed."""
    kind: str = ""
    """The class of the failure."""
    details: str = ""
    """What a person reads to find out why: stages, evidence pages."""
    output: str = ""


def write(file: Path, suite: str, cases: Sequence[JunitCase]) -> None:
    """Overwrites the file; makes its folder."""
    failures = [one for one in cases if one.failure]
    counts = {
        "tests": str(len(cases)),
        "failures": str(len(failures)),
        "errors": "0",
        "skipped": "0",
        "time": f"{sum(one.seconds for one in cases):.3f}",
    }
    root = ET.Element("testsuites", {"name": "droidherd", **counts})
    inner = ET.SubElement(root, "testsuite", {"name": valid_text(suite), **counts})
    for one in cases:
        _add(inner, one)
    ET.indent(root)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        ET.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)
    except OSError as error:
        raise CliError(f"the report {file} cannot be written: {error.strerror}", remedy="name another file") from error


def _add(suite: ET.Element, case: JunitCase) -> None:
    named = {"name": valid_text(case.name), "classname": valid_text(case.group), "time": f"{case.seconds:.3f}"}
    element = ET.SubElement(suite, "testcase", named)
    if case.failure:
        failure = ET.SubElement(
            element, "failure", {"message": valid_text(case.failure), "type": valid_text(case.kind)}
        )
        failure.text = valid_text(case.details or case.failure)
    if case.output:
        ET.SubElement(element, "system-out").text = valid_text(case.output)


def case_of_task(task: Document, pages: Sequence[str] = ()) -> JunitCase:
    """`pages` are the addresses of its evidence pages."""
    error: Document = task.get("error") or {}
    state, message = str(task.get("state", "")), str(error.get("message") or "")
    completed = state == "completed"
    name = str(task.get("id") or task.get("task_id") or "")
    stages = [f"{one.get('name')}: {one.get('state')}" for one in rows_of(task, "stages")]
    remedy = [str(error["remedy"])] if error.get("remedy") else []
    evidence = [f"evidence: {page}" for page in pages]
    return JunitCase(
        name,
        str(task.get("type") or ""),
        _seconds(task),
        "" if completed else (message or f"the task is {state}"),
        "" if completed else str(error.get("kind") or state),
        "\n".join([message or state, *remedy, *stages, *evidence]),
        "\n".join(stages),
    )


def valid_text(text: str) -> str:
    r"""With every character that XML does not know, or a terminal obeys, as an escape: `\x1b`."""
    return _NOT_XML.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), visible(text))


def _seconds(task: Document) -> float:
    """From its submission to its end."""
    try:
        begun, ended = (datetime.fromisoformat(str(task[name])) for name in ("created_at", "ended_at"))
    except (KeyError, ValueError):
        return 0.0
    return max(0.0, (ended - begun).total_seconds())
