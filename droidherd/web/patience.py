"""How long a server that is busy asks to be left alone. Pure."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def patience_s(retry_after: str, date: str, now_s: float) -> float:
    """From `Retry-After`, which holds seconds or a moment; 0 when it says nothing that can be read.

    A moment is one of the server's own clock, which its `Date` tells; without one it is taken for ours.
    """
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    moment = _moment(text)
    if moment is None:
        return 0.0
    now = _moment(date) or datetime.fromtimestamp(now_s, UTC)
    return max((moment - now).total_seconds(), 0.0)


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
