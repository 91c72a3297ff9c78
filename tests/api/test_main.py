"""`python -m api` as a process."""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest
from uvicorn.config import STARTUP_FAILURE

from worker_main import REFUSED

ROOT = Path(__file__).parents[2]
CLIENTS_KEEP_S = 5.0
"""httpx, by default."""


def environment(**more: str) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DROIDHERD_")}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def run(tmp_path: Path, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-m", "api", *words]
    return subprocess.run(
        line, env=environment(**more), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )


def test_its_start_loads_nothing_for_pictures_or_emulators(tmp_path: Path):
    code = "import api.__main__, sys; print(*sorted({'adbutils', 'cv2', 'numpy', 'PIL', 'requests'} & {*sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "" == done.stdout.strip()


def test_help_helps_and_starts_nothing(tmp_path: Path):
    done = run(tmp_path, "--help")
    assert (0, True) == (done.returncode, "usage: python -m api" in done.stdout)
    assert "docs/operations.md" in done.stdout
    assert (2, True) == ((refused := run(tmp_path, "--port", "1")).returncode, "unrecognized" in refused.stderr)


def test_settings_that_make_no_sense_are_a_sentence(tmp_path: Path):
    done = run(tmp_path, DROIDHERD_FLOWS__PATHS="flows")
    assert (2, False) == (done.returncode, "Traceback" in done.stderr)
    assert "DROIDHERD_FLOWS__PATHS is a list or a table" in done.stderr


def test_it_refuses_to_start_open_to_everyone(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "api"],
        env=environment(DROIDHERD_API__HOST="0.0.0.0"),  # noqa: S104 (refusing it is the test)
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert 2 == done.returncode
    assert "DROIDHERD_API__KEY" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "code"), [(["-m", "api"], 2), ([str(ROOT / "worker_main.py"), "run"], REFUSED)], ids=["api", "worker"]
)
def test_nothing_starts_with_a_policy_for_a_type_that_is_not_there(tmp_path: Path, command: list[str], code: int):
    (tmp_path / "droidherd.toml").write_text("[policies.downlaod]\nretries = 1\n")
    done = subprocess.run(
        [sys.executable, *command],
        env=environment(DROIDHERD_TEMPORAL__ADDRESS="127.0.0.1:9"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert code == done.returncode, done.stderr
    assert "policies.downlaod: there is no task type 'downlaod' (did you mean download?)" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_named_and_has_its_exit_code(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "api"],
            env=environment(DROIDHERD_TEMPORAL__ADDRESS="127.0.0.1:9", DROIDHERD_API__PORT=str(port)),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert STARTUP_FAILURE == done.returncode
    assert "address already in use" in done.stderr
    assert "Traceback" not in done.stderr


def test_it_serves_says_nothing_secret_and_ends_on_a_signal(tmp_path: Path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    key = "s3cret-key"
    settings = {"DROIDHERD_API__PORT": str(port), "DROIDHERD_API__KEY": key}
    settings["DROIDHERD_TEMPORAL__ADDRESS"] = "127.0.0.1:9"
    with (tmp_path / "log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "api"], env=environment(**settings), cwd=tmp_path, stdout=log, stderr=log
        )
        try:
            _wait_for(f"http://127.0.0.1:{port}/healthz")
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"x-api-key": key}, timeout=30) as http:
                assert 503 == http.get("/api/tasks").status_code
                assert "daily_reward" in http.get("/api/task-types").text
            assert _answers_after_silence(port, key)
            process.terminate()
            # By the signal itself, or (Windows) by the only way there is.
            assert process.wait(30) in {0, 1, -15}
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(30)
        log.seek(0)
        text = log.read()
    assert key not in text
    assert not re.search("Traceback", text), text


def _answers_after_silence(port: int, key: str) -> bool:
    """On one connection, silent for longer than clients keep one."""
    answers: list[int] = []
    with closing(HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        for silence_s in (0.0, CLIENTS_KEEP_S + 1.0):
            time.sleep(silence_s)
            connection.request("GET", "/healthz", headers={"x-api-key": key})
            with connection.getresponse() as answer:
                answers.append(answer.status)
                answer.read()
    return answers == [200, 200]


def _wait_for(url: str) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            assert 200 == httpx.get(url, timeout=5).status_code
        except httpx.TransportError:
            assert time.monotonic() < end, "it never came up"
            time.sleep(0.05)
        else:
            return
