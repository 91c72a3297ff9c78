"""Write the JSON Schemas of everything that other services may send or read.

.venv/bin/python docs/schemas/generate.py          write them
.venv/bin/python docs/schemas/generate.py --check  say which are out of step
"""  # noqa: INP001 (a script beside its results)

import json
import re
import sys
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from droidherd.contracts import accounts, fleet, maintenance, names, queue, subscriptions, tasks
from droidherd.domain.dispatch import audit
from droidherd.domain.task.lifecycle import TaskStatus

HERE = Path(__file__).parent
TYPES = "droidherd.d.ts"
PLAIN = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean", "null": "null"}
NONE = type(None)
WISHES = ("pause", "resume", "cancel", "force_cancel")
ORDERS = (
    "pause_lane", "resume_lane", "set_capacity", "set_order", "reset_lane", "prioritize",
    "disable_account", "enable_account",
)  # fmt: skip

OWN = {
    "DispatcherInput": ("snapshot", "settings"),
    "EmulatorInput": ("state", "timing"),
    "AccountInput": ("state", "continue_after"),
}
"""Fields of inputs that a run leaves for the next one: nobody else sends them."""

CONTRACT: dict[names.Workflow, dict[str, Any]] = {
    names.Workflow.TASK: {
        "id": "the task's id: 1 to 64 of A-Z a-z 0-9 . _ -",
        "id_reuse_policy": "REJECT_DUPLICATE",
        "input": tasks.TaskInput,
        "result": tasks.TaskView,
        "signals": {
            **dict.fromkeys(WISHES, tasks.OperatorRequest),
            "rollback": tasks.RollbackRequest,
            "answer": tasks.Answer,
        },
        "updates": {"control": (tasks.Control, tasks.TaskView), "admission": (NONE, tasks.Admission)},
        "queries": {"view": (NONE, tasks.TaskView)},
    },
    names.Workflow.DISPATCHER: {
        "id": "dispatcher/<pool>",
        "input": queue.DispatcherInput,
        "result": NONE,
        "signals": {"wake": NONE, "configure": queue.QueueSettings, "audit_entry": audit.AuditEntry},
        "updates": dict.fromkeys(ORDERS, (queue.OperatorCommand, queue.CommandResult)),
        "queries": {
            "queue": (queue.QueueQuery, queue.QueuePage),
            "emulators": (NONE, queue.EmulatorsPage),
            "account": (str, queue.AccountView),
            "accounts": (queue.AccountsQuery, queue.AccountsPage),
            "disabled": (queue.DisabledQuery, queue.DisabledPage),
            "events": (int, queue.EventsPage),
            "place": (str, queue.QueuePosition),
            "places": (queue.PositionsQuery, queue.QueuePositions),
            "stats": (NONE, queue.StatsPage),
            "audit": (queue.AuditQuery, queue.AuditPage),
        },
    },
    names.Workflow.EMULATOR: {
        "id": "emulator/<emulator id>",
        "input": fleet.EmulatorInput,
        "result": NONE,
        "signals": {"drain": fleet.DrainRequest, "undrain": fleet.DrainRequest},
        "updates": {"control": (fleet.EmulatorControl, queue.CommandResult)},
        "queries": {"view": (NONE, fleet.EmulatorView)},
    },
    names.Workflow.ACCOUNT: {
        "id": "account/<account>",
        "input": accounts.AccountInput,
        "result": accounts.AccountRecord,
        "signals": {},
        "updates": {
            "set": (accounts.SetAccount, accounts.AccountRecord),
            "remove": (accounts.AccountActionRequest, accounts.AccountRecord),
        },
        "queries": {"view": (NONE, accounts.AccountRecord)},
    },
    names.Workflow.MAINTENANCE: {
        "id": "maintenance/cleanup/<anything>",
        "input": maintenance.CleanupInput,
        "result": maintenance.CleanupReport,
        "signals": {},
        "updates": {},
        "queries": {"view": (NONE, maintenance.CleanupReport)},
    },
    names.Workflow.SUBSCRIPTION_RUN: {
        "id": "subscription-run/<subscription>-<time>",
        "input": subscriptions.Subscription,
        "result": subscriptions.SubscriptionRunState,
        "signals": {"cancel": tasks.OperatorRequest},
        "updates": {},
        "queries": {"state": (NONE, subscriptions.SubscriptionRunState)},
    },
}
"""Workflow type → how it is addressed and what it understands. (argument, answer); NONE: no argument."""


