"""`python -m api`: serve the API."""

import gc
import logging
import os
import sys

import uvicorn

from api.app import create_app
from api.auth import UnsafeSettingsError
from droidherd import telemetry
from droidherd.domain.errors import BadParametersError
from droidherd.settings import load

GRACE_S = 5
"""Streams and waits that are open when the process ends are cut after this."""

KEEP_ALIVE_S = 75
"""Longer than clients and proxies keep an idle connection (5 to 60 s), so that the server never closes first.

Otherwise a request now and then meets a connection that is just closing, and may or may not have been served.
"""


def main() -> int:
    """Serve until a signal comes."""
    settings = load()
    telemetry.start_logs(settings.telemetry.log_level)
    try:
        app = create_app(settings)
    except (UnsafeSettingsError, BadParametersError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    gc.freeze()  # objects made so far live for ever: no collection has to scan them
    try:
        uvicorn.run(
            app,
            host=settings.api.host,
            port=settings.api.port,
            log_config=None,
            access_log=False,
            # A proxy header may claim any address.
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
    except SystemExit as ended:  # the port is taken, say
        return ended.code if isinstance(ended.code, int) else 1
    return 0


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)  # an orderly shutdown is behind us; the interpreter's own exit may crash in the SDK's threads
