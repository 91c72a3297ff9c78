"""docs/lifecycle.md draws the machine that runs."""

import re
from pathlib import Path

from droidherd.domain.task.lifecycle import FINAL, TABLE, TaskStatus

PAGE = (Path(__file__).parents[2] / "docs" / "lifecycle.md").read_text(encoding="utf-8")
ARROW = re.compile(r"^ +(\w+) --> (\w+): (\w+)$", re.MULTILINE)


def test_every_arrow_of_the_drawing_is_a_pair_of_the_table_and_vice_versa():
    drawn = {(before, event): after for before, after, event in ARROW.findall(PAGE)}
    table = {(str(before), str(event)): str(after) for (before, event), after in TABLE.items()}
    assert table == drawn


def test_no_arrow_is_drawn_twice():
    arrows = ARROW.findall(PAGE)
    assert len(TABLE) == len(arrows)


def test_every_state_is_explained():
    explained = {name for line in PAGE.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)}
    assert set() == {str(state) for state in TaskStatus} - explained


def test_every_way_to_end_is_explained():
    ends = PAGE.split("## Ends")[1].split("## ")[0]
    reachable = {state for state in FINAL if not state.startswith("rollback")}
    assert set() == {str(state) for state in reachable} - set(re.findall(r"`(\w+)`", ends))
