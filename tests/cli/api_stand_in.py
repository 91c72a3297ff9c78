"""Speaks the documented shapes of the HTTP API, so that the command can be tested without the rest of the instance."""

import json
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

Document = dict[str, Any]
TIMES: Document = {"count": 4, "mean_s": 1.5, "p50_s": 1.4, "p95_s": 2.0}
COUNTS: Document = {"count": 4, "completed": 2, "failed": 1, "retries": 1, "cancelled": 0, "success_rate": 0.667}
STATS: Document = {
    "pool": "default",
    "total": {**COUNTS, "type": "", "run": TIMES, "wait": TIMES},
    "types": [{**COUNTS, "type": "scan", "run": TIMES, "wait": {"count": 0, "mean_s": None}}],
}
PAUSED: Document = {"id": 12, "at": "2026-03-01T10:00:00Z", "action": "lane_paused", "actor": "ann for ben"}
BROKEN: Document = {"id": 7, "at": "2026-03-01T09:00:00Z", "action": "mutex_broken", "actor": "system:mutex_hold"}
AUDIT: dict[str, Document] = {
    "": {"entries": [{**PAUSED, "reason": "night", "lane": "account"}], "cursor": "12"},
    "12": {"entries": [{**BROKEN, "task": "t1", "detail": "shop"}], "cursor": ""},
}


RECORD: Document = {"emulator": "", "credentials": {}, "note": ""}
ACCOUNT: Document = {"account": "", "state": "idle", "record": None, "disabled": None}


