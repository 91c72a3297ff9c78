"""Handlers by name: ours, and those that installed packages offer under `droidherd.handlers`."""

from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from droidherd.contracts.validation import message_of
from droidherd.domain.errors import BadParametersError, FlowError
from droidherd.domain.task.things import State, problem_with
from droidherd.domain.text import nearest
from droidherd.handlers.associate import AssociateHandler
from droidherd.handlers.base import Handler, HandlerContext, Params, Subject
from droidherd.handlers.check import CheckHandler
from droidherd.handlers.download import DownloadHandler
from droidherd.handlers.scan import ScanHandler

GROUP = "droidherd.handlers"
AnyHandler: TypeAlias = Handler[Any]


class Registry:
    """Finds handlers and runs them."""

    def __init__(self, handlers: Iterable[AnyHandler]) -> None:
        """Of two with the same name the later one counts."""
        self._handlers = MappingProxyType({handler.name: handler for handler in handlers})

    @property
    def names(self) -> list[str]:
        return sorted(self._handlers)

    def problem(self, by: str, params: Mapping[str, JsonValue]) -> tuple[str, str]:
        """What is wrong with a `handle` step, and the fix; empty texts when it is sound."""
        if by not in self._handlers:
            near = nearest(by, self._handlers)
            return f"there is no handler {by[:60]!r}", f"did you mean {near}?" if near else f"known: {self.names}"
        handler = self._handlers[by]
        try:
            subjects = handler.changes(handler.params.model_validate(params))
        except ValidationError as error:
            return _explain(error, handler.params)
        wrong = ((one.name, problem_with(one.thing, one.name)) for one in subjects)
        return next(((f"{name[:80]} {problem}", "") for name, problem in wrong if problem), ("", ""))

    def refusal(self, by: str, params: Mapping[str, JsonValue], account: str) -> str:
        """Why a task of this account may not do it; empty: it may."""
        handler, parsed = self._bind(by, params)
        return handler.refusal(parsed, account)

    def changes(self, by: str, params: Mapping[str, JsonValue]) -> tuple[Subject, ...]:
        handler, parsed = self._bind(by, params)
        return handler.changes(parsed)

    def addresses(self, by: str, params: Mapping[str, JsonValue]) -> tuple[str, ...]:
        handler, parsed = self._bind(by, params)
        return handler.addresses(parsed)

    def takes_back(self, by: str) -> bool:
        return self._find(by).takes_back

    def run(self, by: str, params: Mapping[str, JsonValue], ground: HandlerContext) -> dict[str, JsonValue]:
        """What is done already is not done again. The summary."""
        handler, parsed = self._bind(by, params)
        if handler.is_done(ground, parsed):
            ground.note(f"{by}: is done")
            return {}
        try:
            handler.prepare(ground, parsed)
            return handler.execute(ground, parsed)
        finally:
            handler.cleanup(ground, parsed)

    def undo(
        self, by: str, params: Mapping[str, JsonValue], ground: HandlerContext, before: Mapping[tuple[str, str], State]
    ) -> None:
        handler, parsed = self._bind(by, params)
        handler.rollback(ground, parsed, before)

    def _find(self, by: str) -> AnyHandler:
        if by not in self._handlers:
            raise FlowError(f"there is no handler {by[:60]!r} on this host", remedy="install what offers it")
        return self._handlers[by]

    def _bind(self, by: str, params: Mapping[str, JsonValue]) -> tuple[AnyHandler, Params]:
        handler = self._find(by)
        try:
            return handler, handler.params.model_validate(params)
        except ValidationError as error:
            raise FlowError(f"handler {by} takes other parameters than when it was planned") from error


def _explain(error: ValidationError, model: type[Params]) -> tuple[str, str]:
    """All that is wrong with the parameters, and how the first of it would be right."""
    found = [_describe(detail, model) for detail in error.errors(include_url=False, include_input=False)]
    return "; ".join(what for what, _ in found), next((fix for _, fix in found if fix), "")


def _describe(detail: ErrorDetails, model: type[Params]) -> tuple[str, str]:
    where = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "missing":
        return f"{where} is missing", ""
    if detail["type"] == "extra_forbidden":
        near = nearest(where, model.model_fields)
        known = f"known are: {', '.join(model.model_fields) or 'none'}"
        return f"{where} is no parameter of it", f"did you mean {near}?" if near else known
    return f"{where} {message_of(detail)}".strip(), ""


BUILT_IN: tuple[AnyHandler, ...] = (AssociateHandler(), CheckHandler(), DownloadHandler(), ScanHandler())


def build_registry(more: Iterable[AnyHandler] = ()) -> Registry:
    """Ours, then those of installed packages, then `more`."""
    return Registry((*BUILT_IN, *installed_handlers(), *more))


def installed_handlers() -> tuple[AnyHandler, ...]:
    """What packages offer. BadParametersError names the package of one that is no good."""
    found: dict[str, tuple[AnyHandler, str]] = {}
    for point in entry_points(group=GROUP):
        where = point.dist.name if point.dist else point.value
        handler = _load(point, where)
        if handler.name in found and found[handler.name][1] != where:
            what = f"{found[handler.name][1]} and {where} both offer a handler {handler.name}"
            raise BadParametersError(what, to=GROUP, remedy="uninstall one of them")
        found[handler.name] = handler, where
    return tuple(handler for handler, _ in found.values())


def _load(point: EntryPoint, where: str) -> AnyHandler:
    try:
        found = point.load()
        handler = found() if isinstance(found, type) else found
    except (ImportError, AttributeError, TypeError) as error:
        what = f"{point.name} of the package {where} cannot be loaded: {error}"
        raise BadParametersError(what, to=GROUP, remedy="fix or uninstall it") from error
    if not isinstance(handler, Handler):
        raise BadParametersError(
            f"{point.name} of the package {where} is no handler", to=GROUP, remedy="subclass Handler"
        )
    if missing := [word for word in ("name", "params") if not hasattr(handler, word)]:
        raise BadParametersError(f"{point.name} of the package {where} has no {missing[0]}", to=GROUP)
    return handler
