from datetime import timedelta

import pytest
from temporalio.contrib.pydantic import pydantic_data_converter

from droidherd.connection import CONVERTER, Payloads
from droidherd.contracts.tasks import TaskInput, TaskSpec
from droidherd.domain.messages import Key

VALUES = [TaskInput(spec=TaskSpec(type="press")), Key("a", "b", 1), {"a": [1, None]}, "text", timedelta(days=2)]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
async def test_what_is_written_is_what_every_other_client_with_pydantic_writes_and_reads(value: object):
    written = await CONVERTER.encode([value])
    assert written == await pydantic_data_converter.encode([value])
    assert [value] == await CONVERTER.decode(written, [type(value)])


def test_a_type_is_learned_to_be_read_once_and_not_by_each_workflow():
    first, second = (Payloads().converters[b"json/plain"] for _ in range(2))
    assert first is second