class ApiState:
    """What the stand-in remembers and was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Document, dict[str, str]]] = []
        self.tasks: list[Document] = []
        self.emulators: list[Document] = []
        self.accounts: dict[str, Document] = {}
        self.key = ""
        self.sick = False
        self.refuse_next = 0
        self.slow = False
        self.parts: dict[str, str] = {}
        self.troubles: list[str] = []
        self.files: dict[str, list[Document]] = {}
        """The events and artifacts of every task."""
        self.logs: list[list[str]] = [[]]
        """What the log of a task is, one time after the other."""
        self.detail = ""
        """What is said to an order beside yes."""

    def answer(self, method: str, path: str, query: dict[str, str], body: Document) -> tuple[int, Document]:
        parts = path.strip("/").split("/")
        found = self._read(parts, query) if method == "GET" else self._change(parts, body)
        return found or (404, problem("not found", f"no {path}"))

    def _read(self, parts: list[str], query: dict[str, str]) -> tuple[int, Document] | None:
        lane = {"name": "account", "waiting": 1, "running": 1, "capacity": 9, "paused_by": "ann"}
        pool = query.get("pool", "default")
        plain: dict[str, Document] = {
            "emulators": {"emulators": [one for one in self.emulators if one.get("pool", pool) == pool]},
            "queue": {"waiting": 1, "running": 2, "free": 3, "lanes": [lane]},
            "stats": STATS,
            "task-types": {"task_types": [{"name": "scan"}, {"name": "check"}]},
            "audit": AUDIT[query.get("cursor", "") if parts[-1] == "audit" else ""],
        }
        match parts:
            case ["readyz" | "healthz"]:
                return self._health()
            case ["api", "accounts", *name]:
                return 200, self._accounts(query) if not name else self.accounts.get(name[0], ACCOUNT)
            case ["api", "tasks", *name]:
                return self._tasks(name, query)
            case ["api", name] if name in plain:
                return 200, plain[name]
            case ["api", "emulators", name]:
                return next(((200, one) for one in self.emulators if name == one["id"]), None)
            case _:
                return None

    def _change(self, parts: list[str], body: Document) -> tuple[int, Document] | None:
        states = {"pause": "paused", "resume": "pending", "cancel": "cancelled"}
        match parts:
            case ["api", "accounts", name, *action]:
                return self._account(name, action, body)
            case (
                ["api", "queue", "pause" | "resume" | "capacity" | "order" | "lanes", *_]
                | [*_, "prioritize"]
                | ["api", "emulators", _, _]
            ):
                return 200, {"done": True, "detail": self.detail}
            case ["api", "maintenance", "cleanup"]:
                return self._cleanup(body)
            case ["api", "tasks"]:
                return self._submit(body)
            case ["api", "tasks", name, action] if action in states:
                return 200, {"task_id": name, "state": states[action]}
            case _:
                return None

    def _tasks(self, name: list[str], query: dict[str, str]) -> tuple[int, Document] | None:
        match name:
            case []:
                return self._page(query)
            case [task_id]:
                return self._one(task_id)
            case [task_id, "log"]:
                return 200, {"lines": self.logs.pop(0) if len(self.logs) > 1 else self.logs[0]}
            case [task_id, "events" | "artifacts" as part]:
                return 200, {part: self.files.get(part, []), "task_id": task_id}
            case _:
                return None

    def _accounts(self, query: dict[str, str]) -> Document:
        off = {"": (True, False), "true": (True,), "false": (False,)}[query.get("disabled", "")]
        return {"accounts": [one for one in self.accounts.values() if bool(one["disabled"]) in off], "cursor": ""}

    def _account(self, name: str, action: list[str], body: Document) -> tuple[int, Document]:
        one = self.accounts.setdefault(name, {**ACCOUNT, "account": name})
        match action:
            case ["disable"]:
                one |= {"state": "disabled", "disabled": {"by": body["actor"], "reason": body["reason"]}}
            case ["enable"]:
                one |= {"state": "idle", "disabled": None}
            case _:
                one["record"] = {key: body.get(key, RECORD[key]) for key in RECORD}
        return 200, {**one, "done": True, "tasks": ["t1"] if body.get("tasks") == "cancel" else []}

    def _health(self) -> tuple[int, Document]:
        if self.parts:
            return 503, {"ready": False, "parts": self.parts}
        return (503, problem("engine away", "Temporal is silent")) if self.sick else (200, {"status": "ok"})

    def _page(self, query: dict[str, str]) -> tuple[int, Document]:
        start = int(query.get("cursor", "0"))
        chosen = [one for one in self.tasks if query.get("state", one["state"]) == one["state"]]
        end = start + min(int(query["limit"]), 2)
        return 200, {"tasks": chosen[start:end], "cursor": str(end) if end < len(chosen) else ""}

    def _submit(self, body: Document) -> tuple[int, Document]:
        if body.get("account") == "busy":
            return 409, problem("duplicate", "account busy is held by task t0")
        task = {"task_id": f"t{len(self.tasks) + 1}", "state": "queued", "position": 1, **body}
        self.tasks.append(task)
        return 201, {"id": task["task_id"], "state": "queued", "position": 1, "admission": "accepted", "task": None}

    def _cleanup(self, request: Document) -> tuple[int, Document]:
        gone = {"task_id": "t1", "why": "age", "state": "failed", "age_s": 3_000_000.0, "bytes": 2_500_000}
        stats = {"tasks": {"failed": 2}, "orphans": 1, "shed": 0, "bytes": 2_500_000, "removed": [gone], "more": 2}
        report = {"dry_run": request["dry_run"], "stats": {**stats, "troubles": self.troubles}}
        known = {"id": "maintenance/cleanup/by-hand", "run_id": "r1"}
        if self.slow:
            return 202, {**known, "state": "running", "report": None}
        return 200, {**known, "state": "completed", "report": report}

    def _one(self, name: str) -> tuple[int, Document]:
        for one in self.tasks:
            if one["task_id"] == name:
                if one["state"] in {"queued", "running"}:
                    one["state"] = "completed" if one["state"] == "running" else "running"
                return 200, one
        return 404, problem("unknown task", f"there is no task {name}")


def problem(title: str, detail: str) -> Document:
    return {"type": "about:blank", "title": title, "detail": detail}


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.api_state = ApiState()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._reply()

    def do_POST(self) -> None:
        self._reply()

    def do_PUT(self) -> None:
        self._reply()

    def do_DELETE(self) -> None:
        self._reply()

    def _reply(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        api_state = cast("Server", self.server).api_state
        api_state.asked.append((f"{self.command} {url.path}", url.query, body, dict(self.headers)))
        if api_state.key and self.headers.get("Authorization") != f"Bearer {api_state.key}":
            status, answer = 401, problem("unauthorized", "an API key is needed")
        elif api_state.refuse_next:
            api_state.refuse_next -= 1
            status, answer = 503, problem("engine away", "Temporal is silent")
        else:
            status, answer = api_state.answer(self.command, url.path, query, body)
        lines = answer.get("lines")
        content = json.dumps(answer).encode() if lines is None else "".join(f"{one}\n" for one in lines).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def running() -> Generator[tuple[str, ApiState]]:
    with Server(0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", server.api_state
        server.shutdown()
        thread.join(timeout=10)


if __name__ == "__main__":
    Server(int(sys.argv[1])).serve_forever()
