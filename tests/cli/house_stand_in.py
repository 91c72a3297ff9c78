"""`droidherd` with the real engine, and stand-ins where worker and API would be."""

import sys
from collections.abc import Callable
from pathlib import Path

from typing_extensions import override

from droidherd.cli import main, up
from droidherd.cli.house import House, wait_file, wait_http
from droidherd.cli.supervise import Spec

HERE = Path(__file__).parent
WORKER = (
    "import json, os, signal, sys, time\n"
    "def end(*_):\n  open(sys.argv[2], 'a').write('drained\\n'); sys.exit()\n"
    "signal.signal(signal.SIGTERM, end)\n"
    "open(sys.argv[1], 'w').write(json.dumps({'pid': os.getpid()}))\n"
    "print('worker is up', flush=True)\n"
    "time.sleep(600)"
)


class StandIn(House):
    @override
    def specs(self) -> list[tuple[str, Callable[[], Spec]]]:
        engine = [one for one in super().specs() if one[0] == "temporal"]
        return [*engine, ("worker", self._stand_in_worker), ("api", self._stand_in_api)]

    def _stand_in_worker(self) -> Spec:
        ready_file = self.layout.data / "worker.json"
        line = [sys.executable, "-c", WORKER, str(ready_file), str(self.layout.data / "ends")]

        def ready(pid: int) -> None:
            wait_file(ready_file, pid)

        return Spec("worker", line, ready, self.environment)

    def _stand_in_api(self) -> Spec:
        line = [sys.executable, str(HERE / "door_stand_in.py"), str(self.api.port)]

        def ready(pid: int) -> None:
            wait_http(f"http://{self.api}/readyz", pid)

        return Spec("api", line, ready, self.environment, address=str(self.api))


if __name__ == "__main__":
    main.House = StandIn
    up.PROGRAM = (sys.executable, __file__)
    main.main()
