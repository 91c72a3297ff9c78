"""Why a task waits, in one sentence."""

from droidherd.domain.board import Entry
from droidherd.domain.keys import account_key
from droidherd.domain.messages import EmulatorState
from droidherd.domain.moves import Moves

NAMED = "emulator_id="


def why(d: Moves, entry: Entry) -> str:
    """What keeps it, that which a person can change before all else."""
    lane = d.board.lane(entry.ask.lane)
    bar = d.keys.barred.get(account_key(entry.ask.account)) if entry.ask.account else None
    if bar is not None:
        return f"account {entry.ask.account} is disabled by {bar.actor}: {bar.why or 'no reason given'}"
    if lane.paused_by:
        return f"lane {lane.name} is paused by {lane.paused_by}: {lane.paused_why or 'no reason given'}"
    busy = d.keys.busy(entry.needs(), entry.task_id)
    if busy:
        what = "account" if busy.startswith("a:") else "mutex"
        return f"{what} {busy[2:]} is busy with task {d.keys.held[busy]}"
    if lane.in_use >= lane.capacity:
        return f"lane {lane.name} is at its capacity of {lane.capacity}"
    return _no_emulator(d, entry)


def _no_emulator(d: Moves, entry: Entry) -> str:
    able = [row for row in d.board.rows.values() if row.offers(entry.ask.requires)]
    if not able:
        return f"no emulator of pool {d.pool} has {', '.join(entry.ask.requires) or 'joined yet'}"
    if all(row.state is EmulatorState.RETIRED for row in able):
        named = next((need for need in entry.ask.requires if need.startswith(NAMED)), "")
        only = f"emulator {named.removeprefix(NAMED)}, the only one that may run it," if named else "what could run it"
        return f"{only} is retired: connect it again, or name another"
    up = [row for row in able if row.state is EmulatorState.UP]
    coming = [row for row in able if row.wish == "wake"]
    if not up and coming:
        return f"emulator {coming[0].emulator_id} is being switched on for it"
    if not up:
        return f"none of the {len(able)} emulators that could run it is up"
    return f"{d.board.position(entry) - 1} before it, {len(up)} emulators busy"
