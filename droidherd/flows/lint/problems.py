"""What is wrong with a flow, with what fixes it: file, line, what, fix."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from droidherd.contracts.validation import message_of, sentence_of
from droidherd.domain.text import nearest
from droidherd.flows.lint.foreign import our_word
from droidherd.flows.loading.document import Document, place_of, value_at
from droidherd.flows.model import flow, screens, targets
from droidherd.flows.model.params import NAME_PATTERN, Param, placeholders
from droidherd.flows.model.part import Complaint, FlowPart, Place
from droidherd.flows.model.scalars import format_duration
from droidherd.flows.model.steps import apps, changes, people, touch
from droidherd.flows.model.steps.base import STEP_KINDS
from droidherd.flows.model.steps.registry import STEP_TYPES
from droidherd.flows.model.steps.screen import ReadText

VALUE_MAX = 60
WORD_MAX = 300
"""Longer than every path."""
_QUOTED = re.compile(f"'([^'\n]{{{VALUE_MAX + 1},}})'")
_ENDLESS = re.compile(rf"\S{{{WORD_MAX + 1},}}")


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class LintProblem:
    file: str
    line: int
    what: str
    fix: str = ""
    severity: Severity = Severity.ERROR

    def __post_init__(self) -> None:
        """A value that is quoted is shortened: the line says where the whole one is."""
        object.__setattr__(self, "what", shorten_values(self.what))

    def __str__(self) -> str:
        """One line, in the form editors understand."""
        text = f"{self.file}:{self.line}: {self.severity}: {self.what}"
        return f"{text} ({self.fix})" if self.fix else text


@dataclass(slots=True)
class Findings:
    """What was found in one file so far."""

    file: str
    document: Document
    problems: list[LintProblem] = field(default_factory=list)

    def complain(self, found: Iterable[Complaint]) -> None:
        for one in found:
            self.add(one.place, one.what, one.fix, Severity.ERROR if one.fatal else Severity.WARNING)

    def in_order(self) -> list[LintProblem]:
        """By their lines."""
        return sorted(self.problems, key=lambda problem: problem.line)

    def add(self, place: Place, what: str, fix: str = "", severity: Severity = Severity.ERROR) -> None:
        self.problems.append(LintProblem(self.file, self.document.line_of(place), what, fix, severity))


def shorten_values(text: str) -> str:
    """With each quoted value, and each word, at most as long as a person reads."""
    text = _QUOTED.sub(lambda found: f"'{found[1][: VALUE_MAX - 1]}…'", text)
    return _ENDLESS.sub(lambda found: f"{found[0][: WORD_MAX - 1]}…", text)


def errors_of(problems: Iterable[LintProblem]) -> list[LintProblem]:
    return [problem for problem in problems if problem.severity is Severity.ERROR]


_PATTERNS = {
    targets.IMAGE_PATTERN: ("is not the name of an image", "a PNG beside the flow, as in gift.png"),
    targets.COLOUR_PATTERN: ("is not a colour", "in quotes, as in '#ff8800'"),
    NAME_PATTERN: ("is not a name", "lower case letters, digits and _, beginning with a letter"),
    apps.APP_PATTERN: ("is not an app", "a package as in com.example.game, or package/activity"),
    people.TIME_PATTERN: ("is not a time of day", 'hours and minutes, as in "14:05"'),
    people.CHOICE_PATTERN: ("is not a choice", "up to 100 characters in one line, as in done"),
    touch.KEY_PATTERN: ("is not a key", "an Android key name in lower case, as in home, back or enter"),
    flow.SIZE_PATTERN: ("is not the size of a screen", "width and height in pixels, as in 1280x720"),
    changes.PAYLOAD_PATTERN: ("is not the name of a file", "a file in the flow's folder `files`, as in game.apk"),
    changes.PACKAGE_PATTERN: ("is not a package", "as in com.example.game"),
}
EXAMPLES: Mapping[str, str] = {
    **{word: step.example for word, step in STEP_TYPES.items() if step.example},
    "then": "then: {image: ok.png, within: 10s}",
    "do": "do: [{tap: {image: ok.png}}]",
    "else": "else: [{tap: {image: ok.png}}]",
    "steps": "steps: [{tap: {image: ok.png}}]",
    "percent": "percent: [50, 50]",
    "from": "from: [50, 80]",
    "to": "to: [50, 20]",
    "area": "area: [0, 0, 50, 100]",
    "recorded": "recorded: 1280x720",
    "offset": "offset: [0, 100]",
    "is": 'is: "yes"; in quotes, also what YAML reads as true, false or a number',
}
_PERCENT = frozenset({"percent", "from", "to", "at", "area", "expect"})
_FIXES = {
    "string": "put it in quotes",
    "bool": "as in {word}: true",
    "dict": "as in {name: value}",
    "model": "as in {name: value}",
    "tuple": "as in [first, second]",
    "int": "as in {word}: 3",
    "float": "as in {word}: 2.5",
}
"""By pydantic's type of the error, or how that begins."""
_MISSING = {
    "within": "say how long a person may take, as in within: 30m",
    "at_most": "a loop needs a bound, as in at_most: 10",
    "choices": "add what a person may answer, as in choices: [done, give up]",
    "what": "say it for people, as in what: solve the captcha",
    "do": "add the steps, as in do: [{tap: {image: ok.png}}]",
    "to": "say the value, as in to: 1",
    "file": "say which, as in file: /sdcard/game.cfg",
    "apk": "say which, as in apk: game.apk, a file in the flow's folder `files`",
    "package": "say which, as in package: com.example.game",
    "steps": "add the steps, as in steps: [{tap: {image: ok.png}}]",
    "stages": "add at least one stage, as in stages: [{stage: main, steps: [...]}]",
    "flow": "begin with the name of the folder, as in flow: daily_reward",
}
_MODELS: dict[str, type[FlowPart]] = {
    **STEP_TYPES,
    "read.text": ReadText,
    "sees": targets.ConditionCheck,
    "then": targets.PostCondition,
    "while": targets.ConditionCheck,
    "until": targets.ConditionCheck,
    "all": targets.ScreenCondition,
    "any": targets.ScreenCondition,
    "none": targets.ScreenCondition,
    "gone": targets.Target,
    "ui": targets.UiQuery,
    "colour": targets.ColourQuery,
    "text": targets.TextQuery,
    "type.text": touch.Secret,
    "policy": flow.FlowPolicy,
    "lost": screens.Lost,
    "guards": screens.Guards,
    "routes": screens.Route,
    "interrupts": screens.Interrupt,
    "interrupts.when": targets.ScreenCondition,
}
RENAMED_STEPS = {
    "frame": "screenshot",
    "pause": "sleep",
    "again": "reschedule",
    "handle": "call",
}
RENAMED_KEYS = {"still": "stable", "lives": "effect", "on_unknown": "on_ambiguous"}


