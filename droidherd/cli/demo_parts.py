"""The tasks of the demo: what is submitted, what it is meant to show, and how it has to end."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

FLOWS = Path(__file__).with_name("demo_flows")
"""One flow of the demo's own, beside the gallery's: as people bring theirs."""

EMULATORS = 4
LATER_S = 10.0
ACTOR = "demo"

AGAIN, ALICE, BOB, CAROL = "second look", "alice", "bob", "carol"
HELD, TWIN, STOPPED, LISTED = "dave", "dave again", "erin", "frank"
FIRST, SECOND, LATER, LOST, BUSY = "first tap", "second tap", "later", "golden", "carol again"


@dataclass(frozen=True, slots=True)
class Part:
    """One task of the demo."""

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


def parts(now: datetime) -> tuple[Part, ...]:
    """All of them, in the order in which they are shown."""
    later = (now + timedelta(seconds=LATER_S)).isoformat()
    waits = {"account": "carol", "on_busy": "queue", "emulator": "virtual-1"}
    cut_short = {"account": "erin", "params": _walk(60)}
    return (
        _part(AGAIN, "second_look", "fails, is tried again", emulator=f"virtual-{EMULATORS}", attempts=2, pictures=1),
        _part(ALICE, "daily_reward", "collects a gift once", account="alice", pictures=1),
        _part(BOB, "daily_reward", "another account beside it", account="bob", pictures=1),
        _part(CAROL, "sign_in", "signs an account in", account="carol", pictures=1, params={"account": "carol"}),
        _part(BUSY, "daily_reward", "waits for its own account", **waits, pictures=1),
        _part(HELD, "long_walk", "is paused and resumed", account="dave", params=_walk(6)),
        _part(TWIN, "long_walk", "a duplicate is refused", account="dave", expected="rejected", attempts=0),
        _part(STOPPED, "long_walk", "is cancelled while it runs", **cut_short, expected="cancelled"),
        _part(LISTED, "browse_list", "keeps a picture of each page", account="frank", pictures=6, params={"pages": 6}),
        _part(FIRST, "tap_once", "in line first"),
        _part(SECOND, "tap_once", "in line second"),
        _part(LATER, "visit", "starts not before its time", not_before=later, pictures=1),
        _part(LOST, "golden_gift", "fails, with evidence", expected="failed", pictures=1),
    )


def _part(name: str, kind: str, shows: str, **given: Any) -> Part:
    of_part = {one: given.pop(one) for one in ("expected", "attempts", "pictures") if one in given}
    body = {"type": kind, "actor": ACTOR, "labels": {"demo": name.replace(" ", "-")}, **given}
    return Part(name, body, shows, **of_part)


def _walk(rounds: int) -> dict[str, Any]:
    return {"rounds": rounds, "pace_ms": 100}
