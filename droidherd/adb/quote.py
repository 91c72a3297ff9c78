"""The one function through which a text reaches a shell on an emulator, and what `input text` can carry."""

import unicodedata

from droidherd.domain.errors import BadParametersError

QUOTED_LIMIT_BYTES = 8192
TEXT_LIMIT = 1000
SPACE = "%s"


def quote(text: str, limit_bytes: int = QUOTED_LIMIT_BYTES) -> str:
    """One shell word that means exactly `text`."""
    if "\0" in text:
        raise BadParametersError("a NUL character cannot reach an emulator's shell", remedy="remove it")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise BadParametersError("the text is not valid Unicode", remedy="send UTF-8") from error
    if size > limit_bytes:
        raise BadParametersError(f"{size} bytes are too long for a shell line", remedy=f"at most {limit_bytes}")
    return "'" + text.replace("'", "'\\''") + "'"


def is_plain(text: str) -> bool:
    """Whether each character has a key: what `input text` can type. ASCII without control characters."""
    return all(" " <= character <= "~" for character in text)


def typeable(text: str) -> str:
    """The same text, if it can be typed at all. A new line or a tab is a key: it may send a form off."""
    if len(text) > TEXT_LIMIT:
        raise BadParametersError(f"{len(text)} characters are too many to type", remedy=f"at most {TEXT_LIMIT}")
    for character in text:
        if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}:
            raise BadParametersError(
                f"the character U+{ord(character):04X} cannot be typed", remedy="use a key step for Enter and Tab"
            )
    return text


def input_text(text: str) -> str:
    """Build the command that types `text`; nothing is left to type for an empty one."""
    for character in typeable(text):
        if not " " <= character <= "~":
            raise BadParametersError(
                f"the character U+{ord(character):04X} cannot be typed with `input text`",
                remedy="only printable ASCII can",
            )
    # `input` turns %s into a space wherever it stands, so a real %s is typed as two pieces.
    pieces = text.replace(SPACE, "%\0s").split("\0")
    return " && ".join(f"input text {quote(piece.replace(' ', SPACE))}" for piece in pieces if piece) or ":"
