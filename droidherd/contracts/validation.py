"""What pydantic refused, as a sentence for whoever wrote it: the field, what was given, what is allowed.

No other module has words for pydantic's types of errors. For flow files `flows/lint/problems.py` adds what fixes them.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from droidherd.domain import ids
from droidherd.domain.text import nearest, visible

FREE = frozenset({"params", "past", "snapshot"})
"""Below these, texts and numbers are what a flow, or the run before, made of them."""
HIDDEN = FREE | {"credentials", "key", "keys"}
"""Below these, what was given may be a secret, and is not repeated."""
OF_A_NAME = "[key]"
"""So pydantic says that an entry's name is wrong, and not its value."""
GIVEN_MAX = 40
"""Characters of what was given that are repeated."""
TIME = "must be a time with a time zone, as 2026-11-20T08:00:00Z"
TEXTS: Mapping[str, str] = {
    "missing": "is missing",
    "bool": "must be true or false",
    "int": "must be a whole number",
    "float": "must be a number",
    "finite_number": "must be a finite number",
    "string": "must be text",
    "tuple": "must be a list",
    "list": "must be a list",
    "dict": "must be {mapping}",
    "model": "must be {mapping}",
    "dataclass": "must be {mapping}",
    "datetime": TIME,
    "timezone": TIME,
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "literal_error": "must be one of: {expected}",
    "enum": "must be one of: {expected}",
    "string_too_long": "has too many characters; at most {max_length} are taken",
    "string_too_short": "has too few characters; at least {min_length} are needed",
    "too_long": "has too many entries; at most {max_length} are taken",
    "too_short": "has too few entries; at least {min_length} are needed",
    "value_error": "{error}",
}
"""By pydantic's type of the error, or how that begins."""
_REPEATED = ("bool", "int", "float", "finite", "datetime", "timezone", "greater", "less", "literal", "enum")
"""How the types begin of errors about values that are no secrets: numbers, times, and one of a few words."""
_VERBS = ("is ", "must ", "has ")
_ONE_OF = re.compile(r"\^\(([\w|]+)\)\$")
_SHOULD = re.compile(r"^(Value error, |\w+ should (?=\w))")


class BadTimeError(ValueError):
    """A text that is no time may be repeated: it is no secret."""


def explain(error: ValidationError, kind: Any = None, *, secret: bool = False) -> str:
    """The first thing that is wrong. `kind`: what was to be made, for the names of fields that it has.

    `secret`: what was given may stand for a secret anywhere, and is not repeated.
    """
    return _sentence(error.errors(include_url=False, include_input=not secret)[0], kind)


def explain_all(error: ValidationError, kind: Any = None, *, secret: bool = False) -> str:
    """Everything that is wrong, one sentence after the other."""
    return "; ".join(_sentence(one, kind) for one in error.errors(include_url=False, include_input=not secret))


def _sentence(found: Mapping[str, Any], kind: Any) -> str:
    return sentence_of(path_of(found["loc"]), message_of(found, kind))


def sentence_of(field: str, message: str) -> str:
    """`priority is 11; it must be at most 10`; a message that is a sentence of its own follows a colon."""
    if message.startswith(_VERBS):
        return f"{field or 'the argument'} {message}"
    return f"{field}: {message}" if field else message


def path_of(loc: Sequence[int | str]) -> str:
    """The field, as it stands in what was written."""
    return ".".join(str(part) for part in loc if part != OF_A_NAME)


def message_of(found: Mapping[str, Any], kind: Any = None, *, mapping: str = "an object") -> str:
    """What is wrong with one field: `is 11; it must be at most 10`. `mapping`: what the file calls an object."""
    if found["type"] == "extra_forbidden":
        return f"is not known here{meant(str(found['loc'][-1]), known_fields(kind, found['loc'][:-1]))}"
    rule = _rule(found, mapping)
    given = _given(found) if rule.startswith("must") else ""
    return f"is {given}; it {rule}" if given else rule


def meant(word: str, known: Sequence[str]) -> str:
    """What a name that is not known was probably meant to be; else the names that are known."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|-", "_", word[:GIVEN_MAX]).lower()
    if near := nearest(snake, known):
        return f"; did you mean {near}?"
    return f"; known are: {', '.join(known)}" if known else ""


def known_fields(kind: Any, loc: Sequence[int | str]) -> list[str]:
    """The names of the fields at this place of a model; empty when no model is there."""
    return [name for model in _models(kind, loc) for name in _names(model)]


def _names(model: type[BaseModel]) -> Iterator[str]:
    return (field.alias or name for name, field in model.model_fields.items())


def _models(kind: Any, loc: Sequence[int | str]) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        if not loc:
            yield kind
        for name, field in kind.model_fields.items():
            if loc and loc[0] in (name, field.alias):
                yield from _models(field.annotation, loc[1:])
    elif get_origin(kind) is Annotated:
        yield from _models(get_args(kind)[0], loc)
    elif get_origin(kind) in (Union, UnionType):
        for one in get_args(kind):
            yield from _models(one, loc)
    elif loc:  # an entry of a list, or of an object
        for one in get_args(kind):
            yield from _models(one, loc[1:])


def _rule(found: Mapping[str, Any], mapping: str) -> str:
    context = found.get("ctx", {})
    pattern = str(context.get("pattern", ""))
    if rule := ids.RULES.get(pattern):
        return rule
    if words := _ONE_OF.fullmatch(pattern):
        return f"must be one of: {words[1].replace('|', ', ')}"
    kind = str(found["type"])
    text = TEXTS.get(kind) or TEXTS.get(kind.partition("_")[0])
    if pattern:
        return f"must fit the pattern {pattern}"
    if text is None:
        return _SHOULD.sub(lambda one: "" if one[0].startswith("Value") else "must ", str(found["msg"]))
    expected = str(context.get("expected", "")).replace("'", "").replace(" or ", ", ")
    return text.format(**{**context, "expected": expected, "mapping": mapping})


def _given(found: Mapping[str, Any]) -> str:
    """What was given, when it is short and no secret; else empty."""
    value, kind = found.get("input"), str(found["type"])
    context = found.get("ctx", {})
    is_harmless = str(context.get("pattern", "")) in ids.RULES or isinstance(context.get("error"), BadTimeError)
    if not (kind.startswith(_REPEATED) or is_harmless) or HIDDEN.intersection(found["loc"]):
        return ""
    if not isinstance(value, str | bool | int | float):
        return ""
    text = value if isinstance(value, str) else json.dumps(value)
    shown = visible(text if len(text) <= GIVEN_MAX else f"{text[:GIVEN_MAX]}…")
    return f"'{shown}'" if isinstance(value, str) else shown
