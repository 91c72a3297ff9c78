"""`droidherd task pause`, `resume`, `cancel`, `answer`, `retry`, `rollback`, `prioritize`."""

from typing import Annotated, Any

import typer

from droidherd.cli import output
from droidherd.cli.client import ApiClient, Document, detail_of
from droidherd.cli.commands import tasks
from droidherd.cli.options import ApiOptions, Reason, TaskId, signature, with_options, without_empty

app = typer.Typer()


def _add(action: str, about: str, epilog: str) -> None:
    """An action that takes nothing but a reason."""

    @app.command(action, help=about, epilog=epilog)
    @with_options
    def command(task_id: TaskId, reason: Reason = "", *, api_options: ApiOptions) -> None:
        with api_options.open() as api:
            _show(task_id, _request_action(api, task_id, action, reason), api_options)


_add(
    "pause",
    "Ask a task to stop at its next step boundary and to free its emulator.",
    'Example: droidherd task pause TASK --reason "the game is under maintenance"',
)
_add("resume", "Queue a paused task again. Completed stages are not repeated.", "Example: droidherd task resume TASK")


@app.command(epilog="Examples: droidherd task cancel TASK   |   droidherd task cancel TASK --force")
@with_options
def cancel(
    task_id: TaskId,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="At once: wait for nothing that runs, nor for cleanup.")
    ] = False,
    reason: Reason = "",
    api_options: ApiOptions,
) -> None:
    """End a task at its next step boundary, with its cleanup."""
    with api_options.open() as api:
        _show(task_id, _request_action(api, task_id, "cancel", reason, force=force), api_options)


@app.command(
    epilog="Examples: droidherd task answer TASK happened   |   droidherd task answer TASK solved --question 2"
)
@with_options
def answer(
    task_id: TaskId,
    choice: Annotated[str, typer.Argument(help="One of those that the task offers.", metavar="CHOICE")],
    *,
    question: Annotated[int, typer.Option(min=0, help="Its number. 0: the one that is open.")] = 0,
    reason: Reason = "",
    api_options: ApiOptions,
) -> None:
    """Answer what a task asks a person. `droidherd task show TASK` shows the question and the choices."""
    with api_options.open() as api:
        _show(task_id, _request_action(api, task_id, "answer", reason, choice=choice, question=question), api_options)


_add("retry", "Try a failed or cancelled task again, under its id.", "Example: droidherd task retry TASK")


@app.command(epilog="Examples: droidherd task rollback TASK   |   droidherd task rollback TASK --force")
@with_options
def rollback(
    task_id: TaskId,
    *,
    force: Annotated[bool, typer.Option("--force", help="Restore also what somebody else changed since.")] = False,
    reason: Reason = "",
    api_options: ApiOptions,
) -> None:
    """Take back what a task changed, the last change first. One that runs is cancelled before."""
    with api_options.open() as api:
        _show(task_id, _request_action(api, task_id, "rollback", reason, force=force), api_options)


@app.command(epilog='Example: droidherd task prioritize TASK --reason "the event ends tonight"')
@with_options
def prioritize(
    task_id: TaskId,
    *,
    priority: Annotated[int, typer.Option(min=1, max=10, help="As urgent as this at least; 1 is first.")] = 1,
    reason: Reason = "",
    api_options: ApiOptions,
) -> None:
    """Put a waiting task in front of those who wait for the same and are no more urgent, until it ends."""
    with api_options.open() as api:
        detail = detail_of(_request_action(api, task_id, "prioritize", reason, priority=priority))
        _show(task_id, api.get(f"/api/tasks/{task_id}"), api_options)
    if detail and not api_options.as_json:
        output.out.print(detail, markup=False)


def _request_action(api: ApiClient, task_id: str, action: str, reason: str, **more: Any) -> Document:
    return api.post(f"/api/tasks/{task_id}/{action}", {**signature(reason), **without_empty(more)})


def _show(task_id: str, task: Document, api_options: ApiOptions) -> None:
    api_options.show(task, tasks.table([{"id": task_id, **task}]))
