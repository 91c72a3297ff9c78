"""The demo as a script: the tasks it submits, what it asks of them meanwhile, and when.

A step of the script is a generator that does something and yields what it waits for. Everything goes over HTTP, as
`droidherd submit`, `pause`, `resume`, `cancel` and `lanes` do it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from droidherd.cli.client import ApiClient, ApiRefusedError, Document, rows_of
from droidherd.cli.commands.tasks import is_final

FLOWS = Path(__file__).with_name("flows")
"""One flow of the demo's own, beside those of the gallery: as people bring theirs."""
EMULATORS = 4
ACTOR = "demo"
REASON = "to show it"
LATER_S = 10.0
SHOWN_S = 1.5
"""How long a pause is left standing, so that people see it."""
PATIENCE_S = 120.0
"""The second half begins after this, whatever became of the first."""
NOT_NOW = frozenset({429, 503})
"""Refusals after which the demo asks again."""

SECOND_LOOK, ALICE, BOB, CAROL, CAROL_AGAIN = "second look", "alice", "bob", "carol", "carol again"
DAVE, DAVE_AGAIN, ERIN, FRANK = "dave", "dave again", "erin", "frank"
FIRST_TAP, SECOND_TAP, LATER, GOLDEN = "first tap", "second tap", "later", "golden"

Waiting: TypeAlias = Iterator[Callable[[], bool]]
"""A part of the script. It goes on when what it yields is true."""


@dataclass(frozen=True, slots=True)
class DemoTask:
    """One task of the demo: what is submitted, what it shows, and how it has to end."""

    name: str
    body: Mapping[str, Any]
    shows: str
    expected: str = "completed"
    attempts: int = 1
    pictures: int = 0
    """How many PNGs it has to leave at least."""

    @property
    def kind(self) -> str:
        return str(self.body["type"])


def demo_tasks(now: datetime) -> tuple[DemoTask, ...]:
    """All of them, in the order in which they are shown."""
    later = (now + timedelta(seconds=LATER_S)).isoformat()
    waits = {"account": "carol", "on_busy": "queue", "emulator": "virtual-1"}
    cut_short = {"account": "erin", "params": _walk(60)}
    return (
        _task(SECOND_LOOK, "second_look", "fails, is tried again", emulator="virtual-4", attempts=2, pictures=1),
        _task(ALICE, "daily_reward", "collects a gift once", account="alice", pictures=1),
        _task(BOB, "daily_reward", "another account beside it", account="bob", pictures=1),
        _task(CAROL, "sign_in", "signs an account in", account="carol", pictures=1),
        _task(CAROL_AGAIN, "daily_reward", "waits for its own account", **waits, pictures=1),
        _task(DAVE, "long_walk", "is paused and resumed", account="dave", params=_walk(6)),
        _task(DAVE_AGAIN, "long_walk", "a duplicate is refused", account="dave", expected="rejected", attempts=0),
        _task(ERIN, "long_walk", "is cancelled while it runs", **cut_short, expected="cancelled"),
        _task(FRANK, "browse_list", "keeps a picture of each page", account="frank", pictures=6, params={"pages": 6}),
        _task(FIRST_TAP, "tap_once", "in line first"),
        _task(SECOND_TAP, "tap_once", "in line second"),
        _task(LATER, "visit", "starts not before its time", not_before=later, pictures=1),
        _task(GOLDEN, "golden_gift", "fails, with evidence", expected="failed", pictures=1),
    )


def script(demo: "DemoRun") -> list[Waiting]:
    """Three parts that go on beside each other."""
    return [_submit_all(demo), _pause_and_resume(demo), _cancel(demo)]