def from_validation(error: ValidationError, document: Document, file: str) -> list[LintProblem]:
    """Say what pydantic found in the words of flows."""
    found: list[LintProblem] = []
    details = error.errors(include_url=False)
    for detail in details:
        if _follows_from_others(detail, details):
            continue
        place = place_of(detail, document.data)
        what, fix = _words(detail, place, value_at(document.data, place))
        if names := _parameters_at(document, place):
            fix = f"give parameter {names[0]} an example or a default that fits"
        found.append(LintProblem(file, document.line_of(place), what, fix))
    return list(dict.fromkeys(found))


def _follows_from_others(detail: ErrorDetails, details: list[ErrorDetails]) -> bool:
    """Whether a list is too short only because pydantic left its unsound items out, which are reported themselves."""
    place = detail["loc"]
    return detail["type"] == "too_short" and any(
        len(other["loc"]) > len(place) and other["loc"][: len(place)] == place for other in details
    )


def _parameters_at(document: Document, place: Place) -> list[str]:
    value = value_at(document.data, place)
    return list(placeholders(value)) if isinstance(value, str) else []


def _words(detail: ErrorDetails, place: Place, written: JsonValue) -> tuple[str, str]:
    kind = detail["type"]
    name = str(detail["loc"][-1]) if detail["loc"] else "the flow"
    if kind == "extra_forbidden":
        return _unknown_key(place)
    if kind == "missing" and not isinstance(detail["loc"][-1], int):
        return f"{name} is missing", _MISSING.get(name, f"add {name}")
    if kind == "union_tag_not_found":
        return _unknown_step(detail["input"])
    word = next((step for step in reversed(place) if isinstance(step, str)), name)
    if kind == "string_pattern_mismatch":
        return _unfit(word, detail)
    return _misfit(detail, word, written)


