"""The demo as it runs: submits its parts over HTTP, asks things of them, and looks at what becomes of them."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from droidherd.cli import demo_parts as cast
from droidherd.cli.demo_parts import ACTOR, Part
from droidherd.cli.door import Document, Door, RefusedError, rows_of
from droidherd.cli.tasks import is_final

SHOWN_S = 1.5
"""How long a pause is left standing, so that people see it."""
PATIENCE_S = 120.0
"""The second half begins after this, whatever became of the first."""
PASSING = frozenset({429, 503})
"""Refusals that say: not now."""


@dataclass(slots=True)
class Role:
    """One part, and what became of it."""

    part: Part
    task_id: str = ""
    task: Document = field(default_factory=dict[str, Any])
    status: int = 0
    """Of the answer to the submission."""
    refusal: Document = field(default_factory=dict[str, Any])
    waits: str = ""
    """Why it waits, when the dispatcher says so."""

    @property
    def state(self) -> str:
        if self.status == 409:  # noqa: PLR2004 - Conflict
            return "rejected"
        return str(self.task.get("state") or ("pending" if self.task_id else ""))

    @property
    def over(self) -> bool:
        return bool(self.refusal) or is_final(self.task)

    def stages_done(self) -> int:
        return sum(one.get("state") == "completed" for one in rows_of(self.task, "stages"))

    def seconds(self, now: float) -> float:
        """From submission to end, by the clock of the engine; so far, by ours."""
        created = self.task.get("created_at")
        if not created:
            return 0.0
        ended = self.task.get("ended_at") or self.task.get("updated_at") if self.over else None
        return max(_epoch(ended) - _epoch(created) if ended else now - _epoch(created), 0.0)


class Play:
    """All parts, and the script."""

    def __init__(self, door: Door, parts: tuple[Part, ...], key: str, tell: Callable[[str], None]) -> None:
        """`key` makes the submissions of this run different from those of any other."""
        self.roles = {part.name: Role(part) for part in parts}
        self.queue: Document = {}
        self.emulators: list[Document] = []
        self._door = door
        self._key = key
        self._tell = tell
        self._states: dict[str, str] = {}
        self._began_s = time.monotonic()
        self._done_s: dict[str, float] = {}

    @property
    def over(self) -> bool:
        return all(role.over for role in self.roles.values())

    def turn(self) -> None:
        """Do what is due, then look at everything. What the house cannot answer just now is asked in the next turn."""
        try:
            for cue in SCRIPT:
                if cue.name not in self._done_s and cue.due(self) and cue.carry_out(self):
                    self._done_s[cue.name] = time.monotonic()
            self._look()
        except RefusedError as error:
            if error.status not in PASSING:
                raise
            self._tell(f"the house is busy: {error.what}")

    # --- what cues ask ----------------------------------------------------------------------------------------

    def done_since_s(self, cue: str) -> float:
        """How long ago a cue was carried out; less than nothing when it was not."""
        return time.monotonic() - self._done_s[cue] if cue in self._done_s else -1.0

    def running_s(self) -> float:
        return time.monotonic() - self._began_s

    # --- what cues do -----------------------------------------------------------------------------------------

    def submit(self, *names: str) -> bool:
        """True when all of them have a verdict."""
        verdicts = [self._submit(self.roles[name]) for name in names]
        return all(verdicts)

    def control(self, name: str, action: str) -> bool:
        role = self.roles[name]
        try:
            role.task = self._door.post(f"/api/tasks/{role.task_id}/{action}", {"actor": ACTOR, "reason": "to show it"})
        except RefusedError as error:
            if error.status in PASSING:
                raise
            self._tell(f"{action} {name}: {error.what}")
            return True
        self._tell(f"{action} {name}")
        return True

    def order(self, action: str, lane: str) -> bool:
        self._door.post(f"/api/queue/{action}", {"lane": lane, "actor": ACTOR, "reason": "to show it"})
        self._tell(f"{action} lane {lane}")
        return True

    def _submit(self, role: Role) -> bool:
        if role.status in {201, 409}:
            return True
        name = f"{role.part.name.replace(' ', '-')}-{self._key}"
        try:
            said = self._door.post("/api/tasks", {"id": name, **role.part.body}, headers={"Idempotency-Key": name})
        except RefusedError as error:
            if error.status in PASSING:
                raise
            role.status, role.refusal = error.status, error.problem or {"detail": error.what}
            self._tell(f"submit {role.part.name}: {error.what}")
            return True
        role.task_id = str(said["id"])
        # Without a verdict it is durable all the same; the same key asks again and submits nothing twice.
        role.status = 201 if said.get("verdict") else 202
        return role.status == 201  # noqa: PLR2004 - Created

    # --- looking ----------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self.queue = self._door.get("/api/queue", limit=100)
        self.emulators = rows_of(self._door.get("/api/emulators"), "emulators")
        waiting = {str(one["task_id"]): str(one.get("blocked_by") or "") for one in rows_of(self.queue, "queue_info")}
        for role in self.roles.values():
            if not role.task_id or role.over:
                continue
            role.waits = waiting.get(role.task_id, "")
            if role.task_id not in waiting or role.state != "queued":
                role.task = self._door.get(f"/api/tasks/{role.task_id}")
            self._notice(role)

    def _notice(self, role: Role) -> None:
        """Say what changed, once."""
        attempt, emulator = role.task.get("attempt", 1), role.task.get("emulator")
        now = role.state + (f" on {emulator}" if emulator and role.state == "running" else "")
        now += f", attempt {attempt}" if attempt != 1 else ""
        if self._states.get(role.part.name) != now:
            self._states[role.part.name] = now
            self._tell(f"{role.part.name}: {now}")


@dataclass(frozen=True, slots=True)
class Cue:
    """Something to do, once, when its moment has come."""

    name: str
    due: Callable[[Play], bool]
    carry_out: Callable[[Play], bool]


def _second_half(play: Play) -> bool:
    """Only now, so that the emulator of the task that fails stays as that task left it."""
    role = play.roles[cast.AGAIN]
    tried_again = int(role.task.get("attempt") or 1) > 1 and role.state not in {"retry_pending", "pending", "queued"}
    return tried_again or role.over or play.running_s() > PATIENCE_S


def _walks(name: str) -> Callable[[Play], bool]:
    return lambda play: play.roles[name].state == "running" and play.roles[name].stages_done() >= 1


def _rested(play: Play) -> bool:
    return play.roles[cast.HELD].state == "paused" and play.done_since_s("pause dave") > SHOWN_S


SCRIPT = (
    Cue(
        "first half", lambda _: True, lambda play: play.submit(cast.AGAIN, cast.CAROL, cast.ALICE, cast.BOB, cast.BUSY)
    ),
    Cue("close", _second_half, lambda play: play.order("pause", "anonymous")),
    Cue(
        "second half",
        lambda play: play.done_since_s("close") >= 0,
        lambda play: play.submit(
            *(
                cast.HELD,
                cast.TWIN,
                cast.STOPPED,
                cast.LISTED,
                cast.BUSY,
                cast.FIRST,
                cast.SECOND,
                cast.LATER,
                cast.LOST,
            )
        ),
    ),
    Cue(
        "open", lambda play: play.done_since_s("second half") > SHOWN_S, lambda play: play.order("resume", "anonymous")
    ),
    Cue("pause dave", _walks(cast.HELD), lambda play: play.control(cast.HELD, "pause")),
    Cue("resume dave", _rested, lambda play: play.control(cast.HELD, "resume")),
    Cue("cancel erin", _walks(cast.STOPPED), lambda play: play.control(cast.STOPPED, "cancel")),
)


def _epoch(moment: object) -> float:
    return datetime.fromisoformat(str(moment)).timestamp()
