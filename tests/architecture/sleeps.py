"""Real time that `make test` waits for: each call that may sleep for longer than a poll."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from tests.architecture.source import Finding, Module, imported_names, resolved

POLL_S = 0.05
SLEEPS = ("time.sleep", "asyncio.sleep")
NOT_IN_MAKE_TEST: Mapping[str, str] = MappingProxyType(
    {
        "tests/conformance/": "make conformance",
        "tests/chaos/": "make test-more and make long: when a blow falls is left to chance",
        "tests/replay/record.py": "make record",
        "tests/replay/farming.py": "make record",
        "tests/replay/scenarios/": "make record: on a real engine",
    }
)


def findings(modules: Iterable[Module], tested: Mapping[str, str]) -> Iterator[Finding]:
    """`tested`: files in which time itself is what is tested, each with the reason."""
    modules = [module for module in modules if module.path.startswith("tests/")]
    constants = {_dotted(module): _constants(module) for module in modules}
    for module in modules:
        if module.path.startswith(tuple(NOT_IN_MAKE_TEST)) or module.path in tested:
            continue
        names = imported_names(module)
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and node.args and resolved(node.func, names) in SLEEPS:
                seconds = _seconds(node.args[0], _dotted(module), names, constants)
                if seconds is None or seconds > POLL_S:
                    text = ast.unparse(node.args[0])
                    yield Finding(module.path, node.lineno, f"sleeps {text} s: use `until`, an event or a clock")


def _dotted(module: Module) -> str:
    return module.path.removesuffix(".py").replace("/", ".")


def _constants(module: Module) -> dict[str, float]:
    """Numbers that stand under a name at the top of the module."""
    found: dict[str, float] = {}
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            value = node.value.value
            if isinstance(value, int | float):
                found |= {target.id: float(value) for target in node.targets if isinstance(target, ast.Name)}
    return found


def _seconds(
    node: ast.expr, module: str, names: Mapping[str, str], constants: Mapping[str, Mapping[str, float]]
) -> float | None:
    """None: nobody can tell from the source."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.Name):
        home, _, name = names.get(node.id, f"{module}.{node.id}").rpartition(".")
        return constants.get(home, {}).get(name)
    return None
