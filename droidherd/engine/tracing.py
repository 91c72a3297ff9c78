"""Traces through Temporal: the interceptor of OpenTelemetry's plugin, with headers read as what anybody may have sent.

The plugin decodes the header of each message before `workflows/inbound.py` or a handler sees the message. One that
cannot be decoded raised in the workflow task, which Temporal then tried again for ever (docs/adr/0053).
"""

import json
from collections.abc import Sequence
from typing import Any

from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from temporalio.api.common.v1 import Payload
from temporalio.contrib import opentelemetry as plugin
from temporalio.converter import DefaultPayloadConverter
from temporalio.worker import WorkflowInboundInterceptor, WorkflowInterceptorClassInput
from typing_extensions import override

HEADER_BYTES = 4_096
"""A trace has 55 characters, and what vendors add to it 512."""
FIELDS = frozenset(TraceContextTextMapPropagator().fields)
"""Baggage is not taken on: droidherd reads none, and would pass on what others wrote."""


def read_header(data: bytes) -> dict[str, str]:
    """The trace in a header; empty: there is none that can be read."""
    if len(data) > HEADER_BYTES:
        return {}
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    # What the plugin cannot use it logs as it came, so nothing but plain characters may come that far.
    return {name: text for name, text in found.items() if name in FIELDS and _is_plain(text)}


def _is_plain(text: object) -> bool:
    return isinstance(text, str) and text.isascii() and text.isprintable()


class _Headers(DefaultPayloadConverter):
    """Raises for nothing that it is given."""

    @override
    def from_payloads(self, payloads: Sequence[Payload], type_hints: list[type] | None = None) -> list[Any]:
        return [read_header(one.data) for one in payloads]


_HEADERS = _Headers()
_PROPAGATOR = TraceContextTextMapPropagator()


class _WorkflowTracing(plugin.TracingWorkflowInboundInterceptor):
    def __init__(self, next: WorkflowInboundInterceptor) -> None:  # noqa: A002 - the name that the SDK gives it
        """As the plugin does, but for what reads headers."""
        super().__init__(next)
        self.payload_converter = _HEADERS
        self.text_map_propagator = _PROPAGATOR


class TracingInterceptor(plugin.TracingInterceptor):
    """One trace from a client's call to an activity's work."""

    def __init__(self) -> None:
        """The tracer is that of the process."""
        super().__init__()
        self.payload_converter = _HEADERS
        self.text_map_propagator = _PROPAGATOR

    @override
    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[plugin.TracingWorkflowInboundInterceptor]:
        super().workflow_interceptor_class(input)
        return _WorkflowTracing
