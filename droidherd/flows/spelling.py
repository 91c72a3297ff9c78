"""The nearest known word, for errors that say what was probably meant."""

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """One known word that is near, or an empty text."""
    found = difflib.get_close_matches(word[:100].lower(), sorted(known), n=1, cutoff=0.6)
    return found[0] if found else ""
