"""What is printed can be read, and copied from, on a narrow terminal."""

import io

import pytest
from rich.console import Console

from droidherd.cli import output

COLUMNS = ("task", "type", "state", "emulator", "why")
LONG = "step 3: gold.png did not appear within 1s: best match 0.43 of 0.9"
ROW = ["daily-reward-4b408d12", "daily_reward", "completed", "virtual-1", LONG]


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_names_stay_whole_and_sentences_fold(width: int, monkeypatch: pytest.MonkeyPatch):
    console = Console(width=width, file=io.StringIO(), record=True, soft_wrap=True)
    monkeypatch.setattr(output, "out", console)
    console.print(output.table(COLUMNS, [ROW, [""] * 5]))
    text = console.export_text()
    assert [] == [cell for cell in ROW[:4] if cell not in text]
    assert set() == set(LONG.split()) - set(text.split())


def test_a_table_without_rows_is_its_head(capsys: pytest.CaptureFixture[str]):
    Console().print(output.table(COLUMNS, []))
    assert list(COLUMNS) == capsys.readouterr().out.split()
