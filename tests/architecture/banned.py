"""Calls that do not belong, each with the word for what to use instead."""

import ast
from collections.abc import Iterable, Iterator
from types import MappingProxyType

from tests.architecture.source import Finding, Module, imported_names, resolved

WORKFLOW_CALLS = MappingProxyType(
    {
        "datetime.datetime.now": "workflow.now()",
        "datetime.datetime.utcnow": "workflow.now()",
        "datetime.datetime.today": "workflow.now()",
        "datetime.date.today": "workflow.now().date()",
        "time.time": "workflow.time()",
        "time.time_ns": "workflow.time_ns()",
        "time.monotonic": "workflow.time()",
        "time.perf_counter": "workflow.time()",
        "time.sleep": "workflow.sleep()",
        "uuid.uuid1": "workflow.uuid4()",
        "uuid.uuid4": "workflow.uuid4()",
        "os.urandom": "workflow.random()",
        "os.getenv": "an input of the workflow",
        "open": "an activity",
        "print": "workflow.logger",
        "input": "a signal or an update",
        "threading.Thread": "asyncio.create_task()",
        "asyncio.to_thread": "an activity",
        "asyncio.wait": "workflow.wait(), which keeps the order",
        "asyncio.as_completed": "workflow.as_completed(), which keeps the order",
        "logging.getLogger": "workflow.logger",
        "hash": "a stable digest: hash() of a text differs between processes",
        "id": "a name: id() differs between processes",
    }
)
"""In workflows, and in the domain that runs inside them."""

CALLED = frozenset(
    f"{what}{way}" for what in ("activity", "local_activity", "child_workflow") for way in ("", "_class", "_method")
)
CALLS_HOME = "workflows/calls.py"
"""The only place that starts activities and child workflows: it reads what they return."""

RANDOM_MODULES = ("random", "secrets")
"""Not even imported in workflows and in the domain: a generator seeded by hand gives every run the same numbers."""

EVERYWHERE_CALLS = MappingProxyType(
    {
        "asyncio.get_event_loop": "asyncio.get_running_loop(), or asyncio.run() at the edge",
        "os.system": "subprocess.run([...])",
        "os.popen": "subprocess.run([...])",
        "eval": "a parser",
        "exec": "a function",
        "pickle.loads": "a pydantic model",
    }
)

ENVIRONMENT_ROOTS = (
    "worker_main.py",
    "droidherd/settings.py",
    "api/app.py",
    "api/__main__.py",
    "droidherd/cli/",
    "droidherd/testing/",
)
"""Who may read the environment: settings, and the roots that start processes."""

BROAD_EDGES = (
    "activities/errors.py",
    "api/errors.py",
    "droidherd/stage/attempt.py",
    "worker_main.py",
    "workflows/inbound.py",
)
"""Where an exception nobody foresaw is turned into something people can read."""

CLIENT_HOMES = (
    "droidherd/engine/",
    "api/app.py",
    "activities/engine.py",
    "activities/delivery.py",
    "activities/lifeline.py",
    "droidherd/worker/",
    "worker_main.py",
    "droidherd/cli/",
    "droidherd/testing/",
)
"""Where `temporalio.client` may be named: the engine library, the activities that use a bare client, the roots."""

CLIENT_RATCHET = ("activities/fleet.py", "activities/stage.py")
"""Pass a client on, or call it once, where a port would do. Entries are only ever removed."""


def findings(modules: Iterable[Module]) -> Iterator[Finding]:
    for module in modules:
        names = imported_names(module)
        for node in ast.walk(module.tree):
            for line, message in _node(module, node, names):
                yield Finding(module.path, line, message)
        if _deterministic(module):
            yield from _unordered(module)
        yield from _unawaited_signals(module)


def _deterministic(module: Module) -> bool:
    return module.path.startswith(("workflows/", "droidherd/domain/"))


def _node(module: Module, node: ast.AST, names: dict[str, str]) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Call():
            yield from _call(module, node, names)
        case ast.Attribute() | ast.Name():
            if resolved(node, names) == "os.environ" and not module.path.startswith(ENVIRONMENT_ROOTS):
                yield node.lineno, "os.environ: only settings.py and composition roots read the environment"
        case ast.ExceptHandler():
            if _is_broad(node, names) and module.path not in BROAD_EDGES:
                yield node.lineno, f"broad except: name the error; only {', '.join(BROAD_EDGES)} may catch everything"
        case ast.Assert():
            yield node.lineno, "assert: raise an error with a verdict (python -O drops asserts)"
        case ast.ImportFrom() | ast.Import():
            yield from _import(module, node)
        case _:
            pass


