"""A dispatcher as text, and back. Rows with interned strings, zlib, base85.

Continuing as new with more than 2 MB of input wedges a workflow for ever, so this is the form that crosses.
Unknown trailing columns are ignored and missing ones take their defaults: an older run can be read by newer code.
"""

import base64
import json
import zlib
from typing import Any

from droidherd.domain import messages as m
from droidherd.domain.board import Entry, Lane, Place, Row
from droidherd.domain.dispatcher import Dispatcher
from droidherd.domain.moves import Config, Event, Tally

VERSION = 1


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


def dump(d: Dispatcher) -> str:
    """Everything a successor needs."""
    strings = _Strings()
    document: dict[str, Any] = {
        "version": VERSION,
        "lanes": [
            [x.name, x.capacity, x.weight, x.by_priority, x.paused_by, x.paused_why, x.turns]
            for x in d.board.lanes.values()
        ],
        "rows": [_row(row) for row in d.board.rows.values()],
        "entries": [_entry(entry, strings) for entry in d.board.entries.values()],
        "free": list(d.board.free),
        "counters": [
            d.board.last_token,
            d.board.last_ticket,
            d.cursor,
            d.joined_ms,
            d.generation,
            d.rebuild_until_ms,
            d.quiet_until_ms,
            d.blind_ms,
        ],
        "recent": list(d.recent.items()),
        "tallies": [[name, t.count, t.completed, t.seconds, t.waited_s] for name, t in d.tallies.items()],
        "events": [[e.cursor, e.at_ms, e.kind, e.task_id, e.emulator_id, e.detail] for e in d.events],
        "unheard": list(d.unheard.items()),
        "outbox": d.outbox.rows(),
    }
    document["strings"] = strings.all
    raw = json.dumps(document, separators=(",", ":")).encode()
    return base64.b85encode(zlib.compress(raw, 6)).decode()


def load(text: str, pool: str, config: Config) -> Dispatcher:
    """The dispatcher a text stands for. What is derived is derived again."""
    document = json.loads(zlib.decompress(base64.b85decode(text)))
    strings: list[str] = document["strings"]
    d = Dispatcher(pool, config)
    for name, capacity, weight, by_priority, paused_by, paused_why, turns, *_ in document["lanes"]:
        d.board.lanes[name] = Lane(name, capacity, weight, by_priority, paused_by, paused_why, turns=turns)
    for row in document["rows"]:
        d.board.rows[row[0]] = Row(row[0], row[1], m.EmulatorState(row[2]), tuple(row[3]), *row[4:12])
    counters = document["counters"]
    d.board.last_token, d.board.last_ticket, d.cursor, d.joined_ms, d.generation, d.rebuild_until_ms = counters[:6]
    d.quiet_until_ms, d.blind_ms = counters[6:8]
    for row in document["entries"]:
        _stand(d, _read_entry(row, strings))
    for emulator_id in document["free"]:
        d.board.refresh(d.board.rows[emulator_id])
    d.recent = dict(document["recent"])
    d.tallies = {name: Tally(*rest) for name, *rest in document["tallies"]}
    d.events.extend(Event(*row) for row in document["events"])
    d.unheard = dict(document["unheard"])
    d.outbox.restore(document["outbox"])
    return d


def _row(r: Row) -> list[Any]:
    where = [r.emulator_id, r.host_id, r.state, list(r.labels), r.incarnation, r.seq, r.boot]
    return [*where, r.active, r.deck, r.idle_since_ms, r.dirty, r.tidied]


def _entry(e: Entry, strings: _Strings) -> list[Any]:
    ask = e.ask
    put = strings.put
    lease = e.lease
    return [
        ask.key.task_id,
        ask.key.run,
        ask.key.attempt,
        ask.seq,
        put(ask.lane),
        put(ask.task_type),
        [put(need) for need in ask.requires],
        put(ask.account),
        [put(name) for name in ask.mutex],
        ask.priority,
        int(ask.on_busy is m.OnBusy.QUEUE),
        e.ticket,
        ask.hold_s,
        int(ask.single),
        put(ask.sticky),
        put(ask.avoid),
        e.since_ms,
        put(e.place),
        put(e.parked_on),
        [lease.token, lease.emulator_id, lease.host_id, lease.expires_at_ms, lease.after, lease.incarnation]
        if lease
        else 0,
        e.granted_ms,
        int(e.ending),
        e.fence_until_ms,
        put(e.revoked),
        ask.lost,
    ]


def _read_entry(row: list[Any], strings: list[str]) -> Entry:
    ask = m.Enqueue(
        m.Key(row[0], row[1], row[2]),
        row[3],
        strings[row[4]],
        strings[row[5]],
        tuple(strings[i] for i in row[6]),
        strings[row[7]],
        tuple(strings[i] for i in row[8]),
        row[9],
        m.OnBusy.QUEUE if row[10] else m.OnBusy.REJECT,
        row[11],
        row[12],
        bool(row[13]),
        strings[row[14]],
        strings[row[15]],
        lost=row[24],
    )
    lease = m.Lease(*row[19]) if row[19] else None
    place = Place(strings[row[17]])
    return Entry(
        ask, row[11], row[16], place, strings[row[18]], lease, row[20], bool(row[21]), row[22], strings[row[23]]
    )


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
