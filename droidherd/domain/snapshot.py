"""A dispatcher as text, and back. Columns with interned strings, zlib, base85.

Continuing as new with more than 2 MB of input wedges a workflow for ever, so this is the form that crosses. Columns,
because like stands beside like and numbers as differences are nearly nothing: 10,000 entries with the longest random
names take 1.6 MB. Columns that are missing take their defaults: an older run can be read by newer code.
"""

import base64
import json
import zlib
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from droidherd.domain import messages as m
from droidherd.domain.audit import DEEDS, EVENTS, Event
from droidherd.domain.board import Entry, Place, Row
from droidherd.domain.dispatcher import Dispatcher
from droidherd.domain.keys import Bar, account_key
from droidherd.domain.lane import Lane, LaneRules, Ordering, is_system
from droidherd.domain.moves import Config
from droidherd.domain.tally import Stint, Tallies, Tally

VERSION = 2
MARK = "~"
"""Before the number of an interned string where any text may stand."""
ROOMY_BYTES = 1_600_000
FULL_BYTES = 1_850_000
FEW_EVENTS, FEWEST = 50, 10
"""So many events, and lines of the audit of each kind, when there is hardly room, and when there is none."""
WORTH = 6
"""Shorter texts are cheaper written out."""


class _Strings:
    """Each distinct string once."""

    def __init__(self, known: list[str] | None = None) -> None:
        self.all: list[str] = known or []
        self.index: dict[str, int] = {text: i for i, text in enumerate(self.all)}

    def put(self, text: str) -> int:
        if text not in self.index:
            self.index[text] = len(self.all)
            self.all.append(text)
        return self.index[text]

    def short(self, value: Any) -> Any:
        """A value with its long texts replaced by their numbers."""
        if isinstance(value, str):
            known = len(value) > WORTH or value.startswith(MARK)
            return f"{MARK}{self.put(value)}" if known else value
        if isinstance(value, list | tuple):
            return [self.short(one) for one in value]
        return value

    def long(self, value: Any) -> Any:
        """The value a short one stands for."""
        if isinstance(value, str):
            return self.all[int(value[len(MARK) :])] if value.startswith(MARK) else value
        return [self.long(one) for one in value] if isinstance(value, list) else value


def dump(d: Dispatcher) -> str:
    """Everything a successor needs; of live events and audit only as much as there is room for.

    As the last resort answers are left behind that a task gets again when it repeats its request.
    """
    text = _write(d, EVENTS, d.outbox.rows())
    if len(text) > ROOMY_BYTES:
        text = _write(d, FEW_EVENTS, d.outbox.rows())
    if len(text) > FULL_BYTES:
        text = _write(d, FEWEST, d.outbox.rows(without=(m.Admitted, m.Rejected)))
    return text


def _write(d: Dispatcher, events: int, outbox: list[Any]) -> str:
    strings = _Strings()
    board = d.board
    rows: dict[str, list[Any]] = {
        "lanes": [_lane(lane) for lane in board.lanes.values()],
        "barred": [[key, bar.actor, bar.why, bar.since_ms] for key, bar in d.keys.barred.items()],
        "paused": [board.pattern.paused_by, board.pattern.paused_why],
        "rows": [_row(row) for row in board.rows.values()],
        "free": list(board.free),
        "leases": list(board.leases),
        "recent": [[name, seq] for name, seq in d.recent.items()],
        "tallies": [[name, *tally.row()] for name, tally in d.tallies.by_type.items()],
        "unspoken": [[token, one.task_type, one.waited_s] for token, one in d.tallies.unspoken.items()],
        "foreign": list(d.tallies.foreign),
        "events": [_event(one) for one in [*d.events][-events:]],
        "audit": [_event(one) for ring in (d.by_people, d.by_system) for one in [*ring][-min(events, DEEDS) :]],
        "unheard": [[name, run] for name, run in d.unheard.items()],
        "outbox": outbox,
        "soon": [[name, at_ms, list(requires), lane] for name, (at_ms, requires, lane) in d.soon.items()],
    }
    document: dict[str, Any] = {
        "version": VERSION,
        "counters": [board.last_token, board.last_ticket, d.cursor, d.joined_ms, d.generation,
                     d.rebuild_until_ms, d.quiet_until_ms, d.blind_ms, d.tallies.own, d.tallies.since_ms,
                     board.first_ticket],
        "entries": {name: column.write(board.entries.values(), strings) for name, column in COLUMNS.items()},
        **{name: strings.short(value) for name, value in rows.items()},
    }  # fmt: skip
    document["strings"] = strings.all
    raw = json.dumps(document, separators=(",", ":")).encode()
    return base64.b85encode(zlib.compress(raw, 6)).decode()


