"""Serve the HTTP API, until SIGTERM or SIGINT.

Its settings come from the environment (DROIDHERD_API__PORT=8801) and from droidherd.toml;
docs/operations.md lists them.
"""

import argparse
import gc
import logging
import os
import sys

import uvicorn

from api.app import create_app
from api.auth import UnsafeSettingsError
from api.connections import keep_logs_short, server_options
from droidherd import telemetry
from droidherd.domain.errors import BadParametersError
from droidherd.processes import children
from droidherd.settings import load

REFUSED = 2
"""Exit code: not with these settings."""

GRACE_S = 5
"""Streams and waits that are open when the process ends are cut after this."""


def main(argv: list[str] | None = None) -> int:
    """Serve until a signal comes."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m api", description=__doc__, formatter_class=raw)
    parser.add_argument(children.STANDBY, action="store_true", help="begin when a line arrives at standard input")
    options = parser.parse_args(argv)
    children.keep_private()
    if options.standby:
        children.stand_by()
    try:
        settings = load()
    except ValueError as error:
        sys.stderr.write(f"the settings do not make sense: {error}\n")
        return REFUSED
    telemetry.start_logs(settings.telemetry.log_level)
    keep_logs_short()
    try:
        app = create_app(settings)
    except (UnsafeSettingsError, BadParametersError) as error:
        sys.stderr.write(f"{error}\n")
        return REFUSED
    gc.freeze()  # objects made so far live for ever: no collection has to scan them
    try:
        uvicorn.run(app, timeout_graceful_shutdown=GRACE_S, **server_options(settings.api))
    except SystemExit as ended:  # the port is taken, say
        return ended.code if isinstance(ended.code, int) else 1
    return 0


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)  # an orderly shutdown is behind us; the interpreter's own exit may crash in the SDK's threads
