"""Questions under a token, and whether a task's lines are all through: under every real shell this machine has."""

from pathlib import Path

import pytest

from droidherd.domain.errors import BadParametersError
from droidherd.emulator import acts, lines
from droidherd.emulator.lines import UPTIME_LIMIT_S, JournalEntry
from droidherd.emulator.token import Token
from tests.emulator.stand import BOOT_ID, SHELLS, Stand

LEASE = 1_790_000_000_000
MINE = Token(LEASE, 2, 1)


@pytest.fixture(params=SHELLS)
def stand(request: pytest.FixtureRequest, tmp_path: Path) -> Stand:
    return Stand.build(tmp_path / "stand", str(request.param))


def test_a_question_is_asked_while_the_token_stands_and_its_answer_is_kept(stand: Stand):
    stand.set(MINE)
    result = stand.raw(lines.ask(MINE, "printf ' a\\n\\n'; cat; false"))
    assert (1, b"dh:asked\n a\n\n") == (result.rc, result.out)
    stand.set(Token(LEASE + 1))
    assert "fenced" == stand.run(lines.ask(MINE, "echo a")).word


def test_a_task_is_quiet_unless_the_last_line_of_a_journal_is_still_at_work(stand: Stand):
    stand.set(MINE)
    line = lines.quiet(MINE, "task-1", stand.places)
    assert "quiet" == stand.run(line).word
    stand.process_runs(4242)
    begun = f"0/1 begin {MINE} 4242 {BOOT_ID}"
    for journal, expected in (
        ((begun,), "running"),
        ((begun, "0/1 done 0"), "quiet"),
        ((f"0/1 begin {MINE} 4243 {BOOT_ID}",), "quiet"),
        ((f"0/1 begin {MINE} 4242 another-boot",), "quiet"),
    ):
        stand.write_journal("task-1.run-1.1.77", *journal)
        assert expected == stand.run(line).word, journal
    stand.write_journal("task-1.run-1.1.77", begun)
    assert "quiet" == stand.run(lines.quiet(MINE, "task-11", stand.places)).word
    stand.set(Token(LEASE + 1))
    assert "fenced" == stand.run(line).word


@pytest.mark.parametrize("task", ["", "../x", "a b", "*"])
def test_what_cannot_name_a_task_is_refused(task: str):
    with pytest.raises(BadParametersError):
        lines.quiet(MINE, task)


def test_an_app_whose_data_cannot_be_taken_away_is_a_failure(stand: Stand):
    stand.set(MINE)
    script = stand.root / "bin" / "pm"
    for output, rc in (("Success", "0"), ("Failed", "1")):
        script.write_text(f"#!/bin/sh\necho {output}\n")
        script.chmod(0o755)
        answer = stand.run(
            lines.effect(
                JournalEntry("task-1.run-1.1", f"2/{output}", MINE, UPTIME_LIMIT_S),
                acts.clear_app("com.example.herd/.Main"),
                stand.places,
            )
        )
        assert ("acted", (rc,)) == (answer.word, answer.rest)
