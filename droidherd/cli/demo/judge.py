"""Did every task of the demo end as it should, and for the reason it should? Each complaint is a sentence."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from droidherd.cli.client import ApiClient, Document, rows_of
from droidherd.cli.demo import script
from droidherd.cli.demo.script import DemoRun, DemoTaskRun

PNG = b"\x89PNG\r\n\x1a\n"


def complaints(demo: DemoRun, api: ApiClient) -> dict[str, list[str]]:
    """By task of the demo; an empty list is good."""
    return {name: list(_judge(demo, run, api)) for name, run in demo.runs.items()}


def _judge(demo: DemoRun, run: DemoTaskRun, api: ApiClient) -> Iterator[str]:
    task = run.task
    if run.state != task.expected:
        yield f"ended as {run.state or 'nothing'}, not {task.expected}"
        return
    if task.attempts and run.view.get("attempt") != task.attempts:
        yield f"took {run.view.get('attempt')} attempts, not {task.attempts}"
    if task.pictures:
        yield from _pictures(run, api)
    own = _OWN.get(task.name)
    if own is not None:
        yield from own(demo, run, api)


def _pictures(run: DemoTaskRun, api: ApiClient) -> Iterator[str]:
    """They are there, they come over HTTP, and they are pictures."""
    base = f"/api/tasks/{run.task_id}/artifacts"
    names = [str(one["name"]) for one in rows_of(api.get(base), "artifacts")]
    pictures = [name for name in names if name.endswith(".png")]
    if len(pictures) < run.task.pictures:
        yield f"left {len(pictures)} pictures, not {run.task.pictures}"
    for name in pictures:
        if not api.file(f"{base}/{name}").startswith(PNG):
            yield f"{name} is not a PNG"


def _tried_again(_demo: DemoRun, run: DemoTaskRun, _api: ApiClient) -> Iterator[str]:
    outcomes = {int(one["n"]): one.get("outcome") for one in rows_of(run.view, "attempts")}
    if outcomes != {1: "failed", 2: "completed"}:
        yield f"its attempts ended as {outcomes}"


def _judge_refused(demo: DemoRun, run: DemoTaskRun, _api: ApiClient) -> Iterator[str]:
    holder = demo.runs[script.DAVE].task_id
    if run.status != 409 or run.refusal.get("holder") != holder:  # noqa: PLR2004 - Conflict
        yield f"was answered {run.status} naming {run.refusal.get('holder')}, not 409 naming {holder}"


def _judge_paused(_demo: DemoRun, run: DemoTaskRun, api: ApiClient) -> Iterator[str]:
    asked = [one["event"] for one in _audit(run, api) if one.get("actor") == script.ACTOR]
    if asked != ["created", "paused", "resumed"]:
        yield f"its audit says {asked} was asked, not a submission, a pause and a resume"
    outcomes = [one.get("outcome") for one in rows_of(run.view, "attempts")]
    if outcomes[:1] != ["paused"] or outcomes[-1:] != ["completed"]:
        yield f"its attempts ended as {outcomes}"


def _judge_cancelled(_demo: DemoRun, run: DemoTaskRun, api: ApiClient) -> Iterator[str]:
    last = _audit(run, api)[-1]
    if (last.get("event"), last.get("actor")) != ("cancelled", script.ACTOR):
        yield f"its audit ends with {last.get('event')} by {last.get('actor')}"
    if not _start_times(run):
        yield "never ran"


def _judge_failed(_demo: DemoRun, run: DemoTaskRun, _api: ApiClient) -> Iterator[str]:
    error = run.view.get("error") or {}
    if error.get("kind") != "ScreenNotReachedError":
        yield f"failed with {error.get('kind')}: {error.get('message')}"


def _later(_demo: DemoRun, run: DemoTaskRun, _api: ApiClient) -> Iterator[str]:
    started = _start_times(run)
    if not started or started[0] < datetime.fromisoformat(str(run.task.body["not_before"])):
        yield f"started at {started[:1]}, before its time"


def _after_sign_in(demo: DemoRun, run: DemoTaskRun, _api: ApiClient) -> Iterator[str]:
    """One account is never on two emulators: the second task of carol began after the first had ended."""
    ended = rows_of(demo.runs[script.CAROL].view, "attempts")[-1:]
    started = _start_times(run)
    if not ended or not started or started[0] < datetime.fromisoformat(str(ended[0].get("ended"))):
        yield "ran while another task of its account did"


def _in_line(demo: DemoRun, run: DemoTaskRun, _api: ApiClient) -> Iterator[str]:
    """Tokens only grow, so they tell the order of the grants."""
    tokens = [_token(demo.runs[script.FIRST_TAP]), _token(run)]
    if tokens != sorted(tokens):
        yield "overtook the task before it"


_OWN: Mapping[str, Callable[[DemoRun, DemoTaskRun, ApiClient], Iterator[str]]] = {
    script.SECOND_LOOK: _tried_again,
    script.DAVE_AGAIN: _judge_refused,
    script.DAVE: _judge_paused,
    script.ERIN: _judge_cancelled,
    script.GOLDEN: _judge_failed,
    script.LATER: _later,
    script.CAROL_AGAIN: _after_sign_in,
    script.SECOND_TAP: _in_line,
}


def _audit(run: DemoTaskRun, api: ApiClient) -> list[Document]:
    return rows_of(api.get(f"/api/tasks/{run.task_id}/events"), "events")


def _start_times(run: DemoTaskRun) -> list[datetime]:
    found = [one.get("started") for one in rows_of(run.view, "attempts")]
    return [datetime.fromisoformat(str(one)) for one in found if one]


def _token(run: DemoTaskRun) -> int:
    return next((int(one.get("token") or 0) for one in rows_of(run.view, "attempts")), 0)
