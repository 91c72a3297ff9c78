"""Words of flows that changed: refused by their old name, with the new one."""

from pathlib import Path

import pytest

from tests.flows.test_lint import HEAD, problems


@pytest.mark.parametrize(
    ("old", "new", "step"),
    [
        ("frame", "screenshot", "frame: {name: a}"),
        ("pause", "sleep", "pause: {for: 1s}"),
        ("again", "reschedule", "again: {in: 2h, at_most: 1}"),
        ("handle", "call", "handle: {by: scan}"),
        ("still", "stable", "wait: {still: 1s, within: 5s}"),
    ],
)
def test_a_renamed_step_is_refused_with_its_new_name(tmp_path: Path, old: str, new: str, step: str) -> None:
    """Whoever wrote flows before the words changed is told the new one."""
    assert any(f"`{old}` is now `{new}`" in one for one in problems(tmp_path, f"{HEAD}      - {step}\n"))


@pytest.mark.parametrize(
    ("old", "new", "value"), [("lives", "effect", "account"), ("on_unknown", "on_ambiguous", "repeat")]
)
def test_a_renamed_key_of_a_stage_is_refused_with_its_new_name(tmp_path: Path, old: str, new: str, value: str) -> None:
    """As with steps."""
    text = HEAD.replace("    steps:", f"    {old}: {value}\n    steps:") + "      - key: {name: home}\n"
    assert any(f"`{old}` is now `{new}`" in one for one in problems(tmp_path, text))
