"""`droidherd` with the real Temporal server, and stand-ins where worker and API would be."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from typing_extensions import override

from droidherd.cli import main
from droidherd.cli.commands import instance
from droidherd.cli.local import start, supervise
from droidherd.cli.local.instance import Instance, not_serving, written_by
from droidherd.cli.local.supervise import ProcessSpec

HERE = Path(__file__).parent
WORKER = (
    "import json, os, signal, sys, time\n"
    "def end(*_):\n  open(sys.argv[2], 'a').write('drained\\n'); sys.exit()\n"
    "signal.signal(signal.SIGTERM, end)\n"
    "open(sys.argv[1], 'w').write(json.dumps({'pid': os.getpid()}))\n"
    "print('worker is up', flush=True)\n"
    "time.sleep(600)"
)


class StandIn(Instance):
    @override
    def specs(self) -> list[list[Callable[[], ProcessSpec]]]:
        return [[self._temporal], [self._stand_in_worker, self._stand_in_api]]

    def _stand_in_worker(self) -> ProcessSpec:
        ready_file = self.layout.data / "worker.json"
        line = [sys.executable, "-c", WORKER, str(ready_file), str(self.layout.data / "ends")]

        def ready(pid: int) -> str:
            return "" if written_by(ready_file, pid) else "has written nothing"

        return ProcessSpec("worker", line, ready, self.worker_environment)

    def _stand_in_api(self) -> ProcessSpec:
        dies = "STAND_IN_API_DIES" in os.environ
        line = [sys.executable, *(["-c", "raise SystemExit(9)"] if dies else [str(HERE / "api_stand_in.py")])]
        line.append(str(self.api.port))

        def ready(_pid: int) -> str:
            return not_serving(f"http://{self.api}/readyz")

        return ProcessSpec("api", line, ready, self.api_environment, address=str(self.api))


if __name__ == "__main__":
    instance.Instance = StandIn
    supervise.RESTARTS_A_MINUTE = 2 if "STAND_IN_API_DIES" in os.environ else supervise.RESTARTS_A_MINUTE
    start.PROGRAM = (sys.executable, __file__)
    main.main()
