"""What is printed can be read, and copied from, on a narrow terminal."""

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from droidherd.cli import output
from droidherd.domain.text import visible
from tests.support.terminal import Terminal

COLUMNS = ("task", "type", "state", "emulator", "why")
LONG = "step 3: gold.png did not appear within 1s: best match 0.43 of 0.9"
ROW = ["daily-reward-4b408d12", "daily_reward", "completed", "virtual-1", LONG]


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_names_are_kept_whole_and_sentences_fold(width: int, monkeypatch: pytest.MonkeyPatch):
    console = Console(width=width, file=io.StringIO(), record=True, soft_wrap=True)
    monkeypatch.setattr(output, "out", console)
    console.print(output.table(COLUMNS, [ROW, [""] * 5]))
    text = console.export_text()
    assert [] == [cell for cell in ROW[:4] if cell not in text]
    assert set() == set(LONG.split()) - set(text.split())


def test_a_table_without_rows_is_its_head(capsys: pytest.CaptureFixture[str]):
    Console().print(output.table(COLUMNS, []))
    assert list(COLUMNS) == capsys.readouterr().out.split()


@pytest.mark.parametrize(
    ("words", "error", "command"),
    [
        (("flow", "run"), "Missing argument 'PATH|NAME'.", "droidherd flow run"),
        (("flow", "nosuch"), "No such command 'nosuch'.", "droidherd flow"),
        (("task", "list", "--nosuch"), "No such option: --nosuch", "droidherd task list"),
        (
            ("logs", "--lines", "many"),
            "Invalid value for '--lines' / '-n': is 'many'; it must be a whole number",
            "droidherd logs",
        ),
    ],
)
def test_wrong_usage_is_one_json_document_where_json_is_asked_for(
    words: tuple[str, ...],
    error: str,
    command: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    assert (2, True) == ((code := Terminal(capsys, monkeypatch)(*words))[0], error.rstrip(".") in code[1])
    code, printed = Terminal(capsys, monkeypatch)(*words, "--json")
    assert (2, {"error": error, "remedy": f"see {command} --help"}) == (code, json.loads(printed))


def test_wrong_usage_is_reported_to_people_as_before(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    code, printed = Terminal(capsys, monkeypatch)("flow", "run")
    assert (2, True) == (code, "Usage: droidherd flow run" in printed)


WRITES = re.compile(r"(?<![\w.])print\(|sys\.std(out|err)\.write\(|(?<!Safe)Console\(|typer\.echo\(|\bsecho\(")
ALLOWED = {"output.py", "local/start.py"}
"""Where text is made safe, and where `up` writes its own events, in ASCII."""


def test_nothing_of_the_command_is_printed_past_the_safe_console():
    folder = Path(output.__file__).parent
    found = [
        f"{path.relative_to(folder)}: {line.strip()}"
        for path in sorted(folder.rglob("*.py"))
        if str(path.relative_to(folder)) not in ALLOWED
        for line in path.read_text(encoding="utf-8").splitlines()
        if WRITES.search(line)
    ]
    assert [] == found


@pytest.mark.parametrize("text", ["\x1b[2J", "a\x9b31m", "\x07", "\u202e", "\ud800", "a\rb", "\x7f", "\x85"])
def test_what_a_terminal_would_obey_is_spelt_out(text: str):
    shown = visible(text)
    assert (True, True) == (shown.isascii(), shown.isprintable())
    assert text == json.loads(output.json_text(text))
    assert output.json_text(text).isascii()


def test_a_table_is_no_wider_than_120_columns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output.out, "_width", 80)
    long = "x" * 64
    made = output.table(("task", "type", "account", "state", "why"), [["t" * 40, long, long, "running", "word " * 30]])
    with output.out.capture() as captured:
        output.out.print(made)
    lines = captured.get().splitlines()
    assert output.WIDE >= max(len(line.rstrip()) for line in lines)
    assert (True, True, False) == ("t" * 40 in lines[1], "running" in lines[1], long in lines[1])


def test_line_ends_and_letters_are_left_alone():
    assert "é\n\tя 漢字 → ✓" == visible("é\r\n\tя 漢字 → ✓")
