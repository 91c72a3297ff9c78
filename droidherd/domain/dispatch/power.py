"""Which emulators of a pool are switched off because nobody needs them, and on again because somebody does.

Only what its host can start is ever stopped. A pool without a policy (`idle_stop_s` 0) stops nothing, and still starts
what it finds stopped when work waits for it.
"""

from collections.abc import Iterator

from droidherd.domain import messages as m
from droidherd.domain.dispatch.audit import AuditEntry, AuditRecorder
from droidherd.domain.dispatch.board import SWITCH_OFF, SWITCH_ON, PoolEmulator
from droidherd.domain.dispatch.messenger import Messenger
from droidherd.domain.dispatch.state import DispatcherState, ExpectedTask
from droidherd.domain.messages import EmulatorStatus

LATE_MS = 60_000
"""A task that has not asked so long after its time is not waited for any more."""
EXPECTED_MAX = 1_000
EXPECTED_BYTES = 100_000
"""Tasks whose time is near, that are remembered at most, and what they may weigh."""


class PowerControl:
    """Owns what was asked of each emulator (`switch`), and the tasks whose time is near (`expected`)."""

    def __init__(self, state: DispatcherState, messenger: Messenger, audit_recorder: AuditRecorder) -> None:
        self._state, self._board = state, state.board
        self._messenger, self._audit_recorder = messenger, audit_recorder

    def expect(self, message: m.Soon) -> None:
        """A task's time is near. Only a hint: for whoever is not remembered an emulator is started when it asks."""
        task_id, weight = message.key.task_id, self._state.weight
        self.on_arrived(task_id)
        if len(self._state.expected) < EXPECTED_MAX and weight.expected_bytes < EXPECTED_BYTES and not weight.is_full():
            task = ExpectedTask(message.at_ms, message.requires, message.lane)
            self._state.expected[task_id] = task
            weight.add_expected(task_id, task)

    def on_arrived(self, task_id: str) -> None:
        """It asked, or it will not."""
        task = self._state.expected.pop(task_id, None)
        if task is not None:
            self._state.weight.remove_expected(task_id, task)

    def switch_on(self, now_ms: int) -> None:
        """Switch on as many as are waited for, less those that are on their way up already.

        Room in a lane is taken by those for whom somebody is on the way: who waits for what nobody can switch on, or
        for somebody busy, keeps nobody else waiting.
        """
        board = self._board
        if not board.off:
            return
        emulators = board.emulators.values()
        coming = [one for one in emulators if one.switch == SWITCH_ON or one.state is EmulatorStatus.RECOVERING]
        capacity: dict[str, int] = {}
        for lane in board.lanes_in_turn():
            left = board.free_capacity(lane.name)
            for bucket in board.lines_of(lane):
                left -= self._provide(bucket.requires, min(len(bucket.line), left), coming, now_ms)
            capacity[lane.name] = left
        for task in self._state.expected.values():
            left = capacity.setdefault(task.lane, board.free_capacity(task.lane)) if task.lane else 1
            if left > 0 and not any(board.emulators[one].offers(task.requires) for one in board.free):
                capacity[task.lane] = left - self._provide(task.requires, 1, coming, now_ms)

    def _provide(self, requires: tuple[str, ...], wanted: int, coming: list[PoolEmulator], now_ms: int) -> int:
        """For how many somebody is on the way, or is now. Who is counted here is not counted for anybody else."""
        able = [one for one in coming if one.offers(requires)][:wanted]
        coming[:] = [one for one in coming if one not in able]
        off = [self._board.emulators[emulator_id] for emulator_id in self._board.off]
        more = [one for one in off if one.switch != SWITCH_ON and one.offers(requires)][: wanted - len(able)]
        for emulator in more:
            self._switch(emulator, now_ms, SWITCH_ON)
        return len(able) + len(more)

    def switch_off(self, now_ms: int) -> None:
        """Switch off what has been idle for long enough; forget whose time has come and who did not ask."""
        expected = self._state.expected
        for task_id in [task_id for task_id, task in expected.items() if now_ms > task.at_ms + LATE_MS]:
            self.on_arrived(task_id)
        for due_ms, emulator in self._idle():
            if now_ms >= due_ms:
                self._switch(emulator, now_ms, SWITCH_OFF)
                self._board.refresh(emulator)

    def due_ms(self) -> Iterator[int]:
        """When one has been idle for long enough, or is kept for somebody who is late."""
        yield from (due_ms for due_ms, _ in self._idle())
        if self._state.config.idle_stop_s:
            yield from (task.at_ms + LATE_MS + 1 for task in self._state.expected.values())

    def _idle(self) -> list[tuple[int, PoolEmulator]]:
        """When each that may be switched off has been idle for long enough; not those that are kept."""
        config, emulators = self._state.config, self._board.emulators
        if not config.idle_stop_s:
            return []
        free = sorted((emulators[one] for one in self._board.free), key=lambda emulator: emulator.idle_since_ms)
        up = sum(1 for one in emulators.values() if one.state is EmulatorStatus.UP and one.switch != SWITCH_OFF)
        expected = self._state.expected.values()
        able = [one for one in free if one.startable and not any(one.offers(task.requires) for task in expected)]
        wait_ms = int(config.idle_stop_s * 1000)
        return [(one.idle_since_ms + wait_ms, one) for one in able[: max(up - config.idle_keep, 0)]]

    def _switch(self, emulator: PoolEmulator, now_ms: int, switch: str) -> None:
        emulator.switch, emulator.switch_seq = switch, max(emulator.switch_seq + 1, now_ms)
        self._send(emulator)
        why = "work waits for it" if switch == SWITCH_ON else f"idle for {self._state.config.idle_stop_s:g} s"
        entry = AuditEntry(f"emulator_{switch}", "system:idle", why, "", "", emulator.emulator_id)
        self._audit_recorder.record(entry, now_ms)

    def _send(self, emulator: PoolEmulator) -> None:
        message = m.Switch(emulator.switch == SWITCH_ON, emulator.switch_seq)
        self._messenger.to_emulator(emulator.emulator_id, message)

    def on_announced(self, emulator: PoolEmulator, news: m.Announce, now_ms: int) -> None:
        """What an emulator says of itself settles what was asked of it. `emulator`: as it was known before.

        Nobody is there who could start it: it is not waited for. That it is to be off is settled by its own word
        alone: the request may still be on its way, and must not reach it while a task holds it.
        """
        emulator.startable = news.startable
        settled = news.switched >= emulator.switch_seq or (emulator.switch == SWITCH_ON and not news.startable)
        if emulator.switch and settled:
            emulator.switch = ""
            emulator.switch_seq = max(emulator.switch_seq, news.switched)  # it obeys only what lies beyond
        elif emulator.switch and (news.incarnation > emulator.incarnation or not news.switched):
            self._send(emulator)  # it may have lost it; a run that begins has settled none, whatever its incarnation
        if news.state is EmulatorStatus.UP and emulator.state is not EmulatorStatus.UP and not emulator.active:
            emulator.idle_since_ms = now_ms
