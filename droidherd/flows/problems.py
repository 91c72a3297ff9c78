"""What is wrong with a flow, said so that it can be mended: file, line, what, fix."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from droidherd.flows import advice, change, chart, course, flow, model, targets
from droidherd.flows.loader import Document, Place
from droidherd.flows.params import NAME_PATTERN, Param, placeholders
from droidherd.flows.reading import Read, ReadText
from droidherd.flows.spelling import nearest


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    file: str
    line: int
    what: str
    fix: str = ""
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        """One line, in the form editors understand."""
        text = f"{self.file}:{self.line}: {self.severity}: {self.what}"
        return f"{text} ({self.fix})" if self.fix else text


@dataclass(slots=True)
class Findings:
    """What was found in one file so far."""

    file: str
    document: Document
    problems: list[Problem] = field(default_factory=list)

    def add(self, place: Place, what: str, fix: str = "", severity: Severity = Severity.ERROR) -> None:
        self.problems.append(Problem(self.file, self.document.line_of(place), what, fix, severity))


def errors_of(problems: Iterable[Problem]) -> list[Problem]:
    return [problem for problem in problems if problem.severity is Severity.ERROR]


_PATTERNS = {
    targets.IMAGE_PATTERN: ("is not the name of an image", "a PNG beside the flow, as in gift.png"),
    targets.COLOUR_PATTERN: ("is not a colour", "in quotes, as in '#ff8800'"),
    NAME_PATTERN: ("is not a name", "lower case letters, digits and _, beginning with a letter"),
    model.APP_PATTERN: ("is not an app", "a package as in com.example.game, or package/activity"),
    course.TIME_PATTERN: ("is not a time of day", 'hours and minutes, as in "14:05"'),
    course.CHOICE_PATTERN: ("is not a choice", "up to 100 characters in one line, as in done"),
    model.KEY_PATTERN: ("is not a key", "an Android key name in lower case, as in home, back or enter"),
    flow.SIZE_PATTERN: ("is not the size of a screen", "width and height in pixels, as in 1280x720"),
    change.PAYLOAD_PATTERN: ("is not the name of a file", "a file in the flow's folder `files`, as in game.apk"),
    change.PACKAGE_PATTERN: ("is not a package", "as in com.example.game"),
}
_TYPES = {
    "string_type": ("must be text", "put it in quotes"),
    "bool_parsing": ("must be true or false", ""),
    "bool_type": ("must be true or false", ""),
    "dict_type": ("must be a mapping", "as in {name: value}"),
    "model_type": ("must be a mapping", "as in {name: value}"),
    "model_attributes_type": ("must be a mapping", "as in {name: value}"),
    "tuple_type is": ("must be text, or a list of texts", ""),
    "tuple_type": ("must be a list", "as in [first, second]"),
    "int_parsing": ("must be a whole number", ""),
    "int_type": ("must be a whole number", ""),
    "float_parsing": ("must be a number", ""),
    "float_type": ("must be a number", ""),
}
_MISSING = {
    "within": "a wait needs a limit, as in within: 10s",
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
_MODELS: dict[str, type[model.Part]] = {
    "start_app": model.StartApp,
    "stop_app": model.StopApp,
    "clear_app": model.ClearApp,
    "handle": model.Handle,
    "tap": model.Tap,
    "type": model.TypeText,
    "swipe": model.Swipe,
    "key": model.Key,
    "wait": targets.Wait,
    "frame": model.Shot,
    "pause": model.Pause,
    "optional": model.OptionalBlock,
    "repeat": model.Repeat,
    "ask": course.Ask,
    "read": Read,
    "read.text": ReadText,
    "sees": targets.Check,
    "when": model.When,
    "again": course.Again,
    "fail": course.Fail,
    "set": change.SetValue,
    "put": change.PutFile,
    "delete": change.DeleteFile,
    "install": change.Install,
    "uninstall": change.Uninstall,
    "then": targets.Then,
    "while": targets.Check,
    "until": targets.Check,
    "all": targets.Sight,
    "any": targets.Sight,
    "none": targets.Sight,
    "gone": targets.Target,
    "ui": targets.UiQuery,
    "colour": targets.ColourQuery,
    "text": targets.TextQuery,
    "type.text": model.Secret,
    "policy": flow.FlowPolicy,
    "use": model.Use,
    "lost": chart.Lost,
    "guards": chart.Guards,
    "routes": chart.Route,
    "interrupts": chart.Interrupt,
    "interrupts.when": targets.Sight,
}


def from_validation(error: ValidationError, document: Document, file: str) -> list[Problem]:
    """Say what pydantic found in the words of flows."""
    found: list[Problem] = []
    details = error.errors(include_url=False)
    for detail in details:
        if _follows_from_others(detail, details):
            continue
        place = place_of(detail, document.data)
        what, fix = _words(detail, place, value_at(document.data, place))
        if names := _parameters_at(document, place):
            fix = f"give parameter {names[0]} an example or a default that fits"
        found.append(Problem(file, document.line_of(place), what, fix))
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


def value_at(data: JsonValue, place: Sequence[str | int]) -> JsonValue:
    """The value at a place, or none."""
    for step in place:
        inside = _inside(data, step)
        if not inside:
            return None
        data = inside[0]
    return data


def maps(value: JsonValue, place: Place = ()) -> Iterator[tuple[Place, dict[str, JsonValue]]]:
    """Every mapping in a document, with its place."""
    if isinstance(value, dict):
        yield place, value
        for key, item in value.items():
            yield from maps(item, (*place, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from maps(item, (*place, number))


def _inside(value: JsonValue, step: str | int) -> list[JsonValue]:
    """What stands under a key or at a position: one value, or none."""
    if isinstance(value, dict) and isinstance(step, str) and step in value:
        return [value[step]]
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return [value[step]]
    return []


def place_of(detail: ErrorDetails, value: JsonValue) -> Place:
    """Where the error stands: what pydantic adds (tags of unions, missing keys) is no part of a document."""
    place: Place = ()
    for step in detail["loc"]:
        if inside := _inside(value, step):
            value, place = inside[0], (*place, step)
    return place


def _words(detail: ErrorDetails, place: Place, written: JsonValue) -> tuple[str, str]:
    kind = detail["type"]
    name = str(detail["loc"][-1]) if detail["loc"] else "the flow"
    if kind == "extra_forbidden":
        return _unknown_key(place)
    if kind == "missing" and not isinstance(detail["loc"][-1], int):
        return f"{name} is missing", _MISSING.get(name, "")
    if kind == "union_tag_not_found":
        return _unknown_step(detail["input"])
    word = next((step for step in reversed(place) if isinstance(step, str)), name)
    what, fix = _complaint(detail, word, written)
    return f"{word}: {what}", fix


def _complaint(detail: ErrorDetails, word: str, written: JsonValue) -> tuple[str, str]:
    """What is wrong with a value. `word` is what stands before it."""
    kind, message, context = detail["type"], detail["msg"], detail.get("ctx", {})
    if kind == "string_pattern_mismatch":
        what, fix = _PATTERNS.get(str(context.get("pattern")), ("does not fit its form", message))
        return f"{str(detail['input'])[:60]!r} {what}", fix
    if kind == "value_error":
        return message.removeprefix("Value error, "), ""
    example = f"as in {advice.EXAMPLES[word]}" if word in advice.EXAMPLES else ""
    if kind in {"missing", "too_short", "too_long"}:
        return _wrong_length(kind, context), example
    if kind in {"enum", "literal_error"}:
        return advice.no_such(detail["input"], str(context.get("expected")))
    if beyond := advice.out_of_bounds(word, written, context):
        return beyond
    what, fix = _TYPES.get(f"{kind} {word}") or _TYPES.get(kind, (message[:1].lower() + message[1:], ""))
    return what, (kind in _TYPES and example) or fix


def _wrong_length(kind: str, bounds: Mapping[str, object]) -> str:
    if kind == "too_short":
        return f"must hold at least {bounds.get('min_length')}"
    return f"must hold at most {bounds.get('max_length')}" if kind == "too_long" else "must hold more than that"


def _unknown_key(place: Place) -> tuple[str, str]:
    key, known = str(place[-1]), sorted(_known_keys(place[:-1]))
    near = nearest(key, known)
    return f"unknown key {key!r}", f"did you mean {near}?" if near else f"known are: {', '.join(known)}"


def _known_keys(place: Place) -> list[str]:
    names = [step for step in place if isinstance(step, str)]
    if not names:
        found: type[model.Part] | None = flow.Flow
    elif names == ["stages"]:
        found = flow.FlowStage
    elif names[0] == "params":
        found = Param
    else:
        found = _MODELS.get(".".join(names[-2:])) or _MODELS.get(names[-1])
    return [info.alias or name for name, info in found.model_fields.items()] if found else []


def _unknown_step(step: object) -> tuple[str, str]:
    if not isinstance(step, dict) or not step:
        return "a step is a mapping", "as in tap: {image: ok.png}"
    keys = [str(key) for key in step]
    if len(keys) > 1:
        return f"a step has one key, not {len(keys)}: {', '.join(keys)[:80]}", "begin each step with a dash of its own"
    near = nearest(keys[0], model.STEP_KINDS)
    return (
        f"unknown step {keys[0][:60]!r}",
        f"did you mean {near}?" if near else f"known: {', '.join(model.STEP_KINDS)}",
    )
