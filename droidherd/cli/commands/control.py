"""`droidherd pause`, `resume`, `cancel`, `answer`, `retry`, `rollback`, `prioritize`: what is asked of one task."""

from typing import Annotated, Any

import typer

from droidherd.cli import output
from droidherd.cli.client import ApiClient, Document, detail_of
from droidherd.cli.commands import tasks
from droidherd.cli.options import TASKS, Data, Json, Reason, TaskId, Url, open_api, signature, without_empty

app = typer.Typer()


def _add(action: str, about: str, epilog: str) -> None:
    """An action that takes nothing but a reason."""

    @app.command(action, help=about, rich_help_panel=TASKS, epilog=epilog)
    def command(task_id: TaskId, reason: Reason = "", data: Data = None, url: Url = "", as_json: Json = False) -> None:
        with open_api(data, url) as api:
            _show(task_id, _request_action(api, task_id, action, reason), as_json=as_json)


_add(
    "pause",
    "Ask a task to stop at its next step boundary and to free its emulator.",
    'Example: droidherd pause TASK --reason "the game is under maintenance"',
)
_add("resume", "Queue a paused task again. Completed stages are not repeated.", "Example: droidherd resume TASK")


@app.command(rich_help_panel=TASKS, epilog="Examples: droidherd cancel TASK   |   droidherd cancel TASK --force")
def cancel(  # noqa: PLR0917 (options of a command)
    task_id: TaskId,
    force: Annotated[
        bool, typer.Option("--force", help="At once: wait for nothing that runs, nor for cleanup.")
    ] = False,
    reason: Reason = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """End a task at its next step boundary, with its cleanup."""
    with open_api(data, url) as api:
        _show(task_id, _request_action(api, task_id, "cancel", reason, force=force), as_json=as_json)


@app.command(rich_help_panel=TASKS, epilog="Example: droidherd answer TASK happened")
def answer(  # noqa: PLR0917 (options of a command)
    task_id: TaskId,
    choice: Annotated[str, typer.Argument(help="One of those that the task offers.", metavar="CHOICE")],
    reason: Reason = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Answer what a task asks a person. `droidherd tasks TASK` shows the question and the choices."""
    with open_api(data, url) as api:
        _show(task_id, _request_action(api, task_id, "answer", reason, choice=choice), as_json=as_json)


_add("retry", "Try a failed or cancelled task again, under its id.", "Example: droidherd retry TASK")


@app.command(rich_help_panel=TASKS, epilog="Examples: droidherd rollback TASK   |   droidherd rollback TASK --force")
def rollback(  # noqa: PLR0917 (options of a command)
    task_id: TaskId,
    force: Annotated[bool, typer.Option("--force", help="Restore also what somebody else changed since.")] = False,
    reason: Reason = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Take back what a task changed, the last change first. One that runs is cancelled before."""
    with open_api(data, url) as api:
        _show(task_id, _request_action(api, task_id, "rollback", reason, force=force), as_json=as_json)


@app.command(rich_help_panel=TASKS, epilog='Example: droidherd prioritize TASK --reason "the event ends tonight"')
def prioritize(  # noqa: PLR0917 (options of a command)
    task_id: TaskId,
    priority: Annotated[int, typer.Option(min=1, max=10, help="As urgent as this at least; 1 is first.")] = 1,
    reason: Reason = "",
    data: Data = None,
    url: Url = "",
    as_json: Json = False,
) -> None:
    """Put a waiting task in front of those who wait for the same and are no more urgent, until it ends."""
    with open_api(data, url) as api:
        detail = detail_of(_request_action(api, task_id, "prioritize", reason, priority=priority))
        _show(task_id, api.get(f"/api/tasks/{task_id}"), as_json=as_json)
    if detail and not as_json:
        output.out.print(detail, markup=False)


def _request_action(api: ApiClient, task_id: str, action: str, reason: str, **more: Any) -> Document:
    return api.post(f"/api/tasks/{task_id}/{action}", {**signature(reason), **without_empty(more)})


def _show(task_id: str, task: Document, *, as_json: bool) -> None:
    if as_json:
        output.emit(task)
    else:
        output.out.print(tasks.table([{"task_id": task_id, **task}]))