def _submit_all(demo: "DemoRun") -> Waiting:
    yield from demo.submit(SECOND_LOOK, CAROL, ALICE, BOB, CAROL_AGAIN)
    # Only then, so that the emulator of the task that fails stays as that task left it.
    yield lambda: demo.was_tried_again(SECOND_LOOK) or demo.running_s() > PATIENCE_S
    yield from demo.change_lane("pause", "anonymous")
    yield from demo.submit(DAVE, DAVE_AGAIN, ERIN, FRANK, FIRST_TAP, SECOND_TAP, LATER, GOLDEN)
    yield _after(SHOWN_S)
    yield from demo.change_lane("resume", "anonymous")


def _pause_and_resume(demo: "DemoRun") -> Waiting:
    yield lambda: demo.is_under_way(DAVE)
    yield from demo.control("pause", DAVE)
    yield lambda: demo.runs[DAVE].state == "paused"
    yield _after(SHOWN_S)
    yield from demo.control("resume", DAVE)


def _cancel(demo: "DemoRun") -> Waiting:
    yield lambda: demo.is_under_way(ERIN)
    yield from demo.control("cancel", ERIN)


@dataclass(slots=True)
class DemoTaskRun:
    """One task of the demo, and what became of it."""

    task: DemoTask
    task_id: str = ""
    view: Document = field(default_factory=dict[str, Any])
    """The task as the API showed it last."""
    status: int = 0
    """Of the answer to the submission."""
    refusal: Document = field(default_factory=dict[str, Any])
    waits: str = ""
    """Why it waits, when the dispatcher says so."""

    @property
    def state(self) -> str:
        if self.status == 409:  # noqa: PLR2004 - Conflict
            return "rejected"
        return str(self.view.get("state") or ("pending" if self.task_id else ""))

    @property
    def over(self) -> bool:
        return bool(self.refusal) or is_final(self.view)

    def seconds(self, now: float) -> float:
        """From submission to end, by the clock of Temporal; so far, by ours."""
        created = self.view.get("created_at")
        if not created:
            return 0.0
        ended = self.view.get("ended_at") or self.view.get("updated_at") if self.over else None
        return max(_epoch(ended) - _epoch(created) if ended else now - _epoch(created), 0.0)


