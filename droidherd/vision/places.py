"""Where pictures were seen last: a hint for the next search, and never more than that."""

import threading
from collections import OrderedDict
from collections.abc import Hashable

from droidherd.domain.ports import Box, Match


class Places:
    """Last places by what was sought; the longest unused is dropped. For several threads."""

    def __init__(self, limit: int = 1024) -> None:
        """`limit` is a number of places."""
        self._limit = limit
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Box] = OrderedDict()

    def last(self, sought: Hashable) -> Box | None:
        with self._lock:
            return self._kept.get(sought)

    def note(self, sought: Hashable, match: Match) -> None:
        """Remember where it was found. What is not there now may be there again: its place stays."""
        if not match.found:
            return
        with self._lock:
            self._kept[sought] = match.box
            self._kept.move_to_end(sought)
            while len(self._kept) > self._limit:
                self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)
