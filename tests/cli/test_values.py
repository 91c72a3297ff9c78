"""What is wrong with an option is said before anything is done: no request is sent, no list is written."""

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import typer.main

from droidherd.cli import main, values
from tests.cli.api_stand_in import ApiState
from tests.cli.test_commands import api_state, droidherd
from tests.support.terminal import Terminal

__all__ = ["api_state", "droidherd"]

WRONG = "{"
"""No number, no duration, no time, no pair, no JSON, no cron, no time zone, and none of any choices."""
NAMES = {"--account", "--pool", "--lane", "--emulator", "--subscription", "--id", "--type", "--mutex", "--task",
         "--controller", "--instance", "--name", "--app", "--flow", "--from"}  # fmt: skip
TEXTS = {"--reason", "--note", "--actor", "--action", "--answer", "--idempotency-key"}
PLACES = {"--data", "--url", "--dir", "--keep", "--host"}
FREE = NAMES | TEXTS | PLACES
"""Options that take any text. Every other one is read, and must refuse what is wrong."""
FILES = {"--junit", "--out", "--picture"}


def cases(whole: Any) -> Iterator[tuple[str, ...]]:
    """Every command with one wrong option each, what must be given beside it given."""
    verbs = ((noun, verb, command) for noun, group in whole.commands.items() if hasattr(group, "commands")
             for verb, command in group.commands.items())  # fmt: skip
    for noun, verb, command in verbs:
        positional = [one for one in command.params if one.param_type_name == "argument" and one.required]
        for option in command.params:
            names = {*option.opts} if option.param_type_name == "option" and not option.is_flag else set[str]()
            if names and not names & FREE:
                wrong = "." if names & FILES else WRONG
                yield (noun, verb, *["cancel" for _ in positional], max(names, key=len), wrong)


def test_an_option_that_is_wrong_is_refused_before_anything_is_done(
    droidherd: Terminal, api_state: ApiState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = typer.main.get_command(main.app)
    monkeypatch.setattr(main, "app", whole)  # made once for all
    before = {*tmp_path.rglob("*")}
    tried = [*cases(whole)]
    accepted = [words for words in tried if droidherd(*words, "--json")[0] != 2]
    assert ([], [], before) == (accepted, api_state.asked, {*tmp_path.rglob("*")})
    known = {*chain.from_iterable(tried)}
    assert {"--wait", "--junit", "--params", "--not-before", "--on-busy", "--order", "--state", "--drain"} <= known


def test_a_wait_that_is_wrong_submits_nothing_and_names_its_option(droidherd: Terminal, api_state: ApiState) -> None:
    for words in (("submit", "scan"), ("subscription", "run", "daily"), ("emulator", "connect", "10.0.0.7:5555")):
        code, printed = droidherd(*words, "--wait", "5x", "--json")
        assert (2, True) == (code, "--wait': '5x' is not a duration; write for example 60s" in printed), printed
    assert ([], False) == (api_state.asked, Path(".droidherd/inventory.json").exists())


def test_a_report_that_cannot_be_written_is_refused_before_its_task(
    droidherd: Terminal, api_state: ApiState, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for place in ("file/report.xml", ".", ""):
        code, printed = droidherd("submit", "scan", "--wait", "5s", "--junit", place)
        assert (2, True) == (code, "--junit" in printed), printed
    assert [] == api_state.asked


def test_a_filter_that_names_what_nobody_knows_says_so(droidherd: Terminal, api_state: ApiState) -> None:
    api_state.emulators = [
        {"id": "e1", "pool": "default", "state": "up"},
        {"id": "e2", "pool": "other", "state": "up"},
    ]
    for words, unknown in (
        (("ps", "--emulator", "nope"), "no emulator 'nope' is known"),
        (("ps", "--emulator", "e1", "--pool", "nope"), "no emulator of a pool 'nope' is known"),
        (("ps", "--type", "nope", "--emulator", "e1"), "no task type 'nope' is known"),
        (("queue", "stats", "nope"), "no task type 'nope' is known"),
    ):
        code, printed = droidherd(*words)
        assert (0, 1) == (code, printed.count("is known")), printed
        assert unknown in printed
    for emulator in ("e1", "e2"):
        assert "is known" not in droidherd("ps", "--emulator", emulator)[1]


def test_a_forgotten_emulator_is_on_the_list_only_when_it_is_asked_for(
    droidherd: Terminal, api_state: ApiState
) -> None:
    gone = {"emulator_id": "gone", "id": "gone", "state": "retired"}
    api_state.emulators = [{"emulator_id": "e1", "id": "e1", "state": "up"}, gone]
    lists = [droidherd("emulator", "list", *more)[1] for more in ((), ("--all",), ("--state", "retired"))]
    assert [False, True, True] == ["gone" in one for one in lists]


@pytest.mark.parametrize(
    ("read", "text"), [(values.new_file, "/"), (values.new_file, "x" * 5_000), (values.whole_seconds, "9" * 400)]
)
def test_what_no_system_can_hold_is_refused_in_words(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError, match=r"is a folder|cannot be written|longer than can be counted"):
        read(text)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_number_that_json_does_not_have_stays_text(number: str) -> None:
    assert ("down", number) == values.parameter(f"down={number}")
    with pytest.raises(ValueError, match="is not JSON"):
        values.json_object(f'{{"down": [{number}]}}')


def test_a_key_that_stands_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="the key 'a' stands there twice"):
        values.json_object('{"b": {"a": 1, "a": 2}}')
