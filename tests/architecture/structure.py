"""How the product hangs together: names, modules, inheritance."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from tests.architecture.source import Finding, Module, functions, imported_names, resolved

SMALL_LINES = 100
NAME_LENGTH = 72
FREE_OF_INHERITANCE = ("droidherd/domain/", "workflows/")
ENUMS = {"enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag"}
MODELS = {"pydantic.BaseModel", "droidherd.contracts.base.Contract"}
ERRORS = {"BaseException", "Exception"}


def doubles(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Classes at the top of a module whose name another module defines as well."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module.path)
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def fragments(modules: Iterable[Module]) -> Iterator[str]:
    """Small modules that exactly one other module imports: mostly one subject in two files."""
    by_name = {dotted(module): module for module in modules}
    importers: dict[str, set[str]] = defaultdict(set)
    for name, module in by_name.items():
        for imported in imports_of(module, by_name):
            importers[imported].add(name)
    for name, module in by_name.items():
        is_package = module.path.endswith("__init__.py")
        if module.lines < SMALL_LINES and not is_package and len(importers[name]) == 1:
            yield f"{module.path} ({module.lines} lines) is imported by {next(iter(importers[name]))} alone"


def imports_of(module: Module, known: Mapping[str, Module]) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module in known and not known[node.module].path.endswith("__init__.py"):
                yield node.module
            yield from (full for alias in node.names if (full := f"{node.module}.{alias.name}") in known)


def loose(modules: Iterable[Module]) -> list[str]:
    """Modules directly under `droidherd/`, beside its packages."""
    paths = [module.path for module in modules if module.package == "droidherd"]
    return [path for path in paths if not path.endswith("__init__.py")]


def old_run_switches(modules: Iterable[Module]) -> Iterator[Finding]:
    """`workflow.patched`: no release exists, so no run of before does either."""
    for module in modules:
        names = imported_names(module)
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and resolved(node.func, names).endswith(".patched"):
                yield Finding(module.path, node.lineno, "patched(): re-record the histories instead (tests/replay)")


def passed_through(modules: Iterable[Module]) -> Iterator[Finding]:
    """Imports that the sandbox of the strict replay would not look into."""
    for module in modules:
        names = imported_names(module)
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and resolved(node.func, names).endswith(".imports_passed_through"):
                yield Finding(module.path, node.lineno, "imports_passed_through(): import plainly (ADR 44)")


class Classes:
    """The classes of the product by their dotted names, and what they inherit from."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.nodes: dict[str, tuple[Module, ast.ClassDef]] = {}
        self._bases: dict[str, list[str]] = {}
        for module in modules:
            names = imported_names(module)
            for node in ast.walk(module.tree):
                if isinstance(node, ast.ClassDef):
                    name = f"{dotted(module)}.{node.name}"
                    self.nodes[name] = (module, node)
                    plain = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
                    self._bases[name] = [resolved(base, names) for base in plain]

    def bases(self, name: str) -> list[str]:
        """Full names: a base without a dot that nobody imported is of the same module, if it is not built in."""
        home = name.rpartition(".")[0]
        return [local if (local := f"{home}.{base}") in self.nodes else base for base in self._bases.get(name, [])]

    def ancestors(self, name: str) -> set[str]:
        direct = self.bases(name)
        return {*direct, *(above for base in direct for above in self.ancestors(base))}

    def parents(self, name: str) -> list[str]:
        """Those of the product that are no protocols."""
        return [base for base in self.bases(name) if base in self.nodes and "typing.Protocol" not in self.bases(base)]


def inheritance(modules: Iterable[Module]) -> Iterator[Finding]:
    """Product classes of the domain and the workflows that inherit from a product class; errors, models, enums may."""
    classes = Classes(modules)
    for name, (module, node) in classes.nodes.items():
        parents = classes.parents(name)
        if not module.path.startswith(FREE_OF_INHERITANCE) or not parents:
            continue
        if not classes.ancestors(name) & (ENUMS | MODELS | ERRORS):
            text = f"class {node.name} inherits from {', '.join(parents)}: hold it as a part instead"
            yield Finding(module.path, node.lineno, text)


def long_test_names(modules: Iterable[Module]) -> Iterator[Finding]:
    for module in modules:
        if module.path.startswith("tests/"):
            for function in functions(module):
                if function.name.startswith("test_") and len(function.name) > NAME_LENGTH:
                    text = f"{function.name}: {len(function.name)} characters, {NAME_LENGTH} allowed"
                    yield Finding(module.path, function.lineno, text)


def dotted(module: Module) -> str:
    return module.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
