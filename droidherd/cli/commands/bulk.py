"""`droidherd task bulk`: one action on all tasks that match a filter."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from droidherd.cli import output
from droidherd.cli.client import ApiClient, Document, rows_of
from droidherd.cli.errors import CliError
from droidherd.cli.options import ApiOptions, FilterOptions, Reason, signature, with_options

LISTED = 1_000
"""How many a dry run names at a time."""
PORTION = 50
"""How many are done at a time: few enough that one sees it go on."""

app = typer.Typer()


class BulkAction(StrEnum):
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    RETRY = "retry"
    PRIORITIZE = "prioritize"


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """The action, the filters, and who asks."""

    action: str
    filters: Document
    signature: Document


@app.command(
    epilog="Examples: droidherd task bulk cancel --type check --label team=ops --dry-run   |   "
    'droidherd task bulk retry --state failed --reason "the server is back"   |   '
    "droidherd task bulk pause --account a42",
)
@with_options
def bulk(
    action: Annotated[BulkAction, typer.Argument(help="What to do with each.")],
    *,
    filters: FilterOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which tasks they are.")] = False,
    reason: Reason = "",
    api_options: ApiOptions,
) -> None:
    """Cancel, pause, resume, retry or prioritize all tasks that fit. Exit code 1 if some could not.

    Every filter must fit, and one must be named. `retry` means those that failed, or that ended in the states you
    name; the others mean tasks that have not ended.
    """
    query = filters.query()
    if not query:
        remedy = "name --state, --type, --account, --label, --lane, --pool, --emulator or --subscription"
        raise CliError("no filter: this would be about every task there is", remedy=remedy, code=2)
    request = BulkRequest(action, query, signature(reason))
    with api_options.open() as api:
        chosen = [name for page in portions(api, request, LISTED, dry_run=True) for name in page["tasks"]]
        if not chosen:
            filters.warn(api)
        found = (
            _sum_pages(request, [{"tasks": chosen}], dry_run=True)
            if dry_run
            else _run_request(api, request, chosen, api_options.as_json)
        )
    if api_options.as_json:
        output.emit(found)
    else:
        _show(found)
    if found["refused"]:
        raise typer.Exit(1)


def portions(api: ApiClient, request: BulkRequest, limit: int, *, dry_run: bool = False) -> Iterator[Document]:
    """Portion by portion, until nobody is left."""
    cursor, more = "", True
    while more:
        query: Document = {**request.filters, "limit": limit, "cursor": cursor, "dry_run": "true" if dry_run else ""}
        page = api.post(f"/api/bulk/{request.action}", request.signature, **query)
        yield page
        cursor = str(page.get("cursor") or "")
        more = bool(cursor)


def _run_request(api: ApiClient, request: BulkRequest, chosen: list[str], as_json: bool) -> Document:
    pages: list[Document] = []
    with _progress(request.action, len(chosen), shown=not as_json and len(chosen) > PORTION) as advance:
        for page in portions(api, request, PORTION) if chosen else ():
            pages.append(page)
            advance(len(page["tasks"]) + len(page["refused"]))
    return _sum_pages(request, pages, dry_run=False)


@contextmanager
def _progress(what: str, total: int, *, shown: bool) -> Generator[Callable[[int], None]]:
    """A bar for people at a terminal, when there is something to wait for."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=output.err, disable=not (shown and output.err.is_terminal)) as progress:
        bar = progress.add_task(what, total=total)

        def advance(count: int) -> None:
            progress.advance(bar, count)

        yield advance


def _sum_pages(request: BulkRequest, pages: list[Document], *, dry_run: bool) -> Document:
    done = [name for page in pages for name in page["tasks"]]
    refused = [one for page in pages for one in rows_of(page, "refused")]
    return {"action": request.action, "dry_run": dry_run, "tasks": done, "refused": refused}


def _show(found: Document) -> None:
    names, refused = found["tasks"], rows_of(found, "refused")
    if found["dry_run"]:
        for name in names:
            output.out.print(name, markup=False)
        output.out.print(f"{found['action']} would be asked of {_tasks(len(names))}", markup=False)
        return
    if refused:
        rows = [[str(one.get("task_id")), str(one.get("why"))] for one in refused]
        output.out.print(output.table(["task", "why not"], rows))
    left = f"; {len(refused)} could not" if refused else ""
    output.out.print(f"{found['action']}: {_tasks(len(names))}{left}", markup=False)


def _tasks(count: int) -> str:
    return {0: "no task", 1: "1 task"}.get(count, f"{count} tasks")
