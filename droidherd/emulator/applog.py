"""What an app wrote to the emulator's log, as far as it is still there and worth keeping."""

import re
from collections.abc import Callable

from droidherd.adb import parse
from droidherd.adb.client import AdbClient
from droidherd.adb.quote import quote
from droidherd.domain.errors import DroidherdError

READ_S = 5.0
READ_LINES = 2_000
KEPT_LINES = 400
KEPT_CHARS = 64_000
_PIDS = "droidherd-pids"
_BORN_OR_DIED = r"Start proc (\d+):{app}[/:]|Process {app} \(pid (\d+)\) has died|Process: {app}, PID: (\d+)"
"""How the system, and an app that crashes, name its process: one that is gone is in no list of processes."""


def read(adb: AdbClient, serial: str, app: str, note: Callable[[str], None]) -> str:
    """The app's last lines. A log that cannot be read is an empty one; `told` hears why."""
    line = f"echo {_PIDS} $(pidof {quote(app)}); logcat -d -v threadtime -t {READ_LINES}"
    try:
        text = adb.shell(serial, line, READ_S).text
    except DroidherdError as error:
        note(f"the app's log was not read: {error}")
        return ""
    return of_app(text, app)


def of_app(text: str, app: str) -> str:
    """Lines the app's processes wrote, also those that died, and lines in which the system speaks of it."""
    raw = text.replace("\r\n", "\n").split("\n")
    named = re.compile(_BORN_OR_DIED.format(app=re.escape(app)))
    pids = {int(pid) for line in raw if line.startswith(_PIDS) for pid in line.split()[1:] if pid.isdecimal()}
    pids |= {int(pid) for found in named.findall(text) for pid in found if pid}
    parsed = ((line, parse.log_line(line)) for line in raw)
    found = [line for line, one in parsed if one and (one.pid in pids or app in line)]
    kept = found[-KEPT_LINES:]
    while sum(len(line) + 1 for line in kept) > KEPT_CHARS and len(kept) > 1:
        kept = kept[len(kept) // 4 + 1 :]
    return "".join(f"{line[:KEPT_CHARS]}\n" for line in kept)
