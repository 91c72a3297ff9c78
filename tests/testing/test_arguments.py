"""A wrong argument is named with the right way to write it, before anything starts. Nobody is told to report a bug."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from droidherd.domain.errors import BadParametersError, ScreenNotReachedError
from droidherd.flows.catalogue import GALLERY
from droidherd.handlers.scan import ScanHandler
from droidherd.testing.answers import again_in, asks, completes, fails
from droidherd.testing.flows import record_flow, replay, run_flow, virtual_emulator
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
    ({"handlers": 5}, "handlers: is 5 (write [MyHandler()])"),
    ({"flows": 5}, "flows: is 5 (write Path('flows'))"),
    ({"policies": ["scan"]}, "policies: is ['scan'], no mapping"),
    ({"types": ["daily"]}, "types: is ['daily'], no mapping"),
    ({"types": {"a b": {}}}, "types: is 'a b'; it must have 1 to 64 characters"),
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


CALLS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda herd: herd.emulator("e9", ONE), "answers: is one answer (write a list, as in [completes]"),
    (lambda herd: herd.emulator("e9", ERRORS), "is no answer (write completes, fails(error)"),
    (lambda herd: herd.submit("scan", acount="ann"), "submit.acount: is not known (did you mean account?)"),
    (lambda herd: herd.submit("scan", priority=99), "submit.priority: is 99; it must be at most 10"),
    (lambda herd: herd.submit("scna"), "type: there is no task type 'scna' (did you mean scan?)"),
    (lambda herd: herd.submit("scan", task_id="a b"), "task_id: is 'a b'; it must have 1 to 64 characters"),
    (lambda herd: herd.emulator("e9", "completes"), "answers: is 'completes' (write a list, as in [completes]"),
    (lambda herd: herd.emulator("e9", 5), "answers: is 5 (write a list, as in [completes]"),
    (lambda herd: herd.emulator("e 9"), "name: is 'e 9'; it must have 1 to 64 characters"),
    (lambda herd: herd.emulator("e9", labels="abi=x"), "labels: is 'abi=x', no list of texts (write ['abi=arm64'])"),
    (lambda herd: herd.account("a b"), "name: is 'a b'; it must have 1 to 64 characters"),
    (lambda herd: herd.account("ann", credentials="x"), "credentials: is 'x', no mapping"),
    (lambda herd: herd.skip(5), "delay: is 5 (write timedelta(hours=2)"),
    (lambda herd: herd.skip(timedelta(hours=-1)), "write timedelta(hours=2), and none below zero"),
    (lambda herd: herd.takes(5), "time: is 5 (write timedelta(hours=2)"),
]


@pytest.mark.parametrize(("call", "expected"), CALLS)
async def test_an_argument_of_a_call_that_is_wrong(herd: Herd, call: Callable[[Herd], Any], expected: str):
    with pytest.raises(BadParametersError) as caught:
        await call(herd)
    assert expected in str(caught.value)


ASKED: Any = SimpleNamespace(
    run_flow=run_flow,
    record_flow=record_flow,
    replay=replay,
    virtual_emulator=virtual_emulator,
    fails=fails,
    again_in=again_in,
    asks=asks,
)
"""As somebody calls them who checks no types."""
FLOWS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda _: ASKED.fails("x"), "error: is 'x' (write an error of droidherd.domain.errors"),
    (lambda _: ASKED.again_in(5), "delay: is 5 (write timedelta(hours=2)"),
    (lambda _: ASKED.asks(choices="yes"), "choices: is 'yes', no list of texts (write ['yes'])"),
    (lambda _: ASKED.asks(within_s=0), "within_s is 0 (give a choice at least, and seconds above zero)"),
    (
        lambda one: ASKED.run_flow(Path("no/such"), one),
        "flow: no flow is at no/such (a flow is a folder with a flow.yaml)",
    ),
    (lambda one: ASKED.run_flow(5, one), "flow: is 5, not the folder of a flow"),
    (
        lambda _: ASKED.run_flow(GALLERY / "visit", "e1"),
        "emulator: is 'e1' (write `with",
    ),
    (lambda one: ASKED.run_flow(GALLERY / "visit", one, ["x"]), "params: is ['x'], no mapping"),
    (lambda one: ASKED.run_flow(GALLERY / "visit", one, tempo=5), "tempo: is 5 (write Tempo(progress_s=1.0))"),
    (lambda one: ASKED.run_flow(GALLERY / "visit", one, account=5), "account: is 5 (write its name, or FlowAccount("),
    (lambda one: ASKED.record_flow(Path("no"), one, Path("x")), "flow: no flow is at no (a flow is"),
    (lambda one: ASKED.record_flow(GALLERY / "visit", one, "x"), "recording: is 'x', no folder (write Path('x'))"),
    (lambda _: ASKED.replay("x"), "recording: is 'x', no folder (write Path('x'))"),
    (lambda _: ASKED.replay(Path("x"), Path("no")), "flow: no flow is at no (a flow is"),
    (lambda _: ASKED.virtual_emulator((1280, 0)).__enter__(), "size: is (1280, 0) (write (1280, 720))"),
    (lambda _: ASKED.virtual_emulator(allow="a.com").__enter__(), "allow: is 'a.com', no list of texts"),
]


@pytest.mark.parametrize(("call", "expected"), FLOWS)
async def test_an_argument_of_a_flow_or_an_answer_that_is_wrong(
    call: Callable[[Any], Any], expected: str, tmp_path: Path
):
    with pytest.raises(BadParametersError) as caught:
        call(SimpleNamespace(home=tmp_path))
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
