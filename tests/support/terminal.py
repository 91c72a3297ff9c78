"""The command as a user runs it, in the process of a test."""

import json
import sys
from typing import Any

import pytest

from droidherd.cli import main, output

WIDE = 200


class Terminal:
    """`before` and `after` stand around the words of each line; `--help` is asked without the latter."""

    def __init__(
        self,
        capture: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        *,
        before: tuple[str, ...] = (),
        after: tuple[str, ...] = (),
    ) -> None:
        self._capture = capture
        self._monkeypatch = monkeypatch
        self._before = before
        self._after = after
        for console in (output.out, output.err):
            monkeypatch.setattr(console, "_width", WIDE)

    def __call__(self, *words: str) -> tuple[int, str]:
        after = () if "--help" in words else self._after
        self._monkeypatch.setattr(sys, "argv", ["droidherd", *self._before, *words, *after])
        with pytest.raises(SystemExit) as end:
            main.main()
        captured = self._capture.readouterr()
        return int(end.value.code or 0), captured.out + captured.err

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json")[1])
