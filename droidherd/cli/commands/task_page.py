"""One task, whole: what is read of it, and how it is shown to people."""

from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from rich.console import Group, RenderableType
from rich.markup import escape

from droidherd.cli import output
from droidherd.cli.client import ApiClient, ApiRefusedError, Document, rows_of
from droidherd.cli.commands import tasks

PAGE = ".evidence.html"
EVENTS_SHOWN = 20
ARTIFACTS_SHOWN = 20
INTENTS = {"pause": "a pause", "cancel": "a cancel", "force": "a cancel with --force"}


def read(api: ApiClient, task_id: str) -> Document:
    """The task with its events, its artifacts and the addresses of its evidence pages."""
    task = api.get(f"/api/tasks/{task_id}")
    events = rows_of(api.get(f"/api/tasks/{task_id}/events"), "events")
    artifacts, unreadable = _artifacts(api, task_id)
    pages = [_address(api, task_id, name) for name in _pages(artifacts)]
    found = {**task, "events": events, "artifacts": artifacts, "evidence": pages}
    return {**found, "artifacts_unreadable": unreadable} if unreadable else found


def evidence(api: ApiClient, task: Document) -> tuple[str, ...]:
    """The addresses of the pages that its failed stages left, the last one first."""
    task_id = tasks.id_of(task)
    return tuple(_address(api, task_id, name) for name in reversed(_pages(_artifacts(api, task_id)[0])))


def tell_end(task: Document, pages: Sequence[str]) -> None:
    """What somebody who waited for it does next."""
    if tasks.is_final(task):
        if pages:
            output.err.print(f"evidence: {pages[0]}", markup=False)
        if task.get("state") != "completed":
            output.err.print(f"more: droidherd task show {tasks.id_of(task)}", markup=False)
    else:
        output.err.print(f"it goes on; watch it: droidherd task watch {tasks.id_of(task)}", markup=False)


def page(task: Document, url: str) -> RenderableType:
    """Everything that `droidherd task show` says, from the most to the least urgent."""
    parts: list[RenderableType] = [tasks.table([task])]
    parts += ["", output.pairs(_about(task))]
    for title, part in _sections(task, url):
        parts += ["", output.heading(title), part]
    return Group(*parts)


def _sections(task: Document, url: str) -> Iterator[tuple[str, RenderableType]]:
    if question := task.get("question"):
        yield "question", output.pairs(_question(task, question, url))
    if error := task.get("error"):
        names = {"what": error.get("message"), "kind": error.get("kind"), "do": error.get("remedy")}
        yield "error", output.pairs(names)
    if stages := rows_of(task, "stages"):
        rows = [[str(one.get(name) or "") for name in ("name", "state", "emulator")] for one in stages]
        yield "stages", output.table(["stage", "state", "emulator"], rows)
    if attempts := rows_of(task, "attempts"):
        columns = ["attempt", "emulator", "host", "token", "started", "took", "outcome", "why"]
        yield "attempts", output.table(columns, [_attempt(one) for one in attempts])
    events = rows_of(task, "events")
    if events:
        rows = [_event(one) for one in events[-EVENTS_SHOWN:]]
        yield _first(len(events), "events", EVENTS_SHOWN), output.table(["at", "event", "state", "by", "why"], rows)
    artifacts = rows_of(task, "artifacts")
    if artifacts:
        rows = [[str(one.get("name")), output.size(one.get("size") or 0), str(one.get("content_type") or "")]
                for one in artifacts[-ARTIFACTS_SHOWN:]]  # fmt: skip
        yield _first(len(artifacts), "artifacts", ARTIFACTS_SHOWN), output.table(["artifact", "size", "type"], rows)
    if pages := task.get("evidence"):
        yield "evidence (opens in a browser)", "\n".join(escape(str(one)) for one in pages)


def _about(task: Document) -> dict[str, Any]:
    intent = str(task.get("intent") or "")
    lane = "/".join(str(one) for one in (task.get("pool"), task.get("lane")) if one)
    labels = " ".join(f"{name}={value}" for name, value in (task.get("labels") or {}).items())
    params = " ".join(f"{name}={value}" for name, value in (task.get("params") or {}).items())
    chain: Document = task.get("chain") or {}
    place = f"{chain.get('place')} of chain {chain.get('head')}" if chain else ""
    return {
        "asked for": f"{INTENTS.get(intent, intent)}, at its next step boundary" if intent else "",
        "next try": output.clock(task.get("retry_at")),
        "why" if tasks.is_final(task) else "waits": task.get("why"),
        "parameters": params,
        "labels": labels,
        "lane": f"{lane}, priority {task.get('priority')}" if lane else "",
        "position": task.get("position") or "",
        "created": output.moment(task.get("created_at")),
        "ended": output.moment(task.get("ended_at")),
        "not before": output.moment(task.get("not_before")),
        "expires": output.moment(task.get("expires_at")),
        "flow": " ".join(str(task.get(name) or "") for name in ("flow", "flow_hash")).strip(),
        "chain": place,
        "followed by": task.get("following") or task.get("chain_ends"),
        "files": task.get("artifacts_unreadable"),
        "stale": "no worker answers; this was stored last" if task.get("stale") else "",
    }


def _question(task: Document, question: Document, url: str) -> dict[str, Any]:
    choices = [str(one) for one in question.get("choices") or ()]
    # With its number: an answer that comes when this question is no longer open is refused.
    number = f" --question {question['number']}" if question.get("number") else ""
    answers = [f"droidherd task answer {tasks.id_of(task)} {output.quoted(one)}{number}" for one in choices]
    frame = question.get("frame_url")
    return {
        "number": question.get("number") or "",
        "asks": question.get("text"),
        "until": output.moment(question.get("until")),
        "screen": f"{url}{frame}" if frame else "",
        "answer": "\n".join(answers),
    }


def _attempt(one: Document) -> list[str]:
    error: Document = one.get("error") or {}
    cells = [one.get("n"), one.get("emulator"), one.get("host"), one.get("token"), output.moment(one.get("started"))]
    took = output.span(one.get("started"), one.get("ended"))
    return [
        *[str(cell or "") for cell in cells],
        took,
        str(one.get("outcome") or "runs"),
        str(error.get("message") or ""),
    ]


def _event(one: Document) -> list[str]:
    change = " → ".join(str(one[name]) for name in ("before", "after") if one.get(name))
    state = str(one.get("after")) if one.get("before") == one.get("after") else change
    cells = (output.moment(one.get("at")), one.get("event"), state, one.get("actor"), one.get("reason"))
    return [str(cell or "") for cell in cells]


def _first(count: int, what: str, shown: int) -> str:
    return f"{what} (the last {shown} of {count}; --json has all)" if count > shown else what


def _artifacts(api: ApiClient, task_id: str) -> tuple[list[Document], str]:
    """What there is, or why that cannot be read: the rest of a task is shown all the same."""
    try:
        return rows_of(api.get(f"/api/tasks/{task_id}/artifacts"), "artifacts"), ""
    except ApiRefusedError as error:
        return [], error.what


def _pages(artifacts: Sequence[Document]) -> list[str]:
    return [str(one.get("name")) for one in artifacts if str(one.get("name")).endswith(PAGE)]


def _address(api: ApiClient, task_id: str, name: str) -> str:
    return f"{api.url}/api/tasks/{quote(task_id, safe='')}/artifacts/{quote(name)}"