def load(text: str, pool: str, config: Config) -> Dispatcher:
    """The dispatcher a text stands for. What is derived is derived again."""
    document = json.loads(zlib.decompress(base64.b85decode(text)))
    strings = _Strings(document["strings"])
    rows = {name: strings.long(value) for name, value in document.items() if name not in {"strings", "entries"}}
    d = Dispatcher(pool, config)
    for row in rows["lanes"]:
        d.board.lanes[row[0]] = _read_lane(row, config.rules)
    d.board.pattern.paused_by, d.board.pattern.paused_why = rows.get("paused", ("", ""))
    for row in rows["rows"]:
        d.board.rows[row[0]] = Row(row[0], row[1], m.EmulatorState(row[2]), tuple(row[3]), *row[4:])
    counters = rows["counters"]
    d.board.last_token, d.board.last_ticket, d.cursor, d.joined_ms, d.generation, d.rebuild_until_ms = counters[:6]
    d.quiet_until_ms, d.blind_ms = counters[6:8]
    d.tallies = _read_tallies(rows, *counters[8:10])
    d.board.first_ticket = next(iter(counters[10:]), 0)
    for key, *bar in rows.get("barred", ()):
        d.keys.barred[key] = Bar(*bar)
        d._weigh_bar(key.removeprefix(account_key("")), d.keys.barred[key], 1)  # noqa: SLF001 - as below
    for entry in _read_entries(document["entries"], strings):
        _stand(d, entry)
    d.board.leases = dict.fromkeys(rows["leases"])
    for emulator_id in (*rows["free"], *d.board.rows):  # those that are free first, in their order
        d.board.refresh(d.board.rows[emulator_id])
    d.soon = {name: _read_expected(row) for name, *row in rows.get("soon", ())}
    d.recent = dict(rows["recent"])
    d.events.extend(Event(*row) for row in rows["events"])
    for event in [Event(*row) for row in rows.get("audit", ())]:
        (d.by_system if is_system(event.actor) else d.by_people).append(event)
    d.unheard = dict(rows["unheard"])
    d.outbox.restore(rows["outbox"])
    return d


def _lane(lane: Lane) -> list[Any]:
    ordering = lane.ordering
    first = [lane.name, lane.capacity, lane.weight, ordering.by_priority, lane.paused_by, lane.paused_why, lane.turns]
    return [*first, lane.capacity_by, lane.ordering_by, ordering.ageing]


def _read_expected(row: list[Any]) -> tuple[int, tuple[str, ...], str]:
    """When, what it requires, and in which lane: older snapshots do not say."""
    at_ms, requires, *lane = row
    return at_ms, tuple(requires), next(iter(lane), "")


def _read_lane(row: Sequence[Any], rules: LaneRules) -> Lane:
    """Of older rows nobody knows who set what: what differs from the settings of today was set by hand."""
    name, capacity, weight, by_priority, paused_by, paused_why, turns, *later = row
    capacity_by, ordering_by, ageing = later or ("", "", 0)
    if not later and capacity != rules.capacity(name):
        capacity_by = "somebody"
    lane = Lane(name, capacity, weight, Ordering(by_priority, ageing), paused_by, paused_why, turns=turns)
    lane.capacity_by, lane.ordering_by = capacity_by, ordering_by
    lane.obey(rules)
    return lane


def _read_tallies(rows: dict[str, Any], own: int = 0, since_ms: int = 0) -> Tallies:
    by_type = {name: Tally.of(rest) for name, *rest in rows["tallies"]}
    unspoken = {token: Stint(task_type, waited_s) for token, task_type, waited_s in rows.get("unspoken", ())}
    return Tallies(by_type, unspoken, own, dict.fromkeys(rows.get("foreign", ())), since_ms)


def _event(e: Event) -> list[Any]:
    row = [e.cursor, e.at_ms, e.kind, e.task_id, e.emulator_id, e.detail]
    return [*row, e.actor, e.reason, e.lane] if e.actor else row


def _row(r: Row) -> list[Any]:
    where = [r.emulator_id, r.host_id, r.state, list(r.labels), r.incarnation, r.seq, r.boot]
    return [*where, r.active, r.deck, r.idle_since_ms, r.dirty, r.tidied, r.startable, r.wish, r.wish_seq]


# --- entries, column by column --------------------------------------------------------------------------------


class _Column:
    """One field of all entries."""

    def __init__(self, get: Callable[[Entry], Any], default: Any) -> None:
        self.get, self.default = get, default

    def write(self, entries: Sequence[Entry] | Any, strings: _Strings) -> list[Any]:
        return self.encode([self.get(entry) for entry in entries], strings)

    def encode(self, values: list[Any], strings: _Strings) -> list[Any]:  # noqa: ARG002 - others intern
        return values

    def decode(self, values: list[Any], strings: _Strings) -> list[Any]:  # noqa: ARG002 - others intern
        return values


class _Text(_Column):
    """Texts, each once in the whole snapshot."""

    def encode(self, values: list[Any], strings: _Strings) -> list[Any]:
        return _differences([strings.put(value) for value in values])

    def decode(self, values: list[Any], strings: _Strings) -> list[Any]:
        return [strings.all[i] for i in accumulate(values)]


class _Texts(_Column):
    def encode(self, values: list[Any], strings: _Strings) -> list[Any]:
        return [[strings.put(one) for one in value] for value in values]

    def decode(self, values: list[Any], strings: _Strings) -> list[Any]:
        return [tuple(strings.all[i] for i in value) for value in values]


