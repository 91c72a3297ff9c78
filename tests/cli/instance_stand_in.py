"""`droidherd` with the real Temporal server, and stand-ins where worker and API would be."""

import sys
from collections.abc import Callable
from pathlib import Path

from typing_extensions import override

from droidherd.cli import main
from droidherd.cli.commands import instance
from droidherd.cli.local import start
from droidherd.cli.local.instance import Instance, wait_file, wait_http
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
    def specs(self) -> list[tuple[str, Callable[[], ProcessSpec]]]:
        temporal = [one for one in super().specs() if one[0] == "temporal"]
        return [*temporal, ("worker", self._stand_in_worker), ("api", self._stand_in_api)]

    def _stand_in_worker(self) -> ProcessSpec:
        ready_file = self.layout.data / "worker.json"
        line = [sys.executable, "-c", WORKER, str(ready_file), str(self.layout.data / "ends")]

        def ready(pid: int) -> None:
            wait_file(ready_file, pid)

        return ProcessSpec("worker", line, ready, self.environment)

    def _stand_in_api(self) -> ProcessSpec:
        line = [sys.executable, str(HERE / "api_stand_in.py"), str(self.api.port)]

        def ready(pid: int) -> None:
            wait_http(f"http://{self.api}/readyz", pid)

        return ProcessSpec("api", line, ready, self.environment, address=str(self.api))


if __name__ == "__main__":
    instance.Instance = StandIn
    start.PROGRAM = (sys.executable, __file__)
    main.main()
