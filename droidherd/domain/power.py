"""Which emulators of a pool are switched off because nobody needs them, and on again because somebody does. Pure.

Only what its host can start is ever stopped. A pool without a policy (`idle_stop_s` 0) stops nothing, and still starts
what it finds stopped when work waits for it.
"""

from droidherd.domain import messages as m
from droidherd.domain.audit import Deed
from droidherd.domain.board import Row
from droidherd.domain.messages import EmulatorState
from droidherd.domain.moves import Moves

REST, WAKE = "rest", "wake"
LATE_MS = 60_000
"""A task that has not asked so long after its time is not waited for any more."""
SOON_LIMIT = 1_000
"""Tasks whose time is near, that are remembered at most."""


def wake(d: Moves, now_ms: int) -> None:
    """Switch on as many as are waited for, less those that are on their way up already.

    Room in a lane is taken by those for whom somebody is on the way: who waits for what nobody can switch on, or for
    somebody busy, keeps nobody else waiting.
    """
    if not d.board.off:
        return
    coming = [row for row in d.board.rows.values() if row.wish == WAKE or row.state is EmulatorState.RECOVERING]
    rooms: dict[str, int] = {}
    for lane in d.board.lanes_in_turn():
        room = d.board.room(lane.name)
        for bucket in d.board.lines_of(lane):
            room -= _raise(d, bucket.requires, min(len(bucket.line), room), coming, now_ms)
        rooms[lane.name] = room
    for _, requires, name in d.soon.values():
        room = rooms.setdefault(name, d.board.room(name)) if name else 1
        if room > 0 and not any(d.board.rows[one].offers(requires) for one in d.board.free):
            rooms[name] = room - _raise(d, requires, 1, coming, now_ms)


def _raise(d: Moves, requires: tuple[str, ...], wanted: int, coming: list[Row], now_ms: int) -> int:
    """For how many somebody is on the way, or is now. Who is counted here is not counted for anybody else."""
    able = [row for row in coming if row.offers(requires)][:wanted]
    coming[:] = [row for row in coming if row not in able]
    off = [row for row in map(d.board.rows.__getitem__, d.board.off) if row.wish != WAKE and row.offers(requires)]
    more = off[: wanted - len(able)]
    for row in more:
        _wish(d, row, now_ms, WAKE)
    return len(able) + len(more)


def rest(d: Moves, now_ms: int) -> None:
    """Switch off what has been idle for long enough; forget whose time has come and who did not."""
    for task_id in [task_id for task_id, (at_ms, *_) in d.soon.items() if now_ms > at_ms + LATE_MS]:
        del d.soon[task_id]
    for due_ms, row in _idle(d):
        if now_ms >= due_ms:
            _wish(d, row, now_ms, REST)
            d.board.refresh(row)


def next_rest_ms(d: Moves) -> int | None:
    """When `rest` has something to do next: one has been idle for long enough, or is kept for somebody who is late."""
    due = [due_ms for due_ms, _ in _idle(d)]
    if d.waits_no_longer and d.config.idle_stop_s:
        due.extend(at_ms + LATE_MS + 1 for at_ms, *_ in d.soon.values())
    return min(due, default=None)


def _idle(d: Moves) -> list[tuple[int, Row]]:
    """When each that may be switched off has been idle for long enough; not those that are kept."""
    if not d.config.idle_stop_s:
        return []
    free = sorted((d.board.rows[one] for one in d.board.free), key=lambda row: row.idle_since_ms)
    up = sum(1 for row in d.board.rows.values() if row.state is EmulatorState.UP and row.wish != REST)
    able = [row for row in free if row.startable and not any(row.offers(needs) for _, needs, _ in d.soon.values())]
    wait_ms = int(d.config.idle_stop_s * 1000)
    return [(row.idle_since_ms + wait_ms, row) for row in able[: max(up - d.config.idle_keep, 0)]]


def _wish(d: Moves, row: Row, now_ms: int, wish: str) -> None:
    row.wish, row.wish_seq = wish, max(row.wish_seq + 1, now_ms)
    d.outbox.put(f"emulator/{row.emulator_id}", m.Switch(wish == WAKE, row.wish_seq))
    why = "work waits for it" if wish == WAKE else f"idle for {d.config.idle_stop_s:g} s"
    d.act(Deed(f"emulator_{wish}", "system:idle", why, "", "", row.emulator_id), now_ms)


def hear(d: Moves, row: Row, news: m.Announce, now_ms: int) -> None:
    """What an emulator says of itself settles what was wished of it.

    Nobody is there who could start it: it is not waited for. That it is to rest is settled by its own word alone: the
    wish may still be on its way, and must not find it in somebody's hands.
    """
    row.startable = news.startable
    if row.wish and (news.switched >= row.wish_seq or (row.wish == WAKE and not news.startable)):
        row.wish = ""
    elif row.wish and news.incarnation > row.incarnation:
        d.outbox.put(f"emulator/{row.emulator_id}", m.Switch(row.wish == WAKE, row.wish_seq))  # it may have lost it
    if news.state is EmulatorState.UP and row.state is not EmulatorState.UP and not row.active:
        row.idle_since_ms = now_ms


def soon(d: Moves, said: m.Soon) -> None:
    """A task's time is near. Only a hint: whoever is not remembered is started for when it asks."""
    if len(d.soon) < SOON_LIMIT:
        d.soon[said.key.task_id] = (said.at_ms, said.requires, said.lane)
