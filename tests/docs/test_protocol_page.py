"""docs/protocol.md and docs/architecture.md name what there is on the wire."""

import ast
import dataclasses
import re
from pathlib import Path

from droidherd.contracts import names
from droidherd.domain import messages

ROOT = Path(__file__).parents[2]
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PARTS = {"Key", "Lease", "RecoveryPolicy"}
"""Values inside messages."""


def test_every_message_stands_in_the_table():
    kinds = [kind for kind in vars(messages).values() if isinstance(kind, type) and dataclasses.is_dataclass(kind)]
    spoken = {kind.__name__.lower() for kind in kinds if kind.__name__ not in PARTS}
    assert spoken == set(re.findall(r"`(\w+)\(", PROTOCOL)) & spoken


def test_the_table_names_only_fields_the_messages_have():
    wrong: list[str] = []
    for name, fields in re.findall(r"`(\w+)\(([\w, ?…]+)\)` \|", PROTOCOL):
        kind = getattr(messages, name.capitalize())
        known = {field.name for field in dataclasses.fields(kind)} | {"emulator", "host", "keys"}
        wrong += [f"{name}.{one}" for one in re.split(r"[, ?…]+", fields) if one and one not in known]
    assert [] == wrong


def test_every_order_of_a_person_stands_in_the_table():
    orders = {names.Update.PAUSE_LANE, names.Update.RESUME_LANE, names.Update.SET_CAPACITY, names.Update.PRIORITIZE}
    orders |= {names.Update.SET_ORDER}
    assert [] == [order for order in sorted(orders) if f"`{order}`" not in PROTOCOL]


def test_every_activity_has_its_queue():
    assert [] == [name for name in sorted(_activities()) if f"`{name}`" not in ARCHITECTURE]


def test_every_workflow_is_drawn():
    assert [] == [str(name) for name in names.Workflow if name not in ARCHITECTURE]


def _activities() -> set[str]:
    """Names of everything that carries `@activity.defn`."""
    found: set[str] = set()
    for path in (ROOT / "activities").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for mark in node.decorator_list:
                text = ast.unparse(mark)
                if text.startswith("activity.defn"):
                    given = re.search(r"name='(\w+)'", text)
                    found.add(given[1] if given else node.name)
    return found