def _misfit(detail: ErrorDetails, word: str, written: JsonValue) -> tuple[str, str]:
    """A value of the wrong kind, or beyond a bound: in the words of all inputs, with what a flow writes instead."""
    match detail["type"]:
        case "value_error":
            return f"{word}: {message_of(detail)}", ""
        case "missing":
            what = "has too few entries"
        case "tuple_type" if word == "is":
            what = "must be text, or a list of texts"
        case _:
            what = message_of(_as_written(detail, written), mapping="a mapping")
    return sentence_of(word, what), _fix(detail, word, written)


def _unfit(word: str, detail: ErrorDetails) -> tuple[str, str]:
    """What does not fit a pattern."""
    pattern = str(detail.get("ctx", {}).get("pattern"))
    what, fix = _PATTERNS.get(pattern, ("does not fit its form", detail["msg"]))
    return f"{word}: {str(detail['input'])[:60]!r} {what}", fix


def _as_written(detail: ErrorDetails, written: JsonValue) -> Mapping[str, object]:
    """With the value and the bounds as they stand in the file."""
    return {**detail, "ctx": _bounds(detail, written), "input": written}


def _bounds(detail: ErrorDetails, written: JsonValue) -> Mapping[str, object]:
    """Of a duration as a duration."""
    bounds = detail.get("ctx", {})
    as_text = format_duration if isinstance(written, str) else "{:g}".format
    return {name: as_text(one) if _is_bound(name, one) else one for name, one in bounds.items()}


def _is_bound(name: str, value: object) -> bool:
    return name in {"le", "ge", "lt", "gt"} and isinstance(value, int | float)


def _fix(detail: ErrorDetails, word: str, written: JsonValue) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind in {"enum", "literal_error"}:
        words = [one.strip("' ") for one in str(context.get("expected")).replace(" or ", ", ").split(",")]
        near = nearest(str(detail["input"]), words)
        return f"did you mean {near}?" if near else ""
    if bound := next((name for name in ("le", "ge", "lt", "gt") if _is_bound(name, context.get(name))), ""):
        if word in _PERCENT:
            return "places are in percent of the screen, 0 to 100"
        return f"as in {word}: {_bounds(detail, written)[bound]}" if bound in {"le", "ge"} else ""
    if (kind, word) == ("tuple_type", "is"):
        return f"as in {EXAMPLES[word]}"
    known = _FIXES.get(kind.partition("_")[0], "").replace("{word}", word)
    return f"as in {EXAMPLES[word]}" if word in EXAMPLES else known


def _unknown_key(place: Place) -> tuple[str, str]:
    key, known = str(place[-1]), sorted(_known_keys(place[:-1]))
    if RENAMED_KEYS.get(key) in known:
        return f"unknown key {key!r}", f"`{key}` is now `{RENAMED_KEYS[key]}`"
    near = nearest(key, known)
    return f"unknown key {key!r}", f"did you mean {near}?" if near else f"known are: {', '.join(known)}"


def _known_keys(place: Place) -> list[str]:
    names = [step for step in place if isinstance(step, str)]
    if not names:
        found: type[FlowPart] | None = flow.Flow
    elif names == ["stages"]:
        found = flow.FlowStage
    elif names[0] == "params":
        found = Param
    else:
        found = _MODELS.get(".".join(names[-2:])) or _MODELS.get(names[-1])
    return [info.alias or name for name, info in found.model_fields.items()] if found else []


def _unknown_step(step: object) -> tuple[str, str]:
    if not isinstance(step, dict) or not step:
        ours = our_word(step) if isinstance(step, str) else ""
        return "a step is a mapping", f"as in {ours or 'tap: {image: ok.png}'}"
    keys = [str(key) for key in step]
    if len(keys) > 1:
        return f"a step has one key, not {len(keys)}: {', '.join(keys)[:80]}", "begin each step with a dash of its own"
    if ours := our_word(keys[0]):
        return f"unknown step {keys[0]!r}", f"Maestro's {keys[0]} is {ours}"
    if renamed := RENAMED_STEPS.get(keys[0]):
        return f"unknown step {keys[0]!r}", f"`{keys[0]}` is now `{renamed}`"
    near = nearest(keys[0], STEP_KINDS)
    return (
        f"unknown step {keys[0][:60]!r}",
        f"did you mean {near}?" if near else f"known: {', '.join(STEP_KINDS)}",
    )
