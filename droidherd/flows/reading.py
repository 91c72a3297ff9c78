"""What a flow reads off the screen into variables, and what it asks of them. Pure, but for the model."""

import re
from typing import Self

from pydantic import Field, model_validator

from droidherd import patterns
from droidherd.flows.part import Part
from droidherd.flows.scalars import Name, Seconds
from droidherd.flows.targets import WAIT_MAX_S, Area, Pattern, UiQuery, one_of

VALUE_MAX = 100
"""Characters: a value is kept in the journal on the emulator."""
_SPAN_MAX = 2_000
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,9})?", re.ASCII)
_GROUPED = re.compile(r"-?\d{1,3}([,' ]\d{3}){1,4}(\.\d{1,9})?", re.ASCII)


class ReadText(Part):
    """Words, read off the screen (OCR)."""

    area: Area | None = Field(default=None, description="left, top, right, bottom, in percent; the smaller the faster")


class Read(Part):
    """Read something off the screen into a variable, which keeps its value also when the stage runs again."""

    ui: UiQuery | None = Field(default=None, description="what this element says")
    text: ReadText | None = Field(default=None, description="the words in an area; needs the extra ocr")
    match: Pattern | None = Field(default=None, description="what of it: the first group, or all that matches")
    into: Name = Field(description="the variable")
    within: Seconds = Field(default=10.0, gt=0, le=WAIT_MAX_S, description="how long to wait until it can be read")

    @model_validator(mode="after")
    def _judge(self) -> Self:
        one_of(self, "ui", "text")
        return self


def value_in(said: str, match: str | None) -> str:
    """The part of what was read that is asked for, in one line; empty when it is not there."""
    line = " ".join(said.split())[:_SPAN_MAX]
    if match is None:
        return line
    found = patterns.search(patterns.compiled(match), line)
    if found is None:
        return ""
    return ((found[1] or "") if found.re.groups else found[0]).strip()


def number_in(value: str) -> float:
    """The number that a value is, thousands grouped or not. ValueError when it is none."""
    text = value.strip()
    if _GROUPED.fullmatch(text):
        text = re.sub(r"[,' ]", "", text)
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{value[:40]!r} is not a number")
    return float(text)
