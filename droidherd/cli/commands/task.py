"""`droidherd task submit`, `list`, `show`, `log`, `watch`, `types`: tasks are submitted and looked at."""

import getpass
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from droidherd.cli import junit, output, values
from droidherd.cli.client import ApiClient, Document, rows_of
from droidherd.cli.commands import task_page
from droidherd.cli.commands import tasks as tasking
from droidherd.cli.errors import CliError
from droidherd.cli.options import (
    ApiOptions,
    FilterOptions,
    Limit,
    Report,
    TaskId,
    TaskOptions,
    Wait,
    with_options,
)
from droidherd.contracts.tasks import Origin

app = typer.Typer()

NotBefore = Annotated[
    str | None, typer.Option(help="ISO time before which it does not start.", metavar="TIME", parser=values.moment)
]
ExpiresAt = Annotated[
    str | None, typer.Option(help="ISO time after which it does not start.", metavar="TIME", parser=values.moment)
]
Then = Annotated[
    list[Any] | None,
    typer.Option(help="A task that follows it: a type, or a JSON object.", metavar="TYPE|JSON", parser=values.link),
]


@app.command(
    epilog="Examples: droidherd task submit check --account a42 --wait 60s   |   "
    "droidherd task submit scan --then check   |   "
    "droidherd task submit scan --id night-1 --policy retries=0 --wait 5m --junit scan.xml",
)
@with_options
def submit(
    kind: Annotated[str, typer.Argument(help="Task type.", metavar="TYPE")],
    *,
    task_id: Annotated[str, typer.Option("--id", help="Your own id. Default: a new one.")] = "",
    task: TaskOptions,
    origin: Annotated[
        Origin | None, typer.Option(help="Where it comes from. Sets the priority if none is given.")
    ] = None,
    not_before: NotBefore = None,
    expires_at: ExpiresAt = None,
    then: Then = None,
    critical: Annotated[bool, typer.Option("--critical", help="When it fails, nothing follows.")] = False,
    idempotency_key: Annotated[str, typer.Option(help="A second submission with this key submits nothing.")] = "",
    wait: Wait = None,
    report: Report = None,
    api_options: ApiOptions,
) -> None:
    """Submit one task. With --wait: exit code 0 only if it completed."""
    if report and wait is None:
        raise CliError("--junit says how the task ended", remedy="add --wait, for example --wait 5m", code=2)
    body = tasking.task_document(
        kind,
        id=task_id,
        **asdict(task),
        origin=origin,
        not_before=not_before,
        expires_at=expires_at,
        then=then,
        critical=critical,
        actor=getpass.getuser(),
    )
    with api_options.open() as api:
        found = tasking.submit(api, body, key=idempotency_key)
        if wait is not None:
            found = tasking.wait_for(api, str(found["id"]), seconds=wait)
        pages = task_page.evidence(api, found) if wait is not None and found.get("state") != "completed" else ()
        if report:
            junit.write(report, kind, [junit.case_of_task(found, pages)])
    api_options.show(found, tasking.table([{"type": kind, "account": task.account, **found}]))
    if wait is not None and not api_options.as_json:
        task_page.tell_end(found, pages)
    if wait is not None and found.get("state") != "completed":
        raise typer.Exit(1)


@app.command(
    "list",
    epilog="Examples: droidherd task list --state failed -n 10   |   droidherd task list --emulator phone-1   |   "
    "droidherd task list --account a42 --label team=ops --json",
)
@with_options
def list_(filters: FilterOptions, limit: Limit = 50, *, api_options: ApiOptions) -> None:
    """List tasks, running ones first, then the newest."""
    with api_options.open() as api:
        found = list(api.pages("/api/tasks", "tasks", limit=limit, **filters.query()))
        if not found:
            filters.warn(api)
    api_options.show({"tasks": found}, tasking.table(found))


@app.command(epilog="Examples: droidherd task show TASK   |   droidherd task show TASK --json | jq .events")
@with_options
def show(task_id: TaskId, api_options: ApiOptions) -> None:
    """Show one task whole: state, stages, attempts, events, artifacts, evidence, and what it asks."""
    with api_options.open() as api:
        found = task_page.read(api, task_id)
        text = task_page.page(found, api.url)
    api_options.show(found, text)


@app.command(
    epilog="Examples: droidherd task log TASK   |   droidherd task log TASK -f   |   droidherd task log TASK -n 20"
)
@with_options
def log(
    task_id: TaskId,
    *,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the task ends.")] = False,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, max=1_000_000, help="Only so many of the last lines. 0: all.")
    ] = 0,
    api_options: ApiOptions,
) -> None:
    """Show what happened to a task, and what its attempts noted, by time. With --json: one JSON object per line."""
    with api_options.open() as api:
        for text in follow_log(api, task_id, lines=lines, follow=follow, as_json=api_options.as_json):
            output.plain(text)


def follow_log(api: ApiClient, task_id: str, *, lines: int, follow: bool, as_json: bool) -> Iterator[str]:
    """The lines there are; then each new one, until the task has ended and nothing more can come.

    What an attempt noted comes when it is stored, which may be behind an event that followed it.
    """
    accept = "application/x-ndjson" if as_json else "text/plain"
    seen: Counter[str] = Counter()
    while True:
        # Asked before the log is read: what an ended task wrote is all there.
        over = not follow or tasking.is_final(tasking.patiently(lambda: api.get(f"/api/tasks/{task_id}")))
        whole = tasking.patiently(lambda: api.text(f"/api/tasks/{task_id}/log", accept)).splitlines()
        first, known = not seen, Counter(seen)
        seen = Counter(whole)
        if first:
            yield from whole[-lines:] if lines else whole
        else:
            yield from (line for line in whole if _is_new(line, known))
        if over:
            return
        time.sleep(tasking.POLL_S)


def _is_new(line: str, known: Counter[str]) -> bool:
    """Whether this line is there once more than before."""
    known[line] -= 1
    return known[line] < 0


@app.command(epilog="Examples: droidherd task watch   |   droidherd task watch TASK --json")
@with_options
def watch(
    task_ids: Annotated[list[str] | None, typer.Argument(help="Default: everything.", metavar="[TASK]...")] = None,
    *,
    api_options: ApiOptions,
) -> None:
    """Watch tasks live, until those that are named have ended. Exit code 0 only if they all completed."""
    with api_options.open() as api:
        found = tasking.watch(api, task_ids or (), as_json=api_options.as_json)
    if any(one.get("state") != "completed" for one in found):
        raise typer.Exit(1)


@app.command(epilog="Examples: droidherd task types   |   droidherd task types --json")
@with_options
def types(api_options: ApiOptions) -> None:
    """List the task types that can be submitted, with their parameters."""
    with api_options.open() as api:
        found = rows_of(api.get("/api/task-types"), "task_types")
    rows = [[str(one.get("name")), _params(one), str(one.get("problem") or one.get("about") or "")] for one in found]
    api_options.show({"task_types": found}, output.table(["type", "parameters", "about"], rows))


def _params(kind: Document) -> str:
    """`who*` must be given."""
    params: dict[str, Document] = kind.get("params") or {}
    return " ".join(f"{name}*" if one.get("required") else name for name, one in params.items())
