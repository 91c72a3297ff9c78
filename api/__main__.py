"""`python -m api`: serve the API."""

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
from droidherd.settings import load

GRACE_S = 5
"""Streams and waits that are open when the process ends are cut after this."""


def main() -> int:
    """Serve until a signal comes."""
    settings = load()
    telemetry.start_logs(settings.telemetry.log_level)
    keep_logs_short()
    try:
        app = create_app(settings)
    except (UnsafeSettingsError, BadParametersError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
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
