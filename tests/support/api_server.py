"""The API as an operator starts it: `python -m api`, a process of its own on a free port."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.support.adbserver import free_port
from tests.support.farm import ROOT, Farm

START_S = 120.0


@dataclass
class ApiServer:
    """A running API."""

    environment: dict[str, str]
    log: Path
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it answers."""
        environment = {**self.environment, "DROIDHERD_API__PORT": str(self.port)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "api"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
            )
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/healthz", timeout=10).is_success:
                    return
            time.sleep(0.05)
        raise TimeoutError(f"the API did not answer: {self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        """As the kernel would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()


@contextlib.contextmanager
def api_server(place: Farm) -> Generator[ApiServer]:
    """In front of a farm."""
    link = {"DROIDHERD_TEMPORAL__ADDRESS": place.links.api.address} if place.links else {}
    one = ApiServer({**place.worker.environment, **link}, place.data / "api.log")
    one.start()
    try:
        yield one
    finally:
        one.stop()
