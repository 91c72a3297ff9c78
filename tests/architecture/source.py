"""The product's source as syntax trees, and how a check says what it found."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("droidherd", "workflows", "activities", "api")
TOOLS = ("bench", "long", "demo")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """One file, parsed."""

    path: str
    """Relative to the tree, with forward slashes."""
    lines: int
    tree: ast.Module

    @property
    def package(self) -> str:
        """`workflows` of `workflows/task/workflow.py`; `droidherd/domain` of `droidherd/domain/dispatch/board.py`."""
        parts = self.path.split("/")[:-1]
        return "/".join(parts[:2])


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One breach, in the form editors jump to."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def parse(path: str, text: str) -> Module:
    return Module(path, len(text.splitlines()), ast.parse(text, path))


@cache
def product() -> tuple[Module, ...]:
    """Every module people run, without tests and tools."""
    return tuple(_modules([*PACKAGES, "worker_main.py"]))


@cache
def everything() -> tuple[Module, ...]:
    """The product, its tools and its tests: what has a size."""
    return (*product(), *_modules([*TOOLS, "tests"]))


def functions(module: Module) -> Iterator[Function]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def qualified(module: Module) -> Iterator[tuple[str, Function]]:
    """Functions with their names as the ratchet knows them: `api/app.py::App.start`."""
    yield from _qualified(module.tree, f"{module.path}::")


def body_lines(function: Function) -> int:
    """Lines from the first statement after the docstring to the end."""
    body = function.body[1:] if ast.get_docstring(function) and len(function.body) > 1 else function.body
    return (function.end_lineno or function.lineno) - body[0].lineno + 1


def dotted(node: ast.AST) -> str:
    """`a.b.c` of an attribute chain that starts at a name, else an empty text."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def imported_names(module: Module) -> dict[str, str]:
    """What each name at hand stands for: `{"dt": "datetime.datetime"}` after `from datetime import datetime as dt`."""
    names: dict[str, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def resolved(node: ast.AST, names: dict[str, str]) -> str:
    """The full dotted name of an expression, imports taken into account."""
    first, _, rest = dotted(node).partition(".")
    full = names.get(first, first)
    return f"{full}.{rest}" if rest else full


def _qualified(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, child
            yield from _qualified(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.ClassDef):
            yield from _qualified(child, f"{prefix}{child.name}.")
        else:
            yield from _qualified(child, prefix)


def _modules(places: list[str]) -> Iterator[Module]:
    for place in places:
        start = ROOT / place
        files = [start] if start.is_file() else sorted(start.rglob("*.py"))
        for file in files:
            relative = file.relative_to(ROOT)
            if "node_modules" not in relative.parts and not any(part.startswith(".") for part in relative.parts):
                yield parse(relative.as_posix(), file.read_text(encoding="utf-8"))
