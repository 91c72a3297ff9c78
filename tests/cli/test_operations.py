"""The pages for operators say what the code does."""

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path

import pytest
import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.core import TyperGroup

from droidherd.cli import main
from droidherd.cli.local.ports import variable
from droidherd.settings import Settings
from tests.support.terminal import Terminal

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operations.md"
CHANGELOG = ROOT / "CHANGELOG.md"


def table_row(setting: str, field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    shown = "" if default in ("", ()) else f"`{', '.join(default) if isinstance(default, tuple) else default}`"
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
    printed = [
        line
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if re.match(r"\| `[a-z_.]+` \| `DROIDHERD_", line)
    ]
    assert rows() == printed


def words(command: object, path: str = "droidherd") -> Iterator[str]:
    """Every word of the command, the words below it as well."""
    if not isinstance(command, TyperGroup):
        yield path
        return
    for name, below in command.commands.items():
        yield from words(below, f"{path} {name}")


WORDS = sorted(words(typer.main.get_command(main.app)))


@pytest.mark.parametrize("line", WORDS)
def test_every_word_of_the_command_shows_an_example(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    code, printed = Terminal(capsys, monkeypatch)(*line.split()[1:], "--help")
    assert (0, True) == (code, line in printed.split("Example", 1)[-1]), printed


def named(spans: Iterable[str]) -> list[str]:
    """The words at the start of each: what follows is for people."""
    leading = (takewhile(re.compile("[a-z]+").fullmatch, span.split()) for span in spans)
    return sorted({" ".join(one) for one in leading})


def test_the_page_explains_every_word_of_the_command_and_no_other():
    columns = re.findall(r"^\| (`droidherd .*?`) \| ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert WORDS == named(span for one in columns for span in re.findall(r"`(.+?)`", one))


def test_the_changelog_names_every_word_of_the_command():
    text = CHANGELOG.read_text(encoding="utf-8")
    line = text.partition("- The `droidherd` command: ")[2].partition("\n- ")[0]
    assert WORDS == sorted(f"droidherd {one}" for one in re.findall(r"`([a-z ]+)`", line))


def test_every_setting_says_what_it_is_for():
    assert [] == [row for row in rows() if row.endswith("|  |")]


def test_the_command_is_a_noun_and_a_verb_and_ten_short_forms():
    nouns = {"task", "emulator", "queue", "account", "subscription", "flow", "key", "host"}
    assert sorted([*nouns, *main.SHORT_FORMS]) == sorted({line.split()[1] for line in WORDS})
    assert 10 == len(main.SHORT_FORMS)
    assert {3} == {len(line.split()) for line in WORDS if line.split()[1] not in main.SHORT_FORMS}


def test_every_command_answers_programs():
    def commands(group: TyperGroup) -> Iterator[tuple[str, list[str]]]:
        for name, one in group.commands.items():
            if isinstance(one, TyperGroup):
                yield from commands(one)
            else:
                yield name, [word for param in one.params for word in param.opts]

    whole = typer.main.get_command(main.app)
    assert isinstance(whole, TyperGroup)
    assert [] == [name for name, options in commands(whole) if "--json" not in options]
