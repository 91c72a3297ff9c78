"""Regular expressions that a flow brings: tried with a limit, so that none of them holds up a process.

Python's own cannot be stopped, nothing else runs meanwhile, and repetitions inside repetitions may take for ever.
"""

import time
from collections.abc import Callable

import regex

from droidherd.domain.errors import FlowError

LIMIT_S = 0.25
REMEDY = "write it without repetitions inside repetitions, as in (a+)+"


def compile_pattern(source: str, *, any_case: bool = False) -> regex.Pattern[str]:
    """ValueError when it is none."""
    try:
        return regex.compile(source, regex.IGNORECASE if any_case else 0)
    except regex.error as error:
        raise ValueError(f"is not a regular expression: {error}") from error


def search(pattern: regex.Pattern[str], text: str) -> regex.Match[str] | None:
    """Where it is found first. FlowError when that takes too long."""
    return _match_in_time(pattern, text, lambda limit_s: pattern.search(text, timeout=limit_s))


def fullmatch(pattern: regex.Pattern[str], text: str) -> regex.Match[str] | None:
    """Whether the whole text is like that. FlowError when that takes too long."""
    return _match_in_time(pattern, text, lambda limit_s: pattern.fullmatch(text, timeout=limit_s))


def _match_in_time(
    pattern: regex.Pattern[str], text: str, ask: Callable[[float], regex.Match[str] | None]
) -> regex.Match[str] | None:
    """The library's limit counts what all threads of the process compute; only this one's time tells of the pattern."""
    began, limit_s = time.thread_time(), LIMIT_S
    while True:
        try:
            return ask(limit_s)
        except TimeoutError as error:
            if time.thread_time() - began >= LIMIT_S:
                what = f"the pattern {pattern.pattern!r} takes too long on a text of {len(text)} characters"
                raise FlowError(what, remedy=REMEDY) from error
            limit_s *= 2
