"""Every row of the table under skipped time with its real delays, and with the real flow and handler of its type.

The planner plans the flow of the gallery, its stages run on a virtual emulator behind the real adb server, downloads
come from a real server. What goes wrong goes wrong there: a stage's own clock runs out, a server refuses, an app is not
installed, a disk is full. No row reads text from the screen, so none is left to a stand-in. Only what an emulator
cannot be made to do at will (every class of error that may pass) is said by one, in the last test.
"""

from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import JsonValue

from droidherd.contracts.plan import RetryOn
from droidherd.contracts.tasks import TaskView
from droidherd.domain.errors import StageTimeoutError, Verdict
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.domain.task.reaction import TIMED_OUT
from droidherd.testing.answers import fails
from droidherd.testing.skipping import Herd, StandIn
from tests.testing.conftest import SharedHerd
from tests.testing.real import Place, place
from tests.testing.table import TABLE, Row
from tests.testing.test_policies import of, raised

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECOND = timedelta(seconds=1)
NOWHERE = "com.example.nowhere"
ON_TIMEOUT = [row for row in TABLE if row.policy.retry_on is RetryOn.TIMEOUT]


@dataclass
class SharedPlace:
    """After a test that failed, the next one gets a new emulator and a new server."""

    request: pytest.FixtureRequest
    root: Path
    stack: ExitStack
    _place: Place | None = None
    _failed: int = 0

    def place(self) -> Place:
        failed = self.request.session.testsfailed
        if self._place is None or self._failed != failed:
            self.stack.close()
            self._failed = failed
            self._place = self.stack.enter_context(place(self.root / str(failed)))
            self._place.site.files["/x"] = b"content"
        return self._place


@pytest.fixture(scope="module")
def shared_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[SharedPlace]:
    with ExitStack() as stack:
        yield SharedPlace(request, tmp_path_factory.mktemp("rows"), stack)


@pytest.fixture
def here(shared_place: SharedPlace) -> Place:
    return shared_place.place()


@pytest_asyncio.fixture(loop_scope="module")
async def emulator(shared: SharedHerd, here: Place) -> StandIn:
    return await shared.emulator(here.emulator.name)


def params(row: Row, here: Place) -> dict[str, JsonValue]:
    return {name: here.site.url("/x") if name == "url" else value for name, value in row.params.items()}


def limit(row: Row) -> timedelta:
    return timedelta(seconds=row.policy.time_limit_s)


def lasted(view: TaskView) -> list[timedelta]:
    return [one.ended - one.started for one in view.attempts if one.ended and one.started]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.type)
async def test_a_row_whose_time_runs_out_is_tried_as_often_as_it_says(
    herd: Herd, here: Place, emulator: StandIn, row: Row
):
    emulator.answers = lambda _: here.runs(herd, limit(row))
    task = await herd.submit(row.type, account="ann", params=params(row, here))
    view = await task.result()
    assert [timedelta(seconds=delay) for delay in row.delays_s] == await task.delays()
    assert ["StageTimeoutError"] * (len(row.delays_s) + 1) == [one.error.kind for one in view.attempts if one.error]
    assert view.error is not None
    assert (TaskStatus.FAILED, True) == (view.state, "not done within" in view.error.message)
    assert all(limit(row) <= one < limit(row) + timedelta(seconds=35) for one in lasted(view))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.type)
async def test_a_row_may_take_all_its_time_and_its_last_attempt_may_be_good_one(
    herd: Herd, here: Place, emulator: StandIn, row: Row
):
    tries = len(row.delays_s)
    late = [*[here.runs(herd, limit(row))] * tries, here.runs(herd, limit(row) - 5 * SECOND)]
    emulator.answers = late
    here.reports.clear()
    view = await (await herd.submit(row.type, account="ann", params=params(row, here))).result()
    assert (TaskStatus.COMPLETED, tries + 1) == (view.state, view.attempt)
    assert [(True, True)] == [(one.clean, one.released) for one in here.reports]
    assert limit(row) - 5 * SECOND <= lasted(view)[-1]
    assert not row.leaves or row.leaves[1] == here.emulator.shell(row.leaves[0]).strip()


@dataclass(frozen=True)
class Case:
    type: str
    odd: dict[str, JsonValue]
    """Parameters that make it go wrong; an address is a path of the server."""
    error: str

    @property
    def row(self) -> Row:
        return next(row for row in TABLE if row.type == self.type)

    def params(self, here: Place) -> dict[str, JsonValue]:
        odd = {name: here.site.url(str(value)) if name == "url" else value for name, value in self.odd.items()}
        return {**params(self.row, here), **odd}