def documents() -> dict[str, Any]:
    """File name → content."""
    found = {f"{kind.__name__}.json": _schema(kind) for kind in _models()}
    return found | {"index.json": _index()}


def _models() -> list[type]:
    kinds: dict[type, None] = {}
    for spoken in CONTRACT.values():
        pairs = [spoken["input"], spoken["result"], *spoken["signals"].values()]
        pairs += [one for pair in (*spoken["updates"].values(), *spoken["queries"].values()) for one in pair]
        kinds |= dict.fromkeys(one for one in pairs if one.__module__ != "builtins")
    return list(kinds)


def _schema(kind: type) -> dict[str, Any]:
    mode = "validation" if _is_sent(kind) else "serialization"
    schema = TypeAdapter(kind).json_schema(mode=mode)
    for field in OWN.get(kind.__name__, ()):
        del schema["properties"][field]
    used = _used(schema, schema.get("$defs", {}))
    defined = {name: one for name, one in schema.pop("$defs", {}).items() if name in used}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **({"$defs": defined} if defined else {}),
        **schema,
    }


def _used(schema: Any, defined: dict[str, Any]) -> set[str]:
    """The definitions that a schema refers to, directly or through others."""
    found: set[str] = set()
    left: list[Any] = [{name: one for name, one in schema.items() if name != "$defs"}]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left += one
        elif isinstance(one, dict):
            name = str(one.get("$ref", "")).rpartition("/")[2]
            if name in defined and name not in found:
                found.add(name)
                left.append(defined[name])
            left += one.values()
    return found


def _is_sent(kind: type) -> bool:
    """Sent by clients, so that defaults may be left out; answers carry every field."""
    for spoken in CONTRACT.values():
        sent = [spoken["input"], *spoken["signals"].values()]
        sent += [pair[0] for pair in (*spoken["updates"].values(), *spoken["queries"].values())]
        if kind in sent:
            return True
    return False


def _index() -> dict[str, Any]:
    return {
        "task_queue": names.QUEUE,
        "workflows": {
            workflow.value: {
                "id": spoken["id"],
                **({"id_reuse_policy": spoken["id_reuse_policy"]} if "id_reuse_policy" in spoken else {}),
                "input": _reference(spoken["input"]),
                "result": _reference(spoken["result"]),
                "signals": {name: {"argument": _reference(kind)} for name, kind in spoken["signals"].items()},
                "updates": {name: _pair(pair) for name, pair in spoken["updates"].items()},
                "queries": {name: _pair(pair) for name, pair in spoken["queries"].items()},
            }
            for workflow, spoken in CONTRACT.items()
        },
        "search_attributes": {
            one.value: "KeywordList" if one in {names.Attribute.TAGS, names.Attribute.CAPABILITIES} else "Keyword"
            for one in names.Attribute
        },
        "search_attribute_values": {names.Attribute.TASK_STATE.value: [one.value for one in TaskStatus]},
        "memo": {
            names.MEMO_TASK: _reference(tasks.TaskView),
            names.MEMO_ACCOUNT: _reference(accounts.AccountRecord),
            names.MEMO_REPORT: _reference(maintenance.CleanupReport),
            names.MEMO_SUBSCRIPTION_RUN: _reference(subscriptions.SubscriptionRunState),
        },
    }


def _pair(pair: tuple[type, type]) -> dict[str, Any]:
    return {"argument": _reference(pair[0]), "answer": _reference(pair[1])}


def _reference(kind: type) -> Any:
    if kind is NONE:
        return None
    return {"type": {str: "string", int: "integer"}[kind]} if kind in {str, int} else {"$ref": f"{kind.__name__}.json"}


