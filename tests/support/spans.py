"""Spans that tests look at."""

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from droidherd import telemetry

_REMEMBERED: list[InMemorySpanExporter] = []


def remember_spans(service: str = "test") -> InMemorySpanExporter:
    """Keep the finished spans of this process in memory. A second call forgets what was kept so far."""
    if not _REMEMBERED:
        _REMEMBERED.append(InMemorySpanExporter())
        telemetry.provider_of(service).add_span_processor(SimpleSpanProcessor(_REMEMBERED[0]))
    _REMEMBERED[0].clear()
    return _REMEMBERED[0]