REFUSED = [
    Case("download", {"url": "/status/400"}, "ServerRefusedError"),
    Case("download", {"url": "/status/401"}, "ServerRefusedError"),
    Case("download", {"url": "/status/403"}, "ServerRefusedError"),
    Case("download", {"url": "/status/404"}, "ServerRefusedError"),
    Case("download", {"file": "/sdcard/no/such/folder/x"}, "CommandFailedError"),
    Case("download", {"sha256": "0" * 64}, "FinalError"),
    Case("download", {"file": "relative"}, "BadParametersError"),
    Case("associate", {"app": NOWHERE}, "CommandFailedError"),
    Case("check", {"app": "no package"}, "BadParametersError"),
    Case("start_app", {"app": NOWHERE}, "CommandFailedError"),
    Case("stop_app", {"app": "no package"}, "BadParametersError"),
    Case("change_config", {"setting": "nowhere/x"}, "BadParametersError"),
    Case("switch_region", {"time_zone": "Mars/Olympus"}, "BadParametersError"),
    Case("switch_region", {"locale": "xx-YY"}, "BadParametersError"),
    Case("switch_runtime", {"renderer": "magic"}, "BadParametersError"),
    Case("reset_state", {"app": NOWHERE}, "CommandFailedError"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case.type} {case.error}")
async def test_what_a_row_does_not_retry_fails_at_its_first_attempt(
    herd: Herd, here: Place, emulator: StandIn, case: Case
):
    emulator.answers = lambda _: here.runs(herd)
    task = await herd.submit(case.type, account="ann", params=case.params(here))
    view = await task.result()
    assert (TaskStatus.FAILED, 1, case.error, Verdict.FINAL) == (
        view.state,
        view.attempt,
        view.error and view.error.kind,
        view.error and view.error.verdict,
    )
    assert [] == await task.delays()


async def test_a_full_disk_of_the_host_ends_a_scan(herd: Herd, here: Place, emulator: StandIn):
    emulator.answers = lambda _: here.runs(herd, full=True)
    view = await (await herd.submit("scan")).result()
    assert (TaskStatus.FAILED, 1, "DiskFullError") == (view.state, view.attempt, view.error and view.error.kind)


RETRIED = [
    Case("download", {"url": "/status/429"}, "ServerBusyError"),
    Case("download", {"url": "/status/503"}, "ServerBusyError"),
    Case("download", {"url": "/broken"}, "NoAnswerError"),
    Case("check", {"app": NOWHERE}, "UnhealthyError"),
]


@pytest.mark.parametrize("case", RETRIED, ids=lambda case: f"{case.type} {case.error}")
async def test_what_a_row_retries_is_tried_as_often_as_it_says(herd: Herd, here: Place, emulator: StandIn, case: Case):
    emulator.answers = lambda _: here.runs(herd)
    task = await herd.submit(case.type, account="ann", params=case.params(here))
    view = await task.result()
    delays = case.row.delays_s
    assert [case.error] * (len(delays) + 1) == [one.error.kind for one in view.attempts if one.error]
    assert [timedelta(seconds=delay) for delay in delays] == await task.delays()


@pytest.mark.parametrize(("words", "waited"), [("7", 7), ("86400", 300), ("0", 60), ("soon", 60)])
async def test_a_server_that_says_how_long_is_asked_again_within_five_minutes(
    herd: Herd, here: Place, emulator: StandIn, words: str, waited: int
):
    emulator.answers = [here.runs(herd)] * 2
    here.site.says["retry-after"] = words
    task = await herd.submit(
        "download", params={"url": here.site.url("/status/503"), "file": "/sdcard/x"}, policy={"retries": 1}
    )
    view = await task.result()
    here.site.says.clear()
    assert [timedelta(seconds=waited)] == await task.delays()
    assert (TaskStatus.FAILED, 2) == (view.state, view.attempt)


@pytest.mark.parametrize("row", ON_TIMEOUT, ids=lambda row: row.type)
@pytest.mark.parametrize("kind", sorted(set(of(Verdict.RETRYABLE)) - TIMED_OUT))
async def test_a_row_that_retries_on_timeout_retries_nothing_else(
    herd: Herd, here: Place, emulator: StandIn, row: Row, kind: str
):
    emulator.answers = [raised(kind)]
    task = await herd.submit(row.type, params=row.params)
    view = await task.result()
    assert (TaskStatus.FAILED, 1, kind) == (view.state, view.attempt, view.error and view.error.kind)
    assert [] == await task.delays()


@pytest.mark.parametrize(("wanted", "attempts"), [("any", 3), ("timeout", 1)])
async def test_what_is_retried_may_be_set_by_a_submission(
    herd: Herd, here: Place, emulator: StandIn, wanted: str, attempts: int
):
    emulator.answers = [raised("ScreenNotReachedError")] * 3
    view = await (await herd.submit("scan", policy={"retry_on": wanted})).result()
    assert (TaskStatus.FAILED, attempts) == (view.state, view.attempt)
    emulator.answers = [fails(StageTimeoutError("too slow"))] * 3
    view = await (await herd.submit("scan", policy={"retry_on": wanted})).result()
    assert (TaskStatus.FAILED, 3) == (view.state, view.attempt)
