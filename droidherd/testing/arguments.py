"""Arguments of `droidherd.testing`, checked before anything starts: an error names the argument and the right way."""

from collections.abc import Callable, Iterable, Mapping
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from droidherd.contracts.plan import Policy, PolicyChange
from droidherd.contracts.validation import message_of, path_of
from droidherd.domain.errors import BadParametersError
from droidherd.domain.text import nearest
from droidherd.flows.loading.folder import flow_folders
from droidherd.handlers.base import Handler
from droidherd.handlers.registry import AnyHandler

M = TypeVar("M", bound=BaseModel)


def flow_paths(flows: Path | Iterable[Path]) -> tuple[Path, ...]:
    """Folders of flows, or folders that are flows."""
    if isinstance(flows, str):
        raise BadParametersError("is a text, not a folder", to="flows", remedy=f"write Path({str(flows)!r})")
    found: tuple[Any, ...] = (flows,) if isinstance(flows, Path) else tuple(flows)
    for one in found:
        if not isinstance(one, Path):
            raise BadParametersError(f"{one!r} is no folder", to="flows", remedy=f"write Path({str(one)!r})")
        if not flow_folders(one):
            raise BadParametersError(f"no flow is at {one}", to="flows", remedy="a flow is a folder with a flow.yaml")
    return found


def policies_of(given: Mapping[str, PolicyChange | Mapping[str, Any]]) -> dict[str, PolicyChange]:
    """An operator's, by type; plain data will do."""
    return {name: as_model(PolicyChange, value, f"policies.{name}") for name, value in given.items()}


def types_of(given: Mapping[str, Policy | Mapping[str, Any]]) -> dict[str, Policy]:
    return {name: as_model(Policy, value, f"types.{name}") for name, value in given.items()}


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
    found: tuple[Any, ...] = tuple(handlers)
    for one in found:
        if not isinstance(one, Handler):
            name = one.__name__ if isinstance(one, type) else "MyHandler"
            raise BadParametersError(f"{one!r} is no handler", to="handlers", remedy=f"write {name}()")
    return found


def check_answers(answers: object) -> None:
    """What would otherwise fail in the middle of a stage."""
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
