"""What a client sends: read, or refused in one sentence that names the field."""

import json
import re
from typing import Any

import pytest

from droidherd.contracts.inbound import DEPTH, UnreadableError, read, read_result
from droidherd.contracts.queue import OperatorCommand
from droidherd.contracts.stage import StageOutcome, StageReport
from droidherd.contracts.tasks import Control, OperatorRequest, Rerun, TaskInput, TaskView
from droidherd.domain.messages import Soon
from droidherd.engine.connection import CONVERTER


def refusal(kind: Any, given: object, *, strict: bool = True) -> str:
    data = given if isinstance(given, bytes) else json.dumps(given).encode()
    with pytest.raises(UnreadableError) as raised:
        read(kind, "json/plain", data, strict=strict)
    return str(raised.value)


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": {"type": "sample", **fields}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (spec(notBefore="2026-11-20T08:00:00Z"), "spec.notBefore is not known here; did you mean not_before?"),
        (spec(not_befor="x"), "spec.not_befor is not known here; did you mean not_before?"),
        (spec(then=[{"type": "x", "onFailure": "keep"}]), "spec.then.0.onFailure is not known here"),
        ({"specification": {}}, "spec is missing"),
        (spec(priority=11), "spec.priority is 11; it must be at most 10"),
        (spec(priority="high"), "spec.priority is 'high'; it must be a whole number"),
        (spec(on_busy="wait"), "spec.on_busy is 'wait'; it must be one of: reject, queue"),
        (spec(account="two words"), "spec.account must have 0 to 64 characters of A-Z a-z 0-9 . _ -"),
        (spec(actor="x" * 1001), "spec.actor has 1001 characters; at most 1000 are taken"),
        (spec(labels=[]), "spec.labels must be an object"),
        (spec(labels={"chain": "x"}), "spec.labels must not hold 'chain'"),
        (b"[" * 400 + b"]" * 400, "the argument is not JSON: recursion limit exceeded"),
        (b'{"spec": {"type": "\\ud800"}}', "the argument is not JSON"),
        (b"\xff", "the argument is not JSON"),
    ],
)
def test_a_refusal_names_the_field_and_what_is_allowed(given: object, expected: str):
    assert refusal(TaskInput, given).startswith(expected)


@pytest.mark.parametrize("time", ["2026-11-20T08:00:00", "2026-11-20", 1_795_000_000, "tomorrow"])
def test_a_time_without_its_zone_is_refused(time: object):
    assert "with a time zone" in refusal(TaskInput, spec(not_before=time))


def test_a_time_that_no_timer_reaches_is_refused():
    assert "between the years 2000 and 2200" in refusal(TaskInput, spec(not_before="9999-12-31T23:59:59-12:00"))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", str(2**60), "-1e300"])
def test_numbers_that_nobody_can_count_with_are_refused(number: str):
    key = '"key": {"task_id": "t", "run": "r", "attempt": 1}'
    data = f'{{{key}, "seq": 1, "at_ms": {number}}}'.encode()
    assert refusal(Soon, data)


def test_nesting_ends_long_before_the_parsers_do():
    nested: object = 1
    for _ in range(DEPTH):
        nested = [nested]
    assert f"nested deeper than {DEPTH} levels" in refusal(TaskInput, spec(params={"x": nested}))


def test_parameters_of_a_flow_may_be_long_and_have_any_name():
    given = json.dumps(spec(params={"notBefore": "x" * 5_000, "wait_s": -1})).encode()
    assert -1 == read(TaskInput, "json/plain", given, strict=True).spec.params["wait_s"]


def test_a_message_of_ours_may_have_fields_of_a_newer_version():
    given = b'{"actor": "ann", "urgency": 3}'
    assert "ann" == read(OperatorRequest, "json/plain", given).actor
    assert "urgency is not known here; known are: actor, reason" == refusal(OperatorRequest, given)


def test_the_view_of_the_task_before_may_be_of_a_newer_version():
    past = {"task_id": "t", "type": "x", "state": "failed", "created_at": "2026-11-20T08:00:00Z", "new": 1}
    given = json.dumps({"past": past | {"updated_at": past["created_at"]}, "actor": "ann"}).encode()
    assert isinstance(read(Rerun, "json/plain", given, strict=True).past, TaskView)


def test_other_encodings_are_refused():
    with pytest.raises(UnreadableError, match="must be JSON"):
        read(Control, "binary/encrypted", b"{}")


def test_only_what_was_set_is_sent_so_that_older_receivers_know_it():
    [payload] = CONVERTER.payload_converter.to_payloads([OperatorCommand(lane="account", actor="ann")])
    assert {"lane": "account", "actor": "ann"} == json.loads(payload.data)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"garbage": 1}, "outcome is missing"),
        (17, "the argument must be an object"),
        ({"outcome": "won"}, "outcome is 'won'; it must be one of: completed"),
        ({"outcome": "completed", "seconds": 1e300}, "seconds must be a number between -2^53 and 2^53"),
        ({"outcome": "completed", "again_at": "2026-11-20T08:00:00"}, "again_at must be a time with a time zone"),
        (
            {"outcome": "asks", "asks": {"verdict": "human", "message": "?", "retry_after_s": -1}},
            "asks.retry_after_s must be a number of seconds",
        ),
        (
            {"outcome": "completed", "artifacts": [{"name": "a", "size": -(2**60)}]},
            "artifacts.0.size must be a number between",
        ),
    ],
)
def test_a_result_that_no_workflow_can_go_on_with_is_refused(given: object, expected: str):
    with pytest.raises(UnreadableError, match=f"^{re.escape(expected)}"):
        read_result(StageReport, "json/plain", json.dumps(given).encode())


def test_a_result_may_hold_long_texts_and_any_json_but_not_any_size():
    report = StageReport(outcome=StageOutcome.COMPLETED, worker="x" * 5_000, summary={"x": 2**60, "pause_s": -1})
    data = report.model_dump_json().encode()
    assert report == read_result(StageReport, "json/plain", data)
    with pytest.raises(UnreadableError, match="at most 100 are taken"):
        read_result(StageReport, "json/plain", data, 100)
    with pytest.raises(UnreadableError, match="it must be JSON"):
        read_result(StageReport, "binary/plain", data)