class DemoRun:
    """All tasks of the demo. Each turn goes on with the script, then looks at everything."""

    def __init__(self, api: ApiClient, tasks: tuple[DemoTask, ...], key: str, tell: Callable[[str], None]) -> None:
        """`key` makes the submissions of this run different from those of any other; `tell` gets the news."""
        self.runs = {task.name: DemoTaskRun(task) for task in tasks}
        self.queue: Document = {}
        self.emulators: list[Document] = []
        self._api = api
        self._key = key
        self._tell = tell
        self._shown: dict[str, str] = {}
        self._began_s = time.monotonic()
        self._script = [(part, _at_once) for part in script(self)]

    @property
    def over(self) -> bool:
        return all(run.over for run in self.runs.values())

    def turn(self) -> None:
        self._script = [one for part, ready in self._script if (one := _go_on(part, ready)) is not None]
        self._ask(self._look)

    # --- what the script waits for ----------------------------------------------------------------------------

    def running_s(self) -> float:
        return time.monotonic() - self._began_s

    def was_tried_again(self, name: str) -> bool:
        """Whether its second attempt runs, or it has ended."""
        run = self.runs[name]
        waiting = run.state in {"retry_pending", "pending", "queued"}
        return run.over or (int(run.view.get("attempt") or 1) > 1 and not waiting)

    def is_under_way(self, name: str) -> bool:
        """Whether it runs, and has completed a stage."""
        run = self.runs[name]
        stages = rows_of(run.view, "stages")
        return run.state == "running" and any(one.get("state") == "completed" for one in stages)

    # --- what the script does ---------------------------------------------------------------------------------

    def submit(self, *names: str) -> Waiting:
        """Until each of them is accepted or refused. The same key asks again, and submits nothing twice."""
        for name in names:
            while not self._submit_one(self.runs[name]):
                yield _at_once

    def control(self, action: str, name: str) -> Waiting:
        path = f"/api/tasks/{self.runs[name].task_id}/{action}"
        while not self._ask(lambda: self._order(f"{action} {name}", path, {})):
            yield _at_once

    def change_lane(self, action: str, lane: str) -> Waiting:
        while not self._ask(lambda: self._order(f"{action} lane {lane}", f"/api/queue/{action}", {"lane": lane})):
            yield _at_once

    def _order(self, what: str, path: str, body: Document) -> None:
        try:
            self._api.post(path, {**body, "actor": ACTOR, "reason": REASON})
        except ApiRefusedError as error:
            if error.status in NOT_NOW:
                raise
            what = f"{what}: {error.what}"
        self._tell(what)

    def _submit_one(self, run: DemoTaskRun) -> bool:
        if not self._ask(lambda: self._submit(run)):
            return False
        return run.status != 202  # noqa: PLR2004 - Accepted: durable, but not let in yet

    def _submit(self, run: DemoTaskRun) -> None:
        name = f"{run.task.name.replace(' ', '-')}-{self._key}"
        try:
            answer = self._api.post("/api/tasks", {"id": name, **run.task.body}, headers={"Idempotency-Key": name})
        except ApiRefusedError as error:
            if error.status in NOT_NOW:
                raise
            run.status, run.refusal = error.status, error.problem or {"detail": error.what}
            self._tell(f"submit {run.task.name}: {error.what}")
        else:
            run.task_id = str(answer["id"])
            # A task with `not_before` is accepted and pending: only the admission says whether it is let in.
            run.status = 201 if answer.get("admission") == "accepted" else 202

    def _ask(self, what: Callable[[], None]) -> bool:
        """False when the API cannot do it now."""
        try:
            what()
        except ApiRefusedError as error:
            if error.status not in NOT_NOW:
                raise
            self._tell(f"the API is busy: {error.what}")
            return False
        return True

    # --- looking ----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self.queue = self._api.get("/api/queue", limit=100)
        self.emulators = rows_of(self._api.get("/api/emulators"), "emulators")
        waiting = {str(one["task_id"]): str(one.get("blocked_by") or "") for one in rows_of(self.queue, "queue_info")}
        for run in self.runs.values():
            if not run.task_id or run.over:
                continue
            run.waits = waiting.get(run.task_id, "")
            if run.task_id not in waiting or run.state != "queued":
                run.view = self._api.get(f"/api/tasks/{run.task_id}")
            self._tell_changes(run)

    def _tell_changes(self, run: DemoTaskRun) -> None:
        attempt, emulator = run.view.get("attempt", 1), run.view.get("emulator")
        now = run.state + (f" on {emulator}" if emulator and run.state == "running" else "")
        now += f", attempt {attempt}" if attempt != 1 else ""
        if self._shown.get(run.task.name) != now:
            self._shown[run.task.name] = now
            self._tell(f"{run.task.name}: {now}")


def _go_on(part: Waiting, ready: Callable[[], bool]) -> tuple[Waiting, Callable[[], bool]] | None:
    """The part and what it waits for now; None when it is over."""
    while ready():
        following = next(part, None)
        if following is None:
            return None
        ready = following
        if ready is _at_once:
            break  # in the next turn
    return part, ready


def _at_once() -> bool:
    return True


def _after(seconds: float) -> Callable[[], bool]:
    until = time.monotonic() + seconds
    return lambda: time.monotonic() >= until


def _task(name: str, kind: str, shows: str, **given: Any) -> DemoTask:
    expected = {one: given.pop(one) for one in ("expected", "attempts", "pictures") if one in given}
    body = {"type": kind, "actor": ACTOR, "labels": {"demo": name.replace(" ", "-")}, **given}
    return DemoTask(name, body, shows, **expected)


def _walk(rounds: int) -> dict[str, Any]:
    return {"rounds": rounds, "pace_ms": 100}


def _epoch(moment: object) -> float:
    return datetime.fromisoformat(str(moment)).timestamp()
