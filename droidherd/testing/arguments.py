"""Arguments of `droidherd.testing`, checked before anything starts: an error names the argument and the right way."""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from inspect import iscoroutinefunction
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from droidherd.contracts.plan import Policy, PolicyChange
from droidherd.contracts.validation import message_of, path_of
from droidherd.domain import ids
from droidherd.domain.errors import BadParametersError, DroidherdError
from droidherd.domain.text import nearest
from droidherd.flows.loading.folder import FILE, flow_folders
from droidherd.handlers.base import Handler
from droidherd.handlers.registry import AnyHandler

M = TypeVar("M", bound=BaseModel)


def check_delay(delay: object, to: str) -> timedelta:
    if not isinstance(delay, timedelta) or delay < timedelta():
        raise BadParametersError(f"is {delay!r}", to=to, remedy="write timedelta(hours=2), and none below zero")
    return delay


def check_name(name: object, to: str) -> str:
    if not isinstance(name, str) or not ids.is_id(name):
        raise BadParametersError(f"is {name!r}; it {ids.RULES[ids.PATTERN]}", to=to)
    return name


def check_texts(texts: object, to: str, example: str) -> tuple[str, ...]:
    """Several texts: a single one would be taken for its letters."""
    several: tuple[Any, ...] = tuple(texts) if isinstance(texts, Iterable) and not isinstance(texts, str) else ()
    if not isinstance(texts, Iterable) or isinstance(texts, str) or not all(isinstance(one, str) for one in several):
        raise BadParametersError(f"is {texts!r}, no list of texts", to=to, remedy=f"write [{example!r}]")
    return several


def check_mapping(given: object, to: str, example: str) -> Mapping[Any, Any]:
    if not isinstance(given, Mapping):
        raise BadParametersError(f"is {given!r}, no mapping", to=to, remedy=f"write {example}")
    return given


def check_error(error: object) -> DroidherdError:
    if not isinstance(error, DroidherdError):
        remedy = "write an error of droidherd.domain.errors, as in fails(ScreenNotReachedError('no gift in sight'))"
        raise BadParametersError(f"is {error!r}", to="error", remedy=remedy)
    return error


def check_kind(value: object, kind: type | UnionType, to: str, remedy: str) -> None:
    if not isinstance(value, kind):
        raise BadParametersError(f"is {value!r}", to=to, remedy=remedy)


def check_folder(folder: object, to: str) -> None:
    if not isinstance(folder, Path):
        raise BadParametersError(f"is {folder!r}, no folder", to=to, remedy=f"write Path({str(folder)!r})")


def flow_folder(flow: object, to: str = "flow") -> Path:
    """The folder of one flow."""
    if not isinstance(flow, Path):
        raise BadParametersError(f"is {flow!r}, not the folder of a flow", to=to, remedy=f"write Path({str(flow)!r})")
    if not (flow / FILE).is_file():
        raise BadParametersError(f"no flow is at {flow}", to=to, remedy=f"a flow is a folder with a {FILE}")
    return flow


def flow_paths(flows: Path | Iterable[Path]) -> tuple[Path, ...]:
    """Folders of flows, or folders that are flows."""
    if isinstance(flows, str):
        raise BadParametersError("is a text, not a folder", to="flows", remedy=f"write Path({str(flows)!r})")
    check_kind(flows, Path | Iterable, "flows", "write Path('flows')")
    found: tuple[Any, ...] = (flows,) if isinstance(flows, Path) else tuple(flows)
    for one in found:
        if not isinstance(one, Path):
            raise BadParametersError(f"{one!r} is no folder", to="flows", remedy=f"write Path({str(one)!r})")
        if not flow_folders(one):
            raise BadParametersError(f"no flow is at {one}", to="flows", remedy="a flow is a folder with a flow.yaml")
    return found


def policies_of(given: Mapping[str, PolicyChange | Mapping[str, Any]]) -> dict[str, PolicyChange]:
    """An operator's, by type; plain data will do."""
    check_mapping(given, "policies", "{'daily': {'retries': 3}}")
    return {name: as_model(PolicyChange, value, f"policies.{name}") for name, value in given.items()}


def types_of(given: Mapping[str, Policy | Mapping[str, Any]]) -> dict[str, Policy]:
    check_mapping(given, "types", "{'daily': {'retries': 3}}")
    return {check_name(name, "types"): as_model(Policy, value, f"types.{name}") for name, value in given.items()}


def as_model(model: type[M], value: M | Mapping[str, Any], to: str) -> M:
    """Refuses what the model does not know, and says which field is wrong."""
    if isinstance(value, model):
        return value
    if not isinstance(value, Mapping):
        remedy = f"write a mapping of: {', '.join(model.model_fields)}"
        raise BadParametersError(f"is a {type(value).__name__}", to=to, remedy=remedy)
    for name in value:
        if name not in model.model_fields:
            near = nearest(str(name), model.model_fields)
            remedy = f"did you mean {near}?" if near else f"known are: {', '.join(model.model_fields)}"
            raise BadParametersError("is not known", to=f"{to}.{name}", remedy=remedy)
    try:
        return model.model_validate(dict(value))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise BadParametersError(message_of(first, model), to=path_of((to, *first["loc"]))) from error


def handlers_of(handlers: Iterable[AnyHandler]) -> tuple[AnyHandler, ...]:
    check_kind(handlers, Iterable, "handlers", "write [MyHandler()]")
    found: tuple[Any, ...] = tuple(handlers)
    for one in found:
        if not isinstance(one, Handler):
            name = one.__name__ if isinstance(one, type) else "MyHandler"
            raise BadParametersError(f"{one!r} is no handler", to="handlers", remedy=f"write {name}()")
    return found


def check_answers(answers: object) -> None:
    """What would otherwise fail in the middle of a stage."""
    if isinstance(answers, str) or not (callable(answers) or isinstance(answers, Iterable)):
        remedy = "write a list, as in [completes], or a function of the stage's work that returns an answer"
        raise BadParametersError(f"is {answers!r}", to="answers", remedy=remedy)
    if iscoroutinefunction(answers):
        remedy = "write a list, as in [completes], or a function of the stage's work that returns an answer"
        raise BadParametersError("is one answer", to="answers", remedy=remedy)
    for one in answers if isinstance(answers, list | tuple) else ():
        check_answer(one)


def check_answer(answer: object) -> Callable[..., object]:
    if not callable(answer) or isinstance(answer, type):
        remedy = "write completes, fails(error), again_in(delay), asks(...) or herd.takes(time)"
        raise BadParametersError(f"{answer!r} is no answer", to="answers", remedy=remedy)
    return answer
