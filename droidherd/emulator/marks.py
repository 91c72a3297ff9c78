"""Values kept in the journal on the emulator: one word each, which says by itself when it broke off.

`=` begins it and `.` ends it; between them stands the text, as UTF-8 in base 64 for URLs.
"""

import base64
import binascii

from droidherd.domain.errors import BadParametersError

VALUE_MAX = 100
"""Characters: a line of a journal is read again and again."""


def word_of(value: str) -> str:
    """The word that keeps a value; none for the empty value."""
    if not value:
        return ""
    if len(value) > VALUE_MAX:
        raise BadParametersError(f"a value of {len(value)} characters is too long for a journal, {VALUE_MAX} are not")
    return f"={base64.urlsafe_b64encode(value.encode()).decode().rstrip('=')}."


def value_of(word: str) -> str | None:
    """The value that a word keeps; none when it broke off."""
    if not word:
        return ""
    if not (word.startswith("=") and word.endswith(".")):
        return None
    text = word[1:-1]
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
