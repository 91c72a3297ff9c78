"""What is read of the header in which a trace comes."""

import json

import pytest

from droidherd.engine.tracing import HEADER_BYTES, read_header

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("state", ["\ud800=\ud800", "a=\x1b[31m", "ä=1", "a=1\n", 5, ["a"]], ids=ascii)
def test_of_a_header_only_plain_text_is_read(state: object):
    header = {"traceparent": PARENT, "tracestate": state, "baggage": "a=1"}
    assert {"traceparent": PARENT} == read_header(json.dumps(header).encode())


def test_a_trace_is_read_whole():
    header = {"traceparent": PARENT, "tracestate": "vendor=1"}
    assert header == read_header(json.dumps(header).encode())


@pytest.mark.parametrize("data", [b"\xff{", b"[" * 400, b"[1]", b"17", b" " * HEADER_BYTES + b"{}"], ids=ascii)
def test_what_is_no_header_has_no_trace(data: bytes):
    assert {} == read_header(data)
