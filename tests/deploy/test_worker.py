"""The units bring back a worker that ended by itself."""

from configparser import ConfigParser

import pytest

from tests.deploy.files import DEPLOY
from worker_main import AGAIN


@pytest.mark.parametrize("name", ["droidherd-worker.service", "droidherd.service"])
def test_a_worker_that_drained_at_its_memory_limit_is_started_again(name: str):
    unit = ConfigParser(strict=False, interpolation=None)
    unit.read_string((DEPLOY / "systemd" / name).read_text(encoding="utf-8"))
    service = unit["Service"]
    assert "always" == service["Restart"]
    assert str(AGAIN) not in service.get("RestartPreventExitStatus", "").split()
