"""What must hold when all tasks have ended, whatever was pressed: judged from the emulators' journals and the API."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from droidherd.domain.task.lifecycle import FINAL, TABLE, TaskEvent, TaskNote, TaskStatus
from droidherd.virtual import journal
from tests.chaos.judge import HEIGHT, TAPS, WIDTH
from tests.support.farm import Place

Document = Mapping[str, Any]
RUN_STATES = (TaskStatus.RUNNING, TaskStatus.WAITING, TaskStatus.ROLLBACK_RUNNING)
EXPECTED = (("ScreenNotReachedError", "retryable"), ("", "infrastructure"))
"""What may end a task of the play: its picture never comes, or its emulators died too often."""


@dataclass
class Part:
    """One task of the play."""

    task_id: str
    kind: str
    x: float
    account: str
    forced: bool = False
    """Somebody pressed `force` at least once: what ran was not waited for."""


@dataclass(frozen=True)
class Tap:
    """One that really happened."""

    emulator: str
    token: int
    y: int
    wall_s: float


def taps_of(farm: Place, part: Part) -> list[Tap]:
    column = round(WIDTH * part.x / 100)
    rows = {round(HEIGHT * y / 100): y for y in TAPS}
    found: list[Tap] = []
    for emulator in farm.emulators:
        for command in farm.journal(emulator):
            if command.argv[:2] != ("input", "tap") or abs(int(command.argv[2]) - column) > 1:
                continue
            y = next((y for row, y in rows.items() if abs(int(command.argv[3]) - row) <= 1), None)
            if y is not None:
                found.append(Tap(emulator, _token(command), y, command.wall_s))
    return found


def tap_counts(farm: Place, part: Part, token: int) -> Counter[int]:
    return Counter(tap.y for tap in taps_of(farm, part) if tap.token == token)


def complaints(
    farm: Place, parts: Mapping[str, Part], views: Mapping[str, Document], audits: Mapping[str, Document]
) -> list[str]:
    """Everything that is not as it must be, about all tasks."""
    found: list[str] = []
    taps = {name: taps_of(farm, part) for name, part in parts.items()}
    for name, part in parts.items():
        found += [f"{name}: {what}" for what in _audit(views[name], audits[name]["events"])]
        found += [f"{name}: {what}" for what in _effects(part, views[name], audits[name]["events"], taps[name])]
    return found + late_leases(farm) + account_overlaps(farm, parts)


def _audit(view: Document, events: list[Document]) -> list[str]:
    """The audit is one line without a gap, every step of it is in the table, and it leads to the state."""
    found: list[str] = []
    state = TaskStatus.PENDING
    notes = [line for line in events if line["event"] in {*TaskNote}]
    found += [f"{line['event']} changed the state" for line in notes if line["before"] != line["after"]]
    if not events or events[0]["event"] != TaskNote.CREATED:
        found.append("the audit does not begin with who submitted the task")
    for line in [line for line in events if line not in notes]:
        step = (TaskStatus(line["before"]), TaskEvent(line["event"]))
        if step[0] is not state:
            found.append(f"after {state} the audit goes on with {line['before']} → {line['after']}")
        if TABLE.get(step) != line["after"]:
            found.append(f"{step} → {line['after']} is not in the table")
        if not line["actor"]:
            found.append(f"nobody did {line['event']}")
        state = TaskStatus(line["after"])
    if state not in FINAL or state != view["state"]:
        steps = [(one["at"], one["event"], one["after"]) for one in events]
        found.append(f"the audit ends in {state}, the task is {view['state']}: {steps}, {view['attempts']}")
    error = view.get("error") or {}
    if view["state"] == TaskStatus.FAILED and not _expected(error):
        found.append(f"it failed by {error}")
    if view["intent"]:
        found.append(f"{view['intent']} is still asked for")
    return found


def _expected(error: Document) -> bool:
    return any(error.get("verdict") == verdict and kind in ("", error.get("kind")) for kind, verdict in EXPECTED)


def _effects(part: Part, view: Document, events: list[Document], taps: list[Tap]) -> list[str]:
    """No act twice in one attempt, none by a stranger's hand, none after the cancel, all of them when it completed."""
    found: list[str] = []
    attempts = {one["token"]: one for one in view["attempts"]}
    strangers = {tap.token for tap in taps if tap.token not in attempts}
    if strangers:
        found.append(f"leases {strangers} acted for it and are none of its attempts {sorted(attempts)}")
    if part.kind != "walk":
        counts = Counter((attempts[tap.token]["n"], tap.y) for tap in taps if tap.token in attempts)
        twice = {key: times for key, times in counts.items() if times > 1}
        if twice:
            found.append(f"acts that happened more than once in one attempt: {twice}")
    if view["state"] == TaskStatus.COMPLETED and (missing := set(TAPS) - {tap.y for tap in taps}):
        found.append(f"completed, and these acts never happened: {missing}")
    if not part.forced:
        found += [
            f"acted {tap.wall_s - begin:.3f} s after it was {state}"
            for state, begin, end in _quiet(events)
            for tap in taps
            if begin < tap.wall_s < end
        ]
    return found


def _quiet(events: list[Document]) -> list[tuple[str, float, float]]:
    """When it was paused or over: from then until it ran again nothing may happen."""
    found: list[tuple[str, float, float]] = []
    for at, line in enumerate(events):
        if line["after"] in (TaskStatus.CANCELLED, TaskStatus.PAUSED, TaskStatus.COMPLETED, TaskStatus.FAILED):
            later = [_seconds(one) for one in events[at + 1 :] if one["after"] in RUN_STATES]
            found.append((line["after"], _seconds(line), later[0] if later else float("inf")))
    return found


def late_leases(farm: Place) -> list[str]:
    """On one emulator leases follow one another: what an older one wanted never comes after a newer one began."""
    found: list[str] = []
    for emulator in farm.emulators:
        newest = 0
        for command in journal.effects(farm.journal(emulator)):
            token = _token(command)
            if token and token < newest:
                found.append(f"{emulator}: lease {token} acted after {newest} had begun: {command.line}")
            newest = max(newest, token)
    return found


def account_overlaps(farm: Place, parts: Mapping[str, Part], since_s: float = 0.0) -> list[str]:
    """One account never acts on two emulators at once. `since_s`: on the wall clock."""
    stays: dict[str, dict[tuple[str, int], list[float]]] = defaultdict(lambda: defaultdict(list))
    for name, part in parts.items():
        for tap in taps_of(farm, part) if part.account and not part.forced else ():
            if tap.wall_s >= since_s:
                stays[part.account][name, tap.token].append(tap.wall_s)
    found: list[str] = []
    for account, times in stays.items():
        spans = sorted((min(all_), max(all_), who) for who, all_ in times.items())
        found += [
            f"{account}: {one[2]} and {other[2]} acted at the same time"
            for one, other in pairwise(spans)
            if other[0] < one[1]
        ]
    return found


def _token(command: journal.ExecutedCommand) -> int:
    return int(command.token.partition(".")[0] or 0)


def _seconds(line: Document) -> float:
    return datetime.fromisoformat(line["at"]).timestamp()
