"""The JSON Schema of flows, for editors. `python -m droidherd.flows.schema` writes it again."""

import json
from pathlib import Path

from droidherd.flows.flow import Flow

SCHEMA_FILE = Path(__file__).with_name("flow.schema.json")


def schema_text() -> str:
    """The schema as it stands in its file."""
    schema = Flow.model_json_schema(by_alias=True)
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "droidherd flow"}
    return json.dumps(whole, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the file."""
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
