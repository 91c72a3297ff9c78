"""What each room may name, from the imports it writes down itself. Chains are import-linter's (pyproject.toml)."""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from tests.architecture.source import Finding, Module

MAY_NAME: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "droidherd/domain": frozenset({"droidherd.domain"}),
        "droidherd/contracts": frozenset({"droidherd.domain", "droidherd.contracts", "pydantic", "typing_extensions"}),
        "workflows": frozenset(
            {
                "droidherd.contracts",
                "droidherd.domain",
                "pydantic",
                "temporalio",
                "typing_extensions",
                "workflows",
            }
        ),
    }
)
"""Beside the standard library. A room that is not listed is held by the contracts in pyproject.toml alone."""

OUTERMOST = ("droidherd.cli", "worker_main")
"""Roots import everybody and are imported by nobody outside."""


def findings(modules: Iterable[Module]) -> Iterator[Finding]:
    for module in modules:
        allowed = MAY_NAME.get(module.package)
        for line, name in imports(module):
            if allowed is not None and not _is_allowed(name, allowed):
                yield Finding(module.path, line, f"{name}: {module.package} names only {_text(allowed)}")
            if _is_root(name) and not module.path.startswith("droidherd/cli/"):
                yield Finding(module.path, line, f"{name}: a composition root is imported by nobody")


def imports(module: Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "." * node.level
            elif node.module:
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def packages(modules: Iterable[Module]) -> frozenset[str]:
    """Dotted names of the packages that hold the product."""
    found = {module.package.replace("/", ".") for module in modules if module.package}
    return frozenset(found - {"droidherd"})


def _is_allowed(name: str, allowed: frozenset[str]) -> bool:
    if name.split(".", maxsplit=1)[0] in sys.stdlib_module_names:
        return True
    return any(name == one or name.startswith(f"{one}.") for one in allowed)


def _is_root(name: str) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in OUTERMOST)


def _text(allowed: frozenset[str]) -> str:
    return ", ".join(["the standard library", *sorted(allowed)])
