"""Memos that anybody may have written."""

from typing import Any

import pytest
from temporalio.api.common.v1 import Memo, Payload
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import WorkflowExecution

from droidherd.contracts import names
from droidherd.contracts.accounts import AccountRecord
from droidherd.contracts.tasks import TaskView
from droidherd.engine import memos
from droidherd.engine.connection import CONVERTER

GARBAGE = {
    "no metadata": Payload(data=b"{}"),
    "an unknown encoding": Payload(metadata={"encoding": b"binary/secret"}, data=b"{}"),
    "no JSON": Payload(metadata={"encoding": b"json/plain"}, data=b"\xff{"),
    "deep": Payload(metadata={"encoding": b"json/plain"}, data=b"[" * 100_000),
    "another kind": Payload(metadata={"encoding": b"json/plain"}, data=b"[1]"),
    "a long number": Payload(metadata={"encoding": b"json/plain"}, data=b"1" + b"0" * 400),
}


class Run:
    """As much of a listed run as reading a memo needs; the reading is the SDK's."""

    memo_value = WorkflowExecution.memo_value

    def __init__(self, payload: Payload) -> None:
        self.raw_info = WorkflowExecutionInfo(memo=Memo(fields={names.MEMO_TASK: payload}))
        self.data_converter = CONVERTER


@pytest.mark.parametrize("payload", GARBAGE.values(), ids=GARBAGE)
async def test_a_memo_that_makes_no_sense_is_none(payload: Payload):
    run: Any = Run(payload)
    assert await memos.read(run, names.MEMO_TASK, TaskView) is None
    assert await memos.read(run, names.MEMO_TASK, AccountRecord) is None
    assert await memos.read_text(run, names.MEMO_TASK) == ""