class TypeScript:
    """The same as types for TypeScript: what is sent, and, with every field, what is answered."""

    def __init__(self) -> None:
        self._types: dict[str, str] = {}
        self._suffix = ""
        self._sent = {kind.__name__ for kind in _models() if _is_sent(kind)}

    def text(self) -> str:
        for kind in sorted(_models(), key=_is_sent):
            self._suffix = "Sent" if _is_sent(kind) else ""
            schema = _schema(kind)
            for name, one in schema.get("$defs", {}).items():
                self._add(self._named(name), one)
            self._add(kind.__name__, schema)
        while (same := self._same()) is not None:
            self._merge(same)
        head = "// Written by docs/schemas/generate.py\n\n" + self._workflows()
        return head + "\n" + "\n".join(dict(sorted(self._types.items())).values())

    def _workflows(self) -> str:
        """Which workflow takes and answers what."""
        lines = [
            "/** Workflow type → what starts it, what it ends with, and its messages. */",
            "export interface Workflows {",
        ]
        for workflow, spoken in CONTRACT.items():
            signals = {name: self._of(kind) for name, kind in spoken["signals"].items()}
            lines += [f"  {workflow.value}: {{", f"    input: {self._of(spoken['input'])};"]
            lines += [f"    result: {self._of(spoken['result'])};", *_block("signals", signals)]
            for group in ("updates", "queries"):
                pairs = {
                    name: f"{{ argument: {self._of(sent)}; answer: {self._of(answered)} }}"
                    for name, (sent, answered) in spoken[group].items()
                }
                lines += _block(group, pairs)
            lines.append("  };")
        return "\n".join([*lines, "}", ""])

    def _of(self, kind: type) -> str:
        return {NONE: "undefined", str: "string", int: "number"}.get(kind, kind.__name__)

    def _same(self) -> str | None:
        """A type that is sent as it is answered, or never answered: it needs no name of its own."""
        for name, text in self._types.items():
            plain = name.removesuffix("Sent")
            if plain != name and self._types.get(plain, _renamed(text, name, plain)) == _renamed(text, name, plain):
                return name
        return None

    def _merge(self, name: str) -> None:
        plain = name.removesuffix("Sent")
        types = {plain if one == name else one: _renamed(text, name, plain) for one, text in self._types.items()}
        self._types = types

    def _named(self, name: str) -> str:
        return name if name in self._sent else name + self._suffix

    def _add(self, name: str, schema: Any) -> None:
        if schema.get("type") != "object" or "properties" not in schema:
            self._types.setdefault(name, f"export type {name} = {self._type(schema)};\n")
            return
        required = schema.get("required", []) if self._suffix else schema["properties"]
        fields = [
            f"  {field}{'' if field in required else '?'}: {self._type(one)};\n"
            for field, one in schema["properties"].items()
        ]
        self._types.setdefault(name, f"export interface {name} {{\n{''.join(fields)}}}\n")

    def _type(self, schema: Any) -> str:
        if "$ref" in schema:
            return self._named(schema["$ref"].rpartition("/")[2])
        if "const" in schema or "enum" in schema:
            return " | ".join(json.dumps(one) for one in schema.get("enum", [schema.get("const")]))
        if branches := schema.get("anyOf") or schema.get("oneOf"):
            return " | ".join(dict.fromkeys(map(self._type, branches)))
        kind = schema.get("type")
        if kind == "array":
            return f"Array<{self._type(schema.get('items', {}))}>"
        if kind == "object":
            extra = next(iter(schema.get("patternProperties", {}).values()), schema.get("additionalProperties", {}))
            return f"Record<string, {self._type(extra) if isinstance(extra, dict) else 'unknown'}>"
        return PLAIN.get(str(kind), "unknown")


def _block(name: str, fields: dict[str, str]) -> list[str]:
    return [f"    {name}: {{", *(f"      {field}: {kind};" for field, kind in fields.items()), "    };"]


def _renamed(text: str, name: str, to: str) -> str:
    return re.sub(rf"\b{name}\b", to, text)


def text_of(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def files() -> dict[str, str]:
    """File name → text."""
    return {name: text_of(document) for name, document in documents().items()} | {TYPES: TypeScript().text()}


def _written() -> list[Path]:
    return [*HERE.glob("*.json"), *HERE.glob("*.ts")]


def out_of_step() -> list[str]:
    """Names of files that differ from what the code says, are missing, or should not be there."""
    wanted = files()
    there = {path.name: path.read_text(encoding="utf-8") for path in _written()}
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def main() -> int:
    """Write, or check."""
    if "--check" in sys.argv[1:]:
        stale = out_of_step()
        sys.stdout.write("".join(f"{name} is out of step\n" for name in stale))
        return 1 if stale else 0
    wanted = files()
    for path in _written():
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (HERE / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
