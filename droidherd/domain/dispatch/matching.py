"""Matching: heads of buckets and emulators are brought together, lane by lane in turn."""

from collections.abc import Callable

from droidherd.domain.dispatch.board import Board, Entry, PoolEmulator
from droidherd.domain.dispatch.deck import Deck
from droidherd.domain.dispatch.leases import Leases
from droidherd.domain.dispatch.line import WaitingLine
from droidherd.domain.messages import RevokeReason

Choose = Callable[[Entry], PoolEmulator | None]


class Matching:
    """Owns the lanes' turns. Whether anything may be granted at all is the dispatcher's decision."""

    def __init__(self, board: Board, line: WaitingLine, leases: Leases, deck: Deck) -> None:
        self._board, self._line, self._leases, self._deck = board, line, leases, deck

    def grant_all(self, now_ms: int) -> None:
        """Grant everything that can be granted now: free emulators first, then those that are free soon."""
        while self._grant_one(self._board.choose, bool(self._board.free), now_ms):
            pass
        while self._grant_on_deck(now_ms):
            pass
        emulator = self._deck.to_steal(now_ms)
        if emulator is not None:
            self._leases.revoke(emulator.deck, RevokeReason.DECK)

    def _grant_on_deck(self, now_ms: int) -> bool:
        decks = self._deck.open_emulators()
        return self._grant_one(lambda entry: self._deck.choose(entry, decks), bool(decks), now_ms)

    def _grant_one(self, choose: Choose, any_emulator: bool, now_ms: int) -> bool:
        """Whether to try again: something was granted, or parking one task has woken another."""
        self._line.woken = False
        if not any_emulator:
            return False
        for lane in self._board.lanes_in_turn():
            for entry in self._line.heads(lane):
                emulator = choose(entry)
                if emulator is not None:
                    self._board.took_turn(lane)
                    self._leases.grant(entry, emulator, now_ms)
                    return True
        return self._line.woken
