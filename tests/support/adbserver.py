"""One private adb server for the whole test run: the program of the adbutils wheel, with nothing of the user's."""

import os
import socket
import subprocess
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import adbutils
import pytest

from droidherd.adb.program import bundled_adb
from droidherd.cli.local import ports

START_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class PrivateAdb:
    """A running adb server, and the command line that talks to it."""

    program: str
    port: int
    environment: dict[str, str]

    def command(self, *words: str) -> list[str]:
        return [self.program, "-P", str(self.port), *words]

    def run(self, *words: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            self.command(*words),
            input=stdin,
            capture_output=True,
            env=self.environment,
            timeout=CALL_TIMEOUT_S,
            check=False,
        )

    def connect(self, address: str) -> None:
        """By disconnect and connect, so that an entry gone offline does not stand in the way; waits for `device`.

        The server may still be about to notice the end of a connection before, and forget the new one with it.
        """
        self.run("disconnect", address)
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while (state := self.state(address)) != "device":
            if time.monotonic() > deadline:
                raise TimeoutError(f"{address} is {state!r}, not 'device'")
            if not state:
                self.run("connect", address)

    def await_state(self, address: str, state: str) -> None:
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while self.state(address) != state:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{address} is {self.state(address)!r}, not {state!r}")
            time.sleep(0.01)

    def state(self, address: str) -> str:
        lines = self.run("devices").stdout.decode().splitlines()[1:]
        return dict(line.split("\t", 1) for line in lines if "\t" in line).get(address, "")

    def shell(self, address: str, line: str) -> tuple[int, str]:
        """Return code and standard output."""
        done = self.run("-s", address, "shell", line)
        return done.returncode, done.stdout.decode()

    def client(self) -> adbutils.AdbClient:
        return adbutils.AdbClient(host="127.0.0.1", port=self.port, socket_timeout=CALL_TIMEOUT_S)


@pytest.fixture(scope="session")
def private_adb(tmp_path_factory: pytest.TempPathFactory) -> Generator[PrivateAdb]:
    """Started once, ended by its pid."""
    yield from start_adb(bundled_adb(), tmp_path_factory.mktemp("adb"))


def start_adb(program: str, home: Path) -> Generator[PrivateAdb]:
    private = {"ADB_USB": "0", "ADB_MDNS": "0", "ADB_LOCAL_TRANSPORT_MAX_PORT": "5553"}
    environment = {**os.environ, **private, "HOME": str(home), "TMPDIR": str(home)}
    port = free_port()
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [program, "-P", str(port), "nodaemon", "server"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        _await_port(port)
        yield PrivateAdb(program, port, environment)
    finally:
        server.terminate()
        server.wait(10)


def free_port() -> int:
    """One that no client on this machine takes before its server listens."""
    return ports.free()


def _await_port(port: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
