"""1,100 connections that never finish their request, at the limits that an instance has by default."""

import resource
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import psutil

from droidherd.settings import Api
from tests.api.test_connections import HALF, Serving, serving
from tests.api.waiting import eventually

COUNT = 1_100
LOG_MAX_BYTES = 1 << 20


@contextmanager
def many_open_files() -> Generator[None]:
    """This side needs a file for each connection as well."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def established(api: Serving) -> int:
    found = psutil.Process(api.process.pid).net_connections("tcp")
    return sum(one.status == psutil.CONN_ESTABLISHED for one in found)


def test_others_are_served_the_log_stays_short_and_connections_are_bounded(tmp_path: Path):
    with many_open_files(), serving(tmp_path) as api, ExitStack() as stack:
        kept = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{api.port}"))
        assert 200 == kept.get("/healthz").status_code
        before = api.log.stat().st_size
        for number in range(COUNT):
            stack.enter_context(api.connect(HALF))
            if not number % 100:
                assert api.answers(), f"not with {number} of them"
        assert api.answers()
        assert 200 == kept.get("/healthz").status_code
        assert eventually(lambda: established(api) <= Api().connections + 2)
        assert LOG_MAX_BYTES > api.log.stat().st_size - before
    assert "Traceback" not in api.log.read_text()
