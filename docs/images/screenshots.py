"""Take the pictures of the Temporal Web UI that docs/contract.md shows: an instance, a few tasks, a headless Chromium.

.venv/bin/python docs/images/screenshots.py        (or: make screenshots)

Chromium is driven over its pipe (the DevTools protocol), so nothing but the program itself is needed. Debian:
apt-get install chromium
"""  # noqa: INP001 (a script beside its results)

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

HERE = Path(__file__).parent
PROGRAMS = ("chromium", "chromium-browser", "chromium-headless-shell", "google-chrome")
WIDTH, HEIGHT = 1280, 860
LIMIT_S = 120.0
MAX_BYTES = 250_000
FREE = {"TEMPORAL__ADDRESS": "127.0.0.1:0", "TEMPORAL__UI_PORT": "0", "TEMPORAL__METRICS_PORT": "0"}
OURS = {**FREE, "API__PORT": "0", "ADB__PORT": "0", "TIMING__DRAIN_S": "5"}
COLUMNS = ("TaskState", "TaskType", "AccountId", "EmulatorId")
STORED = {
    "namespace-workflow-table-columns": {
        "droidherd": [{"label": label} for label in ("Status", "Workflow ID", *COLUMNS, "Start")]
    },
    "timeFormat": "UTC",
    "relativeTime": False,
    "dark mode": False,
}
"""What the Web UI keeps in the browser: its columns, and how it shows times."""


class Chromium:
    """One page of a headless Chromium."""

    def __init__(self, program: str, profile: Path) -> None:
        to_it, commands = os.pipe()
        answers, from_it = os.pipe()
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"]
        line = [program, *words, f"--user-data-dir={profile}", "about:blank"]

        def plug() -> None:
            """It reads commands from descriptor 3 and writes answers to 4."""
            os.dup2(to_it, 30)
            os.dup2(from_it, 31)
            os.dup2(30, 3)
            os.dup2(31, 4)

        self._process = subprocess.Popen(
            line,
            close_fds=False,
            preexec_fn=plug,  # noqa: PLW1509 (there are no threads here)
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_it)
        os.close(from_it)
        self._commands, self._answers = os.fdopen(commands, "wb"), os.fdopen(answers, "rb")
        self._count, self._session, self._rest = 0, "", b""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Page.enable")
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **size)

    def _call(self, method: str, **parameters: object) -> dict[str, Any]:
        self._count += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._count, "method": method, "params": parameters, **session}
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while True:
            answer = self._read()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._answers.fileno(), 1 << 20)
            if not more:
                raise RuntimeError("Chromium ended")
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def evaluate(self, expression: str) -> Any:
        return self._call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def show(self, url: str, *words: str) -> None:
        """Go there, and wait until the page has these words."""
        self._call("Page.navigate", url=url)
        self.await_words(*words)

    def await_words(self, *words: str) -> None:
        def there() -> bool:
            text = str(self.evaluate("document.body ? document.body.innerText : ''"))
            return all(word in text for word in words)

        wait(there, f"the page to show {words}")
        time.sleep(3.0)  # for what comes behind the text: fonts, and details in frames of their own

    def take(self, name: str) -> None:
        picture = b64decode(self._call("Page.captureScreenshot", format="png")["data"])
        (HERE / name).write_bytes(picture)
        sys.stdout.write(f"{name}: {len(picture)} bytes\n")
        if len(picture) > MAX_BYTES:
            raise RuntimeError(f"{name} has more than {MAX_BYTES} bytes")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(20)


def wait(there: Callable[[], object], what: str) -> None:
    end = time.monotonic() + LIMIT_S
    while not there():
        if time.monotonic() > end:
            raise TimeoutError(f"waited too long for {what}")
        time.sleep(0.3)


