"""How long things may be."""

import ast
from collections.abc import Iterable, Iterator, Mapping

from tests.architecture.source import Finding, Function, Module, body_lines, functions, qualified

FUNCTION_LINES = 70
FILE_LINES = 800
ACTIVITY_LINES = 25
ROUTE_LINES = 15
RUN_LINES = 60
PARAMETERS = 5

ROUTE_VERBS = frozenset({"get", "post", "put", "patch", "delete", "head", "api_route"})


def too_long(modules: Iterable[Module]) -> Iterator[Finding]:
    for module in modules:
        if module.lines > FILE_LINES:
            yield Finding(module.path, 1, f"{module.lines} lines, {FILE_LINES} allowed: split by noun")
        for function in functions(module):
            yield from _one(module, function)


def too_many_parameters(modules: Iterable[Module], known: Mapping[str, int]) -> Iterator[Finding]:
    """Functions with more parameters than the habit, and more than the ratchet already grants them."""
    for module in modules:
        for name, function in qualified(module):
            allowed = known.get(name, PARAMETERS)
            count = parameters(function)
            if count > allowed:
                text = f"{function.name}() takes {count} parameters, {allowed} allowed: pass a model"
                yield Finding(module.path, function.lineno, text)


def slack(modules: Iterable[Module], known: Mapping[str, int]) -> Iterator[str]:
    """Entries of the ratchet that are no longer needed: it only ever tightens."""
    counts = {name: parameters(function) for module in modules for name, function in qualified(module)}
    for name, granted in known.items():
        now = counts.get(name, 0)
        if now < granted:
            yield f"{name}: {now} parameters now, {granted} granted: tighten or remove the entry"


def parameters(function: Function) -> int:
    """What a caller has to know: without self and cls, and without what a framework fills in."""
    if _is_injected(function):
        return 0
    given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return len([one for one in given if one.arg not in {"self", "cls"}])


def _one(module: Module, function: Function) -> Iterator[Finding]:
    allowed, kind = _limit(module, function)
    lines = body_lines(function)
    if lines > allowed:
        yield Finding(module.path, function.lineno, f"{kind} {function.name}() has {lines} lines, {allowed} allowed")


def _limit(module: Module, function: Function) -> tuple[int, str]:
    marks = {_mark(one) for one in function.decorator_list}
    if "activity.defn" in marks:
        return ACTIVITY_LINES, "activity"
    if "workflow.run" in marks:
        return RUN_LINES, "workflow run"
    if module.path.startswith("api/") and any(one.split(".")[-1] in ROUTE_VERBS and "." in one for one in marks):
        return ROUTE_LINES, "route"
    return FUNCTION_LINES, "function"


def _is_injected(function: Function) -> bool:
    """Routes, commands and tests: their parameters are the interface of HTTP, the command line, or fixtures."""
    marks = {_mark(one).split(".")[-1] for one in function.decorator_list}
    return function.name.startswith("test_") or bool(
        marks & (ROUTE_VERBS | {"command", "callback", "fixture", "given"})
    )


def _mark(decorator: ast.expr) -> str:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(node)
