"""Replays recorded histories: a run that began under older code must go on under the code of today."""

import gzip
import json
import re
import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from temporalio.client import Client, WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.runtime import Runtime, TelemetryConfig
from temporalio.worker import Replayer
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from droidherd.engine.connection import CONVERTER
from workflows.guard import GuardedRunner, ObservedRunner

_NONSENSE = (OSError, EOFError, ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError, zlib.error)
SUFFIXES = (".json", ".json.gz")
HISTORY_MAX_BYTES = 256 << 20
"""Of a history as JSON. Temporal itself ends a run at 50 MB."""
WIDTH = 120


class UnreadableHistoryError(Exception):
    """A file that was named is not a history."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of one history."""

    history: str
    workflow: str
    events: int
    diverged: str = ""
    """Empty: the workflow asked for exactly what stands in the history."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A history as it was found."""

    path: Path
    workflow: str
    history: WorkflowHistory

    def begun(self) -> bool:
        """Whether its code ever ran. The replayer would wait for ever for a run that was only started."""
        return any(e.HasField("workflow_task_completed_event_attributes") for e in self.history.events)

    def run_id(self) -> str:
        return self.history.events[0].workflow_execution_started_event_attributes.original_execution_run_id


async def verify(
    recorded: Sequence[Recorded],
    workflow_classes: Sequence[type],
    *,
    strict: bool,
    as_json: bool,
    converter: DataConverter = CONVERTER,
) -> int:
    """Replay these histories and print what came of it. Returns 1 when one of them diverged."""
    results = await replay(recorded, workflow_classes, strict=strict, converter=converter)
    if as_json:
        Console(soft_wrap=True, highlight=False).print_json(data=[asdict(result) for result in results])
    else:
        _show(results)
    return 1 if any(result.diverged for result in results) else 0


async def fetch(client: Client, query: str) -> list[Recorded]:
    """The histories of all runs that this list query finds."""
    recorded: list[Recorded] = []
    async for run in client.list_workflows(query):
        history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
        recorded.append(Recorded(Path(f"{run.id} {run.run_id}"), run.workflow_type, history))
    return recorded


def find(paths: Sequence[Path]) -> list[Path]:
    """Files as they are named; folders with all that is below them, in the order of their names."""
    found: list[Path] = []
    for path in paths:
        below = sorted(file for file in path.rglob("*") if file.name.endswith(SUFFIXES)) if path.is_dir() else [path]
        found.extend(below)
    return found


def read(path: Path) -> Recorded:
    """A history as `temporal workflow show --output json`, the Web UI or our recorder wrote it, zipped or not."""
    try:
        with gzip.open(path) if path.name.endswith(".gz") else path.open("rb") as file:
            raw = file.read(HISTORY_MAX_BYTES + 1)
        if len(raw) > HISTORY_MAX_BYTES:
            raise UnreadableHistoryError(f"{path} has more than {HISTORY_MAX_BYTES} bytes")
        document: Any = json.loads(raw)
        first = document["events"][0]["workflowExecutionStartedEventAttributes"]
        workflow_id = str(first.get("workflowId") or path.name.partition(".")[0])
        return Recorded(path, str(first["workflowType"]["name"]), WorkflowHistory.from_json(workflow_id, document))
    except (*_NONSENSE, json_format.Error) as error:
        raise UnreadableHistoryError(f"{path} is not a history: {type(error).__name__}: {str(error)[:500]}") from error


async def replay(
    recorded: Sequence[Recorded],
    workflow_classes: Sequence[type],
    *,
    strict: bool = False,
    converter: DataConverter = CONVERTER,
) -> list[Replayed]:
    """With the data converter of a worker. A run diverges too when its next workflow task raises.

    `strict`: in the SDK's sandbox, which reloads workflows and domain per run.

    There a forbidden call (the clock, a random number) fails in a workflow, in the domain and in the contracts. What
    the SDK passes through by default is not reloaded: the standard library, itself and pydantic.
    """
    runner = ObservedRunner(SandboxedWorkflowRunner() if strict else GuardedRunner())
    replayer = Replayer(
        workflows=workflow_classes,
        data_converter=converter,
        workflow_runner=runner,
        debug_mode=True,  # otherwise a workflow counts as deadlocked on a machine too busy to run it for two seconds
        runtime=Runtime(telemetry=TelemetryConfig(logging=None)),  # what went wrong stands in the result
    )
    begun = [one for one in recorded if one.begun()]
    results: list[Replayed] = []
    async with replayer.workflow_replay_iterator(_histories(begun)) as replays:
        for one in recorded:
            reason = _reason((await anext(replays)).replay_failure) if one.begun() else ""
            reason = reason or runner.failed.get(one.run_id(), "")
            results.append(Replayed(str(one.path), one.workflow, len(one.history.events), reason))
    return results


def _reason(failure: Exception | None) -> str:
    """The engine's core wraps its message into a dump of the whole failure."""
    if failure is None:
        return ""
    inner = re.search(r'message: "((?:[^"\\]|\\.)*)"', str(failure))
    return f"{type(failure).__name__}: {inner[1] if inner else failure}"


async def _histories(recorded: Sequence[Recorded]) -> AsyncIterator[WorkflowHistory]:
    for one in recorded:
        yield one.history


def _show(results: Sequence[Replayed]) -> None:
    console = Console(soft_wrap=True, highlight=False)
    bad = [result for result in results if result.diverged]
    table = Table("history", "workflow", "events", "result", box=None)
    for result in results:
        outcome = "[red]diverged[/red]" if result.diverged else "[green]ok[/green]"
        # A file by its name; a run by its id, which may have a slash in it.
        named = Path(result.history).name if result.history.endswith(SUFFIXES) else result.history
        table.add_row(escape(named), result.workflow, str(result.events), outcome)
    console.print(table, crop=False, no_wrap=True, width=WIDTH)
    for result in bad:
        console.print(f"[red]{escape(result.history)}[/red]: {escape(result.diverged)}")
    console.print(f"{len(results)} histories, {len(bad)} diverged")
