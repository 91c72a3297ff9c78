"""How limits and delays are kept, and every class of error with its verdict. The rows themselves: `test_rows`."""

import inspect
from collections.abc import Callable
from datetime import timedelta

import pytest
import pytest_asyncio

from droidherd.contracts.plan import Backoff
from droidherd.domain import errors
from droidherd.domain.errors import DroidherdError, StageTimeoutError, Verdict
from droidherd.domain.task.lifecycle import TaskStatus
from droidherd.testing.answers import Answer, asks, breaks, completes, fails
from droidherd.testing.skipping import Herd, StandIn
from tests.testing.conftest import SharedHerd
from tests.testing.table import TABLE

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPECIAL: dict[str, Callable[[], DroidherdError]] = {
    "CommandFailedError": lambda: errors.CommandFailedError("no", rc=1),
}


def classes() -> list[type[DroidherdError]]:
    found = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, DroidherdError)]
    return [one for one in found if not one.__subclasses__()]


def of(*verdicts: Verdict) -> list[str]:
    return [one.__name__ for one in classes() if one.verdict in verdicts]


def raised(name: str) -> Answer:
    make = SPECIAL.get(name, lambda: getattr(errors, name)("trouble"))
    return fails(make())


@pytest_asyncio.fixture(loop_scope="module")
async def e1(shared: SharedHerd) -> StandIn:
    return await shared.emulator("e1")


async def test_an_attempt_may_take_as_long_as_its_limit_says(herd: Herd, e1: StandIn):
    e1.answers = [herd.takes(timedelta(minutes=29, seconds=50))]
    download = TABLE[0]
    view = await (await herd.submit("download", params=download.params)).result()
    assert (TaskStatus.COMPLETED, 1) == (view.state, view.attempt)


async def test_an_endless_stage_is_ended_by_temporal_and_the_emulator_is_reset(herd: Herd, e1: StandIn):
    e1.answers = [herd.takes(timedelta(hours=2), watched=False), completes]
    before = len(e1.gates)
    view = await (await herd.submit("download", params=TABLE[0].params)).result()
    first = view.attempts[0]
    assert first.started is not None
    assert first.ended is not None
    assert timedelta(minutes=30) <= first.ended - first.started < timedelta(minutes=31)
    assert ("StageTimeoutError", "the stage took too long") == (
        first.error and (first.error.kind),
        first.error and first.error.message,
    )
    assert (TaskStatus.COMPLETED, 2, before + 1) == (view.state, view.attempt, len(e1.gates))


@pytest.mark.parametrize(
    ("backoff", "base_s", "expected"),
    [
        (Backoff.EXPONENTIAL, 60, [60, 120, 240, 300, 300]),
        (Backoff.EXPONENTIAL, 299.5, [299.5, 300, 300, 300, 300]),
        (Backoff.EXPONENTIAL, 300, [300] * 5),
        (Backoff.FIXED, 3600, [3600] * 5),
        (Backoff.FIXED, 0.25, [0.25] * 5),
    ],
)
async def test_exponential_delays_double_up_to_five_minutes_and_fixed_ones_do_not(
    herd: Herd, e1: StandIn, backoff: Backoff, base_s: float, expected: list[float]
):
    e1.answers = [fails(StageTimeoutError("too slow"))] * 20
    task = await herd.submit(
        "start_app", params=TABLE[4].params, policy={"retries": 5, "backoff": backoff, "backoff_s": base_s}
    )
    await task.result()
    assert [timedelta(seconds=one) for one in expected] == await task.delays()


async def test_an_exponential_delay_that_begins_above_its_end_is_refused(herd: Herd, e1: StandIn):
    task = await herd.submit("download", params=TABLE[0].params, policy={"backoff_s": 3600})
    view = await task.result()
    assert (TaskStatus.FAILED, "BadParametersError", ()) == (view.state, view.error and view.error.kind, view.attempts)
    assert "cannot begin with 3600" in (view.error.message if view.error else "")


# --- verdicts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", of(Verdict.RETRYABLE))
async def test_what_may_pass_is_tried_again_after_the_delay(herd: Herd, e1: StandIn, kind: str):
    e1.answers = [raised(kind), completes]
    task = await herd.submit("associate", account="ann")
    view = await task.result()
    assert (TaskStatus.COMPLETED, 2) == (view.state, view.attempt)
    assert [timedelta(seconds=10)] == await task.delays()


@pytest.mark.parametrize("kind", of(Verdict.FINAL))
async def test_what_cannot_pass_is_never_tried_again(herd: Herd, e1: StandIn, kind: str):
    e1.answers = [raised(kind)]
    task = await herd.submit("associate", account="ann")
    view = await task.result()
    assert (TaskStatus.FAILED, 1, kind) == (view.state, view.attempt, view.error and view.error.kind)
    assert [] == await task.delays()


async def test_a_bug_nobody_classified_is_final(herd: Herd, e1: StandIn):
    e1.answers = [breaks]
    view = await (await herd.submit("download", params=TABLE[0].params)).result()
    assert (TaskStatus.FAILED, 1, "UnclassifiedError") == (view.state, view.attempt, view.error and view.error.kind)


@pytest.mark.parametrize("kind", of(Verdict.INFRASTRUCTURE))
async def test_trouble_of_the_emulator_costs_no_attempt(herd: Herd, e1: StandIn, kind: str):
    e1.answers = [raised(kind), raised(kind), completes]
    task = await herd.submit("check")
    view = await task.result()
    assert (TaskStatus.COMPLETED, 1) == (view.state, view.attempt)
    assert {1} == {one.n for one in view.attempts}
    assert [] == await task.delays()


@pytest.mark.parametrize("keep", [True, False])
async def test_only_a_person_can_say_how_to_go_on_and_no_attempt_is_counted(herd: Herd, e1: StandIn, keep: bool):
    assert ["NeedsPersonError"] == of(Verdict.HUMAN)
    e1.answers = [asks(keep=keep, within_s=3600), completes]
    task = await herd.submit("check")
    await task.reached(TaskStatus.WAITING)
    await task.control("answer", choice="yes")
    view = await task.result()
    assert (TaskStatus.COMPLETED, 1, []) == (view.state, view.attempt, await task.delays())