def _call(module: Module, node: ast.Call, names: dict[str, str]) -> Iterator[tuple[int, str]]:
    name = resolved(node.func, names)
    if name in EVERYWHERE_CALLS:
        yield node.lineno, f"{name}: use {EVERYWHERE_CALLS[name]}"
    if any(one.arg == "shell" and not _is_false(one.value) for one in node.keywords):
        yield node.lineno, "shell=True: start a process from a list"
    if name == "os.getenv" and not module.path.startswith(ENVIRONMENT_ROOTS):
        yield node.lineno, "os.getenv: only settings.py and composition roots read the environment"
    if _starts_by_itself(module, name):
        yield node.lineno, f"{name}: use workflows.calls, which reads the result: anybody can forge one"
    if _deterministic(module) and name in WORKFLOW_CALLS:
        yield node.lineno, f"{name}: use {_replacement(module, name)}"


def _starts_by_itself(module: Module, name: str) -> bool:
    verb, _, what = name.removeprefix("temporalio.workflow.").partition("_")
    asked = name.startswith("temporalio.workflow.") and verb in {"start", "execute"} and what in CALLED
    return asked and module.path.startswith("workflows/") and module.path != CALLS_HOME


def _replacement(module: Module, name: str) -> str:
    if module.path.startswith("droidherd/domain/") and WORKFLOW_CALLS[name].startswith("workflow."):
        return "a value the caller passes in (`now`, `random`)"
    return WORKFLOW_CALLS[name]


def _import(module: Module, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[int, str]]:
    found = [node.module or ""] if isinstance(node, ast.ImportFrom) else [one.name for one in node.names]
    if isinstance(node, ast.ImportFrom) and node.module == "temporalio":
        found = [f"temporalio.{one.name}" for one in node.names]
    if _deterministic(module) and (banned := [one for one in found if one in RANDOM_MODULES]):
        yield node.lineno, f"{banned[0]}: use {_replacement(module, 'os.urandom')}"
    if any(one == "temporalio.client" or one.startswith("temporalio.client.") for one in found):
        kept = module.path.startswith((*CLIENT_HOMES, *CLIENT_RATCHET))
        if not kept:
            yield node.lineno, f"temporalio.client: use droidherd.engine; its homes are {', '.join(CLIENT_HOMES[:3])}"


def _is_broad(node: ast.ExceptHandler, names: dict[str, str]) -> bool:
    if node.type is None:
        return True
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(resolved(kind, names) in {"Exception", "BaseException"} for kind in kinds)


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _unordered(module: Module) -> Iterator[Finding]:
    """Iterating a set of texts gives another order in every process, so a replay diverges."""
    for node in ast.walk(module.tree):
        loops: list[ast.expr] = []
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            loops = [node.iter]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"list", "tuple", "iter", "enumerate", "next"}
        ):
            loops = node.args[:1]
        elif isinstance(node, ast.Starred):
            loops = [node.value]
        for loop in loops:
            if _is_set(loop):
                text = "iteration over a set: the order differs between processes; use sorted(...) or a dict"
                yield Finding(module.path, loop.lineno, text)


def _is_set(node: ast.expr) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Attribute(attr="union" | "intersection" | "difference" | "symmetric_difference")):
            return True
        case ast.Call(func=ast.Name(id="enumerate" | "iter" | "list" | "tuple" | "reversed"), args=[inner, *_]):
            return _is_set(inner)
        case ast.BinOp(op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor()):
            return _is_set(node.left) or _is_set(node.right)
        case _:
            return False


def _unawaited_signals(module: Module) -> Iterator[Finding]:
    """An external signal that is not awaited is lost when its workflow closes."""
    if not module.path.startswith(("workflows/", "activities/", "api/", "worker_main.py")):
        return
    for node in ast.walk(module.tree):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="signal" | "cancel" as attr)) as call):
                if attr == "signal" or _is_external(call):
                    yield Finding(
                        module.path,
                        node.lineno,
                        f".{attr}(...) is not awaited: it would be lost; put `await` before it",
                    )
            case ast.Call(func=ast.Attribute(attr="create_task" | "ensure_future" | "gather"), args=args):
                for one in args:
                    if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr == "signal":
                        text = "signals sent concurrently arrive swapped: one in flight per target, from the outbox"
                        yield Finding(module.path, one.lineno, text)
            case _:
                pass


def _is_external(call: ast.Call) -> bool:
    return "get_external_workflow_handle" in ast.unparse(call.func)
