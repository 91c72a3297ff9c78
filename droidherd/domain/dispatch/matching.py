"""Matching: heads of buckets and emulators are brought together, lane by lane in turn."""

from collections.abc import Callable

from droidherd.domain.dispatch.board import Board, Entry, PoolEmulator
from droidherd.domain.dispatch.deck import Deck
from droidherd.domain.dispatch.leases import Leases
from droidherd.domain.dispatch.line import WaitingLine
from droidherd.domain.messages import RevokeReason

Choose = Callable[[Entry], PoolEmulator | None]
Unfit = dict[tuple[str, ...], None]
"""Requirements that no emulator meets which can be granted now."""


class Matching:
    """Owns the lanes' turns. Whether anything may be granted at all is the dispatcher's decision."""

    def __init__(self, board: Board, line: WaitingLine, leases: Leases, deck: Deck) -> None:
        self._board, self._line, self._leases, self._deck = board, line, leases, deck

    def grant_all(self, now_ms: int) -> None:
        """Grant everything that can be granted now: free emulators first, then those that are free soon."""
        unfit: Unfit = {}
        while self._grant_one(self._board.choose, unfit, bool(self._board.free), now_ms):
            pass
        unfit = {}
        while self._grant_on_deck(unfit, now_ms):
            pass
        emulator = self._deck.to_steal(now_ms)
        if emulator is not None:
            self._leases.revoke(emulator.deck, RevokeReason.DECK)

    def _grant_on_deck(self, unfit: Unfit, now_ms: int) -> bool:
        decks = self._deck.open_emulators()
        return self._grant_one(lambda entry: self._deck.choose(entry, decks), unfit, bool(decks), now_ms)

    def _grant_one(self, choose: Choose, unfit: Unfit, any_emulator: bool, now_ms: int) -> bool:
        """Whether to try again: something was granted, or parking one task has woken another.

        Grants leave fewer emulators to choose from, so what found none needs no second look.
        """
        self._line.woken = False
        if not any_emulator:
            return False
        for lane in self._board.lanes_in_turn():
            for entry in self._line.heads(lane):
                emulator = choose(entry) if entry.ask.requires not in unfit else None
                if emulator is None:
                    unfit[entry.ask.requires] = None
                else:
                    self._board.took_turn(lane)
                    self._leases.grant(entry, emulator, now_ms)
                    return True
        return self._line.woken
