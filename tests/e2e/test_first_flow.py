"""The first section of docs/flows.md, followed word by word: from an empty folder to a green task."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from droidherd.virtual.control import VirtualControl
from tests.flowtools.person import Person

ROOT = Path(__file__).parents[2]
_, PAGE, *_ = re.split(r"^## ", (ROOT / "docs" / "flows.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
LIMIT_S = 240
"""A guard against hanging; nothing is said about how long it takes."""
COMMANDS_MAX = 9
_BLOCK = re.compile(r"```(sh|yaml)\n(.*?)```", re.DOTALL)
_ACTS = re.compile(r"^\d+\. (tap|type|press) \*\*(.+)\*\*$", re.MULTILINE)
_FILE = re.compile(r"Open `([^`]+)` in your editor")


class Newcomer:
    """Types what the page says, in a folder that was empty."""

    def __init__(self, home: Path) -> None:
        self.home = home
        free = {"TEMPORAL__ADDRESS": "127.0.0.1:0", "TEMPORAL__UI_PORT": "0", "TEMPORAL__METRICS_PORT": "0"}
        ours = {**free, "API__PORT": "0", "ADB__PORT": "0", "TIMING__DRAIN_S": "5"}
        settings = {f"DROIDHERD_{name}": value for name, value in ours.items()}
        self.environment = {**os.environ, **settings, "PYTHONPATH": str(ROOT), "BROWSER": "true", "COLUMNS": "200"}

    def line(self, command: str) -> list[str]:
        program, *words = shlex.split(command)
        assert "droidherd" == program
        return [sys.executable, "-m", "droidherd.cli", *words]

    def types(self, command: str) -> None:
        done = subprocess.run(
            self.line(command),
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert 0 == done.returncode, f"{command}\n{done.stdout}{done.stderr}"

    def records(self, command: str, acts: list[tuple[str, str]]) -> None:
        """Opens the address that is printed, and does there what the list says."""
        with subprocess.Popen(
            self.line(command), env=self.environment, cwd=self.home, stdout=subprocess.PIPE, text=True
        ) as recording:
            try:
                self.does(acts, recording)
                printed, _ = recording.communicate(timeout=LIMIT_S)
            finally:
                recording.kill()  # a person who gave up would leave it waiting for ever
            assert 0 == recording.returncode, printed
            assert "it lints clean and replays as recorded" in printed

    def does(self, acts: list[tuple[str, str]], recording: "subprocess.Popen[str]") -> None:
        assert recording.stdout is not None
        address = recording.stdout.readline().partition("open ")[2].strip()
        with VirtualControl(self.virtual()) as control, Person(address, control, "virtual-1") as person:
            for act, words in acts:
                if act == "tap":
                    person.taps(words)
                elif act == "type":
                    person.types(words)
                else:
                    person.ask(words.lower())

    def virtual(self) -> str:
        answer = json.loads((self.home / ".droidherd" / "virtual" / "ready.json").read_text(encoding="utf-8"))
        return str(answer["control"])


@pytest.fixture
def newcomer(tmp_path: Path) -> Generator[Newcomer]:
    one = Newcomer(tmp_path)
    yield one
    subprocess.run(
        one.line("droidherd down --now"), env=one.environment, cwd=tmp_path, check=False, capture_output=True
    )


def blocks() -> Iterator[tuple[str, str]]:
    yield from _BLOCK.findall(PAGE)


def test_the_page_has_fewer_than_ten_commands():
    commands = [line for kind, text in blocks() if kind == "sh" for line in text.splitlines()]
    assert COMMANDS_MAX >= len(commands) > 6


def test_a_newcomer_gets_from_an_empty_folder_to_a_green_task(newcomer: Newcomer):
    """`submit --wait` ends with 0 only if the task completed, `record` only if the flow replays."""
    (file,) = _FILE.findall(PAGE)
    for kind, text in blocks():
        if kind == "yaml":
            path = newcomer.home / file
            assert path.exists()
            path.write_text(text, encoding="utf-8")
            continue
        for command in text.splitlines():
            if " flow record " in command:
                newcomer.records(command, _ACTS.findall(PAGE))
            else:
                newcomer.types(command)
    assert {"daily_gift", "first_visit"} == {path.parent.name for path in newcomer.home.glob("flows/*/flow.yaml")}
