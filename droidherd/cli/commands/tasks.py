"""Tasks in the words of the command: how one is described, waited for and shown in a list."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeVar

from rich.console import Group, RenderableType
from rich.live import Live

from droidherd.cli import output
from droidherd.cli.client import NOT_UP, ApiClient, ApiRefusedError, Document, rows_of
from droidherd.cli.errors import CliError
from droidherd.cli.options import without_empty

POLL_S = 0.5
AWAY_S = 60.0
AWAY = frozenset({429, 503})
Answer = TypeVar("Answer")
FINAL = frozenset({"completed", "failed", "cancelled", "rejected", "rollback_completed", "rollback_failed"})
COLUMNS = ("task", "type", "account", "state", "emulator", "attempt", "why")
INTENTS = {"pause": "pausing", "cancel": "cancelling", "force": "cancelling"}
"""What a task is asked for and has not done yet, beside its state."""


def task_document(kind: str, **options: Any) -> dict[str, Any]:
    """A task as a submission describes it, from the options of a command: only those that were given.

    `--params` first, each `--param` over it; of `--policy`, what comes later counts.
    """
    policy: dict[str, Any] = {}
    for change in options.pop("policy") or ():
        policy |= change
    read = {
        "params": {**(options.pop("params") or {}), **dict(options.pop("param") or ())},
        "policy": policy,
        "labels": dict(options.pop("label") or ()),
    }
    return without_empty({"type": kind, **options, **read})


def submit(api: ApiClient, body: Mapping[str, Any], *, key: str = "") -> Document:
    return api.post("/api/tasks", body, headers={"Idempotency-Key": key} if key else None)


def is_final(task: Document) -> bool:
    return str(task.get("state", "")) in FINAL


def wait_for(api: ApiClient, task_id: str, *, seconds: float) -> Document:
    """The task, once it ended or the time is up."""
    until = time.monotonic() + seconds
    while True:
        left = max(0.0, min(30.0, until - time.monotonic()))
        wait = f"{left:.0f}s" if left >= 1 else ""
        task = patiently(lambda wait=wait: api.get(f"/api/tasks/{task_id}", wait=wait))
        if is_final(task) or time.monotonic() >= until:
            return task
        time.sleep(POLL_S)


def patiently(ask: Callable[[], Answer], *, seconds: float = AWAY_S) -> Answer:
    """Ask again while the API or Temporal is away: who watches wants to see how it goes on."""
    until = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except CliError as error:
            away = error.status in AWAY if isinstance(error, ApiRefusedError) else error.code == NOT_UP
            if not away or time.monotonic() >= until:
                raise
            time.sleep(POLL_S)


def watch(
    api: ApiClient, ids: Sequence[str], *, as_json: bool, until: Callable[[], bool] = lambda: False
) -> list[Document]:
    """Live until every named task has ended; without names until interrupted. Returns what was seen last."""
    seen: dict[str, str] = {}
    with Live(console=output.out, refresh_per_second=4, transient=False) if not as_json else _Quiet() as live:
        while True:
            found = patiently(lambda: _look(api, ids))
            if as_json:
                _emit_changes(found, seen)
            else:
                live.update(patiently(partial(_view, api, found)))
            if (ids and all(is_final(one) for one in found)) or until():
                return found
            time.sleep(POLL_S)


def table(tasks: Sequence[Document]) -> RenderableType:
    return output.table(COLUMNS, [row(one) for one in tasks])


def lanes(found: Sequence[Document]) -> RenderableType:
    columns = ["lane", "waiting", "running", "capacity", "order", "paused by", "why"]
    keys = ("name", "waiting", "running", "capacity", "order", "paused_by", "paused_why")
    return output.table(columns, [[str(one.get(key, "")) for key in keys] for one in found])


def id_of(task: Document) -> str:
    return str(task.get("id") or task.get("task_id") or "")


def row(task: Document) -> list[str]:
    error, why = task.get("error"), task.get("why")
    failed = error.get("message") if isinstance(error, dict) else None
    # Of a task that waits in line again, what it waits for is news, and how an earlier attempt ended is not.
    # A cancelled task says who cancelled it, whatever its last attempt met.
    why = failed or why if is_final(task) and task.get("state") != "cancelled" else why or failed
    state = str(task.get("state") or "")
    if intent := task.get("intent"):
        state = f"{state}, {INTENTS.get(str(intent), intent)}"
    if task.get("retry_at") and not is_final(task):
        why = f"next attempt at {output.clock(task['retry_at'])}{f': {failed}' if failed else ''}"
    # Of a task that ended, where it ran last is what one looks for. Any other is on the emulator that it holds.
    last = next((one.get("emulator") for one in reversed(rows_of(task, "attempts"))), "") if is_final(task) else ""
    emulator = task.get("emulator") or last
    values = (id_of(task), task.get("type"), task.get("account"), state, emulator)
    return [*[str(value or "") for value in values], str(task.get("attempt", "")), str(why or "")]


class _Quiet:
    """Stands where a live display would."""

    def update(self, _: RenderableType) -> None:
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


def _look(api: ApiClient, ids: Sequence[str]) -> list[Document]:
    if ids:
        return [api.get(f"/api/tasks/{one}") for one in ids]
    return list(api.pages("/api/tasks", "tasks", limit=30))


def _emit_changes(tasks: Sequence[Document], seen: dict[str, str]) -> None:
    for task in tasks:
        state = json.dumps([task.get(name) for name in ("state", "intent", "attempt", "emulator")])
        if seen.get(id_of(task)) != state:
            seen[id_of(task)] = state
            output.emit_line(task)


def _view(api: ApiClient, tasks: Sequence[Document]) -> RenderableType:
    queue = api.get("/api/queue", limit=1)
    line = f"waiting {queue.get('waiting', '?')}   running {queue.get('running', '?')}   free {queue.get('free', '?')}"
    paused = [
        f"{one.get('name')} paused by {one['paused_by']}" for one in rows_of(queue, "lanes") if one.get("paused_by")
    ]
    return Group("   ".join([line, *paused]), "", table(tasks))
