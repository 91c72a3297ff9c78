"""A wrong argument is named with the right way to write it, before anything starts. Nobody is told to report a bug."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from droidherd.domain.errors import BadParametersError, ScreenNotReachedError
from droidherd.handlers.scan import ScanHandler
from droidherd.testing.answers import completes
from droidherd.testing.flows import run_flow, virtual_emulator
from droidherd.testing.skipping import Herd, skipped_time

pytestmark = pytest.mark.asyncio(loop_scope="module")

ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"flows": "flows"}, "flows: is a text, not a folder (write Path('flows'))"),
    ({"flows": ["flows"]}, "flows: 'flows' is no folder (write Path('flows'))"),
    ({"flows": Path("no/such")}, "flows: no flow is at no/such (a flow is a folder with a flow.yaml)"),
    ({"policies": {"scan": {"retrys": 3}}}, "policies.scan.retrys: is not known (did you mean retries?)"),
    ({"policies": {"scan": {"retries": -1}}}, "policies.scan.retries: is -1; it must be at least 0"),
    ({"policies": {"scan": 3}}, "policies.scan: is a int (write a mapping of: time_limit_s, retries, "),
    ({"policies": {"scn": {"retries": 3}}}, "policies.scn: there is no task type 'scn' (did you mean scan?)"),
    ({"types": {"daily": {"retries": "many"}}}, "types.daily.retries: is 'many'; it must be a whole number"),
    ({"handlers": [ScanHandler]}, "is no handler (write ScanHandler())"),
]


@pytest.mark.parametrize(("arguments", "expected"), ARGUMENTS)
async def test_an_argument_of_skipped_time_that_is_wrong(arguments: dict[str, Any], expected: str):
    opened: AbstractAsyncContextManager[Herd] = skipped_time(**arguments)
    with pytest.raises(BadParametersError) as caught:
        async with opened:
            pytest.fail("it started")
    assert expected in str(caught.value)


ONE: Any = completes
ERRORS: Any = [ScreenNotReachedError("x")]


def no_answer(_: object) -> Any:
    return None


CALLS: list[tuple[Callable[[Herd], Any], str]] = [
    (lambda herd: herd.emulator("e9", ONE), "answers: is one answer (write a list, as in [completes]"),
    (lambda herd: herd.emulator("e9", ERRORS), "is no answer (write completes, fails(error)"),
    (lambda herd: herd.submit("scan", acount="ann"), "submit.acount: is not known (did you mean account?)"),
    (lambda herd: herd.submit("scan", priority=99), "submit.priority: is 99; it must be at most 10"),
]


@pytest.mark.parametrize(("call", "expected"), CALLS)
async def test_an_argument_of_a_call_that_is_wrong(herd: Herd, call: Callable[[Herd], Any], expected: str):
    with pytest.raises(BadParametersError) as caught:
        await call(herd)
    assert expected in str(caught.value)


async def test_a_function_that_returns_no_answer_fails_its_task_and_is_named(herd: Herd):
    await herd.emulator("arguments", no_answer)
    task = await herd.submit("scan")
    view = await task.result()
    assert view.error is not None
    assert ("BadParametersError", True) == (view.error.kind, "None is no answer" in view.error.message)
    with pytest.raises(BadParametersError, match="there is no state 'done'"):
        await task.reached("done")  # pyright: ignore[reportArgumentType]


async def test_a_path_that_is_written_as_a_text_is_named(tmp_path: Path):
    emulator: Any = SimpleNamespace(home=tmp_path)
    with pytest.raises(BadParametersError, match=r"the text names no flow \(write Path\('flows/daily'\)\)"):
        run_flow("flows/daily", emulator)
    handlers: Any = [ScanHandler]
    with pytest.raises(BadParametersError, match=r"write ScanHandler\(\)"), virtual_emulator(handlers=handlers):
        pytest.fail("it started")