@contextmanager
def instance(folder: Path) -> Generator[dict[str, str]]:
    """Everything, on free ports: the addresses."""
    ours = {f"DROIDHERD_{name}": value for name, value in {**OURS, "DATA": str(folder)}.items()}
    environment = {**os.environ, **ours}
    command = [sys.executable, "-m", "droidherd.cli"]
    line = [*command, "up", "--virtual", "3", "--ui", "--detach", "--json"]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=True)
    try:
        yield {name: str(value) for name, value in json.loads(done.stdout).items()}
    finally:
        subprocess.run([*command, "down"], env=environment, check=False)


def play(http: httpx.Client) -> None:
    """What the pictures show."""

    def post(path: str, **body: object) -> None:
        http.post(path, json=body).raise_for_status()

    def reached(task_id: str, state: str) -> None:
        wait(lambda: http.get(f"/api/tasks/{task_id}").json()["state"] == state, f"{task_id} to be {state}")

    walk = {"type": "long_walk", "params": {"rounds": 60}, "labels": {"team": "ops"}}
    post("/api/tasks", id="reward-40", type="daily_reward", account="player-40", actor="ann")
    post("/api/tasks", id="health-41", type="check", params={"app": "com.example.gone"}, actor="nightly-check")
    reached("reward-40", "completed")
    reached("health-41", "failed")
    post("/api/tasks", id="walk-42", account="player-42", actor="ann", **walk)
    reached("walk-42", "running")
    later = {"expires_at": "2030-01-01T06:00:00Z", "on_busy": "queue", "actor": "ben"}
    post("/api/tasks", id="reward-42", type="daily_reward", account="player-42", **later)
    post("/api/tasks", id="walk-43", account="player-43", actor="ann", **walk)
    reached("walk-43", "running")
    post("/api/tasks/walk-43/pause", actor="ben", reason="the emulator is needed for a moment")
    reached("walk-43", "paused")
    post("/api/queue/capacity", lane="account", capacity=2, actor="ann", reason="release day")
    reached("reward-42", "queued")


def page_of(addresses: dict[str, str], http: httpx.Client, task_id: str, tab: str) -> str:
    run = http.get(f"/api/tasks/{task_id}").json()["run_id"]
    return f"{addresses['temporal_ui']}/{quote(task_id, safe='')}/{run}/{tab}"


def main() -> int:
    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        sys.stderr.write("no Chromium found (Debian: apt-get install chromium)\n")
        return 1
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch,
        instance(Path(scratch) / "data") as addresses,
        httpx.Client(base_url=addresses["api"], timeout=60) as http,
    ):
        play(http)
        browser = Chromium(program, Path(scratch) / "profile")
        try:
            photograph(browser, addresses, http)
        finally:
            browser.close()
    return 0


def photograph(browser: Chromium, addresses: dict[str, str], http: httpx.Client) -> None:
    ui = addresses["temporal_ui"]
    tasks = quote('WorkflowType = "TaskWorkflow"')
    browser.show(f"{ui}?query={tasks}", "walk-42")
    for key, value in STORED.items():
        browser.evaluate(f"localStorage.setItem({json.dumps(key)}, {json.dumps(json.dumps(value))})")
    browser.show(f"{ui}?query={tasks}", "walk-42", *COLUMNS)
    browser.take("ui-list.png")
    browser.show(page_of(addresses, http, "walk-42", "timeline"), "walk-42", "Timeline")
    browser.take("ui-running.png")
    browser.show(page_of(addresses, http, "reward-42", "user-metadata"), "reward-42", "Current Details")
    browser.take("ui-waiting.png")
    browser.show(page_of(addresses, http, "health-41", "user-metadata"), "health-41", "Current Details")
    browser.take("ui-failed.png")
    browser.show(f"{ui}/{quote('dispatcher/default', safe='')}", "dispatcher/default", "Timeline")
    browser.show(f"{browser.evaluate('location.href').rpartition('/')[0]}/user-metadata", "Current Details")
    browser.take("ui-dispatcher.png")


if __name__ == "__main__":
    sys.exit(main())
