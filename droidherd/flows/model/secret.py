"""Typing what nobody may read: a flow names a credential, and only the worker that types it knows the text."""

from collections.abc import Callable, Iterator

from pydantic import JsonValue

from droidherd.contracts.plan import Plan
from droidherd.domain.errors import (
    AbandonedError,
    CommandFailedError,
    DroidherdError,
    EmulatorLostError,
    FencedError,
    LateError,
    NotSentError,
)
from droidherd.domain.ports import Acted

OUR_WORDS = (AbandonedError, EmulatorLostError, FencedError, LateError, NotSentError)
"""Errors that say nothing an emulator printed."""
KEPT_BACK = "the emulator's answer is kept back, since it may repeat what was typed"


def secrets_of(plan: Plan) -> list[str]:
    """The credentials a plan types, each once, in order."""
    named: dict[str, None] = {}
    for steps in (*[(*stage.steps, *stage.undo) for stage in plan.stages], plan.cleanup):
        named |= dict.fromkeys(_names_in(list(steps)))
    if plan.screen_map is not None:
        named |= dict.fromkeys(_names_in(plan.screen_map.model_dump(mode="json")))
    return list(named)


def _names_in(value: JsonValue) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _names_in(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            text = item.get("text") if key == "type" and isinstance(item, dict) else None
            name = text.get("secret") if isinstance(text, dict) else None
            if isinstance(name, str):
                yield name
            yield from _names_in(item)


def hush(what: str, act: Callable[[], Acted]) -> Callable[[], Acted]:
    """The same act; what an emulator answered to it stands in no error."""

    def inner() -> Acted:
        try:
            return act()
        except OUR_WORDS:
            raise
        except CommandFailedError as error:
            raise CommandFailedError(f"{what}: {KEPT_BACK}", rc=error.rc, to=error.to) from None
        except DroidherdError as error:
            raise type(error)(f"{what}: {KEPT_BACK}", to=error.to, remedy=error.remedy) from None

    return inner
