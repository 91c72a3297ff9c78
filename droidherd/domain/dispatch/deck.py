"""On deck: the next task lines up on an emulator's queue behind one that ends soon, so that it never stands idle."""

from collections.abc import Iterator

from droidherd.domain.dispatch.board import Entry, EntryState, PoolEmulator, named_emulator
from droidherd.domain.dispatch.messenger import Messenger
from droidherd.domain.dispatch.state import DispatcherState
from droidherd.domain.messages import EmulatorStatus, RevokeReason

STEAL_AFTER_MS = 2_000


class Deck:
    """Which emulators take a task on deck, and from which a free one takes it over. Changes nothing."""

    def __init__(self, state: DispatcherState, messenger: Messenger) -> None:
        self._state, self._board, self._messenger = state, state.board, messenger

    def open_emulators(self) -> list[PoolEmulator]:
        """Where a task may queue up now."""
        emulators = self._board.emulators.values()
        return [one for one in emulators if self._is_open(one) and self._ends_soon(self._board.entries[one.active])]

    def choose(self, entry: Entry, decks: list[PoolEmulator]) -> PoolEmulator | None:
        """One of these for this task: last the one it just lost."""
        named = named_emulator(entry.ask.requires)
        able = [one for one in decks if named in ("", one.emulator_id) and one.offers(entry.ask.requires)]
        return next((one for one in able if one.emulator_id != entry.ask.avoid), able[0] if able else None)

    def _is_open(self, emulator: PoolEmulator) -> bool:
        """Whether a next task may queue up behind the one that runs there."""
        entry = self._board.entries.get(emulator.active)
        return (
            emulator.state is EmulatorStatus.UP
            and not emulator.deck
            and not emulator.switch
            and not emulator.dirty
            and entry is not None
            and entry.ending
            and entry.state is EntryState.ACTIVE
            and not entry.must_let_go()
        )

    def _ends_soon(self, holder: Entry) -> bool:
        """Whether what runs usually ends soon, and has a head start on whoever is granted the deck now.

        Two grants sent together would race for the emulator's queue; one that was delivered is a whole trip ahead.
        """
        if holder.ask.single and self._messenger.grant_underway(holder.task_id):
            return False
        mean = self._state.stats.of(holder.ask.task_type).run.mean_s()
        return mean is not None and mean <= self._state.config.deck_horizon_s

    def due_ms(self) -> Iterator[int]:
        """When a task on deck becomes worth taking over by an emulator that is free."""
        if self._board.free:
            yield from (due_ms for due_ms, _ in self._stealable())

    def to_steal(self, now_ms: int) -> PoolEmulator | None:
        """Whose deck a free emulator takes over now: that of one behind something slow."""
        if not self._board.free:
            return None
        return next((emulator for due_ms, emulator in self._stealable() if now_ms >= due_ms), None)

    def _stealable(self) -> Iterator[tuple[int, PoolEmulator]]:
        """Who stands on deck though a free emulator could run it, and from when on it is worth the change."""
        idle = [self._board.emulators[emulator_id] for emulator_id in self._board.free]
        for emulator in self._board.emulators.values():
            entry = self._board.entries.get(emulator.deck)
            ahead = self._board.entries.get(emulator.active)
            if entry is None or ahead is None or entry.revoked.startswith(RevokeReason.DECK):
                continue
            if entry.state is EntryState.DECK and any(one.offers(entry.ask.requires) for one in idle):
                yield ahead.granted_ms + STEAL_AFTER_MS, emulator
