"""Serve the HTTP API, until SIGTERM or SIGINT.

Its settings come from the environment (DROIDHERD_API__PORT=8801) and from droidherd.toml;
docs/operations.md lists them.
"""

import argparse
import gc
import sys

from api.app import create_app
from api.auth import UnsafeSettingsError
from api.connections import keep_logs_short, serve
from droidherd import telemetry
from droidherd.domain.errors import BadParametersError
from droidherd.engine.connection import log_through_python
from droidherd.processes import children
from droidherd.settings import load

REFUSED = 2
"""Exit code: not with these settings."""


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
    log_through_python()
    keep_logs_short()
    try:
        app = create_app(settings)
    except (UnsafeSettingsError, BadParametersError) as error:
        sys.stderr.write(f"{error}\n")
        return REFUSED
    gc.freeze()  # objects made so far live for ever: no collection has to scan them
    return serve(app, settings.api)


if __name__ == "__main__":
    children.end_process(main())
