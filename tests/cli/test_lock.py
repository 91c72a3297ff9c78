"""Two starts of one instance at the same moment: one serves, and the other says who was faster."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from droidherd.cli.errors import AlreadyRunningError
from droidherd.cli.local import start
from droidherd.cli.local.layout import Layout
from droidherd.cli.local.lock import InstanceLock
from droidherd.settings import Settings


def test_a_start_that_was_slower_exits_with_two_and_names_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    layout = Layout(tmp_path / "data")
    faster = InstanceLock(layout.lock)
    child = "import sys; print('a line of the other start'); sys.exit(2)"

    def popen(*_: Any, **options: Any) -> Any:
        faster.take()
        return real([sys.executable, "-c", child], **options)

    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", popen)
    try:
        with pytest.raises(AlreadyRunningError, match=f"in use by process {os.getpid()}") as refused:
            start.launch(Settings(data=layout.data))
    finally:
        faster.give_back()
    assert 2 == refused.value.code


def test_a_holder_that_has_not_written_its_process_yet_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    holder = InstanceLock(tmp_path / "run" / "up.lock").take()
    (tmp_path / "run" / "up.lock").write_bytes(b"")

    def write_holder(_: float) -> None:
        (tmp_path / "run" / "up.lock").write_bytes(b"77")

    monkeypatch.setattr("time.sleep", write_holder)
    with pytest.raises(AlreadyRunningError, match="in use by process 77"):
        InstanceLock(tmp_path / "run" / "up.lock").take()
    holder.give_back()
