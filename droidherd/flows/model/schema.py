"""The JSON Schema of flows, for editors. `python -m droidherd.flows.model.schema` writes it again."""

import json
from pathlib import Path
from typing import Any

from droidherd.flows.model.flow import Flow
from droidherd.flows.model.geometry import PLACEHOLDER
from droidherd.flows.model.steps.changes import PAYLOAD_PATTERN
from droidherd.flows.model.targets import IMAGE_PATTERN

SCHEMA_FILE = Path(__file__).with_name("flow.schema.json")
AS_WRITTEN = frozenset({"FlowStage", "FlowPolicy", "Guards", "Param", "UseStep"})
"""What holds no parameter by itself, whatever the steps inside it hold."""
NAMES_OF_FILES = frozenset({IMAGE_PATTERN, PAYLOAD_PATTERN})
_INSIDE = ("anyOf", "oneOf", "prefixItems")


def schema_text() -> str:
    """The schema as it stands in its file."""
    schema = Flow.model_json_schema(by_alias=True)
    parts = schema["$defs"] = _with_one_step(schema["$defs"])
    schema["$defs"] = {name: part if name in AS_WRITTEN else _filled_in(part) for name, part in parts.items()}
    properties = _replace(schema["properties"], parts["Step"])
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "properties": properties,
        "title": "droidherd flow",
    }
    return json.dumps(whole, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _with_one_step(parts: dict[str, Any]) -> dict[str, Any]:
    """The choice between all steps stands once, as `Step`."""
    step = parts["Route"]["properties"]["do"]["items"]
    found = {name: _replace(part, step) for name, part in parts.items()}
    return {**found, "Step": step}


def _replace(node: Any, step: Any) -> Any:
    if node == step:
        return {"$ref": "#/$defs/Step"}
    if isinstance(node, dict):
        return {key: _replace(value, step) for key, value in node.items()}  # pyright: ignore[reportUnknownVariableType]
    return [_replace(one, step) for one in node] if isinstance(node, list) else node  # pyright: ignore[reportUnknownVariableType]


def _filled_in(node: dict[str, Any]) -> dict[str, Any]:
    """With room for `${name}` wherever a value of the model may come from a parameter."""
    if PLACEHOLDER in node.get("anyOf", ()):
        return node
    if node.get("type") in {"number", "integer", "boolean"}:
        given = {key: node[key] for key in ("title", "description", "default") if key in node}
        return {**given, "anyOf": [{key: value for key, value in node.items() if key not in given}, PLACEHOLDER]}
    pattern = node.get("pattern", "")
    if pattern and pattern not in NAMES_OF_FILES and r"\$\{" not in pattern:
        return {**node, "pattern": rf"({pattern})|\$\{{"}
    found = {**node, **{key: [_filled_in(one) for one in node[key]] for key in _INSIDE if key in node}}
    if isinstance(items := node.get("items"), dict):
        found["items"] = _filled_in(items)
    if "properties" in node:
        found["properties"] = {name: _filled_in(one) for name, one in node["properties"].items()}
    return found


def main() -> None:
    """Write the file."""
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
