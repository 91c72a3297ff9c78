"""`python -m droidherd.virtual`: a process that hosts virtual emulators."""

import argparse
import asyncio
import re
import sys
from pathlib import Path

from droidherd.virtual.hosting import HostingPlan, host
from droidherd.virtual.store import BrokenStateError

COUNT_LIMIT = 300


def main() -> None:
    """Host until stopped."""
    try:
        asyncio.run(host(plan_from()))
    except BrokenStateError as problem:
        sys.exit(str(problem))


def plan_from(arguments: list[str] | None = None) -> HostingPlan:
    """What the command line asks for; a mistake ends the process with a usage line."""
    parser = argparse.ArgumentParser(prog="python -m droidherd.virtual", description=__doc__)
    parser.add_argument("--count", type=int, default=4, help="how many emulators (default 4)")
    parser.add_argument("--ports", default="", help="one port per emulator, separated by commas")
    parser.add_argument("--base-port", type=int, default=0, help="first port, even; the next ones follow in steps of 2")
    parser.add_argument("--state", type=Path, required=True, help="folder for what emulators keep over restarts")
    parser.add_argument("--control-port", type=int, default=0, help="port of the side channel (default: any)")
    parser.add_argument("--size", default="1280x720", help="screen size, WIDTHxHEIGHT")
    parser.add_argument("--ready-file", type=Path, help="written as JSON when all emulators listen")
    parser.add_argument("--boot-s", type=float, default=0.0, help="how long the first boot takes")
    parser.add_argument("--parent", type=int, default=0, help="stop when this process is gone")
    given = parser.parse_args(arguments)
    size = re.fullmatch(r"(\d{2,4})x(\d{2,4})", given.size)
    ports = _ports(given.ports, given.base_port, given.count)
    if not size or not 1 <= given.count <= COUNT_LIMIT or (ports and len(ports) != given.count):
        parser.error(f"1 to {COUNT_LIMIT} emulators, a size like 1280x720, as many ports as emulators (even base port)")
    return HostingPlan(
        count=given.count,
        ports=ports,
        state=given.state,
        size=(int(size.group(1)), int(size.group(2))),
        control_port=given.control_port,
        ready_file=given.ready_file,
        boot_s=given.boot_s,
        parent=given.parent,
    )


def _ports(listed: str, base: int, count: int) -> tuple[int, ...]:
    if listed:
        return tuple(int(word) for word in listed.split(",") if word.isdecimal())
    if not base:
        return ()
    return tuple(range(base, base + 2 * count, 2)) if base % 2 == 0 else (base,) * (count + 1)


if __name__ == "__main__":
    main()
