"""Text from outside: made harmless for whoever reads it on a terminal, and compared with what was meant. Pure."""

import difflib
import re
from collections.abc import Iterable

COMMANDS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
"""What moves the cursor, changes colours or titles, turns the direction of text, or is no character at all."""
_OBEYED = re.compile(f"[{COMMANDS}]")
_OBEYED_IN_JSON = re.compile(f"[{COMMANDS}\u2028\u2029]")


def visible(text: str) -> str:
    r"""The text with everything that a terminal would obey spelt out: `\x1b[31m`. Line ends and tabs stay."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text.replace("\r\n", "\n"))


def visible_in_json(document: str) -> str:
    """A JSON document that means the same: `json` leaves the second block of control characters as it is."""
    return _OBEYED_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def nearest(word: str, known: Iterable[str]) -> str:
    """One known word that is near, or an empty text: for errors that say what was probably meant."""
    found = difflib.get_close_matches(word[:100].lower(), sorted(known), n=1, cutoff=0.6)
    return found[0] if found else ""
