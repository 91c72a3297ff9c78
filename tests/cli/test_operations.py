"""The pages for operators say what the code does."""

import re
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from droidherd.cli import main
from droidherd.cli.ports import variable
from droidherd.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def table_row(setting: str, field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    shown = "" if default in ("", ()) else f"`{default}`"
    return f"| `{setting}` | `{variable(setting)}` | {shown} | {field.description or ''} |"


def rows() -> list[str]:
    found: list[str] = []
    for name, field in Settings.model_fields.items():
        group = field.annotation
        if isinstance(group, type) and issubclass(group, BaseModel):
            found += [table_row(f"{name}.{inner}", one) for inner, one in group.model_fields.items()]
        else:
            found.append(table_row(name, field))
    return found


def test_the_table_of_settings_is_the_one_of_the_code():
    said = [
        line
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if re.match(r"\| `[a-z_.]+` \| `DROIDHERD_", line)
    ]
    assert rows() == said


def test_every_word_of_the_command_is_explained():
    words = [command.callback.__name__ for command in main.app.registered_commands if command.callback]
    text = PAGE.read_text(encoding="utf-8")
    assert [] == [word for word in words if f"`droidherd {word}" not in text]


def test_every_setting_says_what_it_is_for():
    assert [] == [row for row in rows() if row.endswith("|  |")]