class _Number(_Column):
    """Numbers that mostly grow: the first, then by how much each differs from the one before."""

    def encode(self, values: list[Any], strings: _Strings) -> list[Any]:  # noqa: ARG002 - others intern
        return _differences(values)

    def decode(self, values: list[Any], strings: _Strings) -> list[Any]:  # noqa: ARG002 - others intern
        return list(accumulate(values))


def _differences(values: list[int]) -> list[int]:
    return values[:1] + [b - a for a, b in pairwise(values)]


def _lease(entry: Entry) -> list[Any] | int:
    lease = entry.lease
    if lease is None:
        return 0
    return [lease.token, lease.emulator_id, lease.host_id, lease.expires_at_ms, lease.after, lease.incarnation]


COLUMNS: dict[str, _Column] = {
    "task_id": _Text(lambda e: e.ask.key.task_id, ""),
    "run": _Text(lambda e: e.ask.key.run, ""),
    "attempt": _Number(lambda e: e.ask.key.attempt, 1),
    "seq": _Number(lambda e: e.ask.seq, 0),
    "lane": _Text(lambda e: e.ask.lane, ""),
    "task_type": _Text(lambda e: e.ask.task_type, ""),
    "requires": _Texts(lambda e: e.ask.requires, ()),
    "account": _Text(lambda e: e.ask.account, ""),
    "mutex": _Texts(lambda e: e.ask.mutex, ()),
    "priority": _Number(lambda e: e.ask.priority, 5),
    "on_busy": _Text(lambda e: e.ask.on_busy, m.OnBusy.REJECT),
    "ticket": _Number(lambda e: e.ticket, 0),
    "hold_s": _Column(lambda e: e.ask.hold_s, 600.0),
    "single": _Number(lambda e: int(e.ask.single), 0),
    "sticky": _Text(lambda e: e.ask.sticky, ""),
    "avoid": _Text(lambda e: e.ask.avoid, ""),
    "lost": _Number(lambda e: e.ask.lost, 0),
    "since_ms": _Number(lambda e: e.since_ms, 0),
    "place": _Text(lambda e: e.place, Place.WAITING),
    "parked_on": _Number(lambda e: e.needs().index(e.parked_on) + 1 if e.parked_on else 0, 0),
    "lease": _Column(_lease, 0),
    "granted_ms": _Number(lambda e: e.granted_ms, 0),
    "ending": _Number(lambda e: int(e.ending), 0),
    "fence_until_ms": _Number(lambda e: e.fence_until_ms, 0),
    "revoked": _Text(lambda e: e.revoked, ""),
    "held_ms": _Number(lambda e: e.held_ms, 0),
    "asks": _Number(lambda e: int(e.asks), 0),
    "told": _Number(lambda e: int(e.told), 0),
    "adopted": _Number(lambda e: int(e.adopted), 0),
}


def _read_entries(written: dict[str, list[Any]], strings: _Strings) -> list[Entry]:
    count = len(written["task_id"])
    columns = {
        name: column.decode(written[name], strings) if name in written else [column.default] * count
        for name, column in COLUMNS.items()
    }
    return [_entry({name: values[i] for name, values in columns.items()}) for i in range(count)]


def _entry(x: dict[str, Any]) -> Entry:
    ask = m.Enqueue(
        m.Key(x["task_id"], x["run"], x["attempt"]),
        x["seq"],
        x["lane"],
        x["task_type"],
        x["requires"],
        x["account"],
        x["mutex"],
        x["priority"],
        m.OnBusy(x["on_busy"]),
        x["ticket"],
        x["hold_s"],
        single=bool(x["single"]),
        sticky=x["sticky"],
        avoid=x["avoid"],
        lost=x["lost"],
    )
    entry = Entry(
        ask,
        x["ticket"],
        x["since_ms"],
        Place(x["place"]),
        "",
        m.Lease(*x["lease"]) if x["lease"] else None,
        x["granted_ms"],
        bool(x["ending"]),
        x["fence_until_ms"],
        x["revoked"],
        held_ms=x["held_ms"] or x["granted_ms"],
        asks=bool(x["asks"]),
        told=bool(x["told"]),
        adopted=bool(x["adopted"]),
    )
    entry.parked_on = entry.needs()[x["parked_on"] - 1] if x["parked_on"] else ""
    return entry


def _stand(d: Dispatcher, entry: Entry) -> None:
    """Put a read entry back where it stood."""
    d._enter(entry)  # noqa: SLF001 - the snapshot is the other half of the dispatcher
    if entry.lease is not None:
        d.board.lane(entry.ask.lane).in_use += 1
        row = d.board.rows[entry.lease.emulator_id]
        if entry.task_id in (row.active, row.deck):
            d.keys.take(entry.needs(), entry.task_id)
        return
    d.board.waiting += 1
    d.keys.queue(entry.ask.account, entry.ask.task_type, entry.task_id)
    if entry.place is Place.PARKED:
        d.keys.park(entry.parked_on, entry.line(), d.board.order(entry), entry.task_id)
    else:
        d.board.line_up(entry)
