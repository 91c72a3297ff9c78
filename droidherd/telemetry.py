"""Traces, metrics and logs, for every process alike. Knows neither Temporal nor HTTP: the roots tie it to them.

One trace follows a task from its submission to the adb call; one log line is one event; metrics carry few labels.
"""

import contextvars
import json
import logging
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType, TracebackType
from typing import Any, Final, TextIO
from wsgiref.simple_server import WSGIServer

from opentelemetry import trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from droidherd.domain.text import visible_in_json
from droidherd.processes.resources import ProcessStats
from droidherd.settings import Telemetry

Value = str | int | float | bool

LINE_LIMIT: Final = 16_000
"""Characters of one text in a log line: what an emulator prints is not bounded by anybody else."""

FLUSH_MS: Final = 2_000
EXPORT_TIMEOUT_S: Final = 2.0

_FIELDS: contextvars.ContextVar[Mapping[str, Value]] = contextvars.ContextVar(
    "droidherd_fields", default=MappingProxyType({})
)
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

# --- what is at hand everywhere -------------------------------------------------------------------------------


@contextmanager
def bound(**fields: Value) -> Generator[None]:
    """Within, every log line and every span carries these fields: task, attempt, emulator, token, pool, lane."""
    token = _FIELDS.set(MappingProxyType({**_FIELDS.get(), **fields}))
    try:
        yield
    finally:
        _FIELDS.reset(token)


def fields() -> Mapping[str, Value]:
    return _FIELDS.get()


@contextmanager
def span(name: str, **attributes: Value) -> Generator[trace.Span]:
    """One step of the trace at hand. An exception that leaves it is recorded and marks it as failed."""
    given = {f"droidherd.{key}": value for key, value in {**_FIELDS.get(), **attributes}.items()}
    with trace.get_tracer("droidherd").start_as_current_span(name, attributes=given) as one:
        yield one


class measured:  # noqa: N801 (reads as `with measured(...)`, like its neighbours)
    """A span that is also a duration. The label `outcome` becomes `ok` or the name of the error that left it."""

    def __init__(self, name: str, seconds: Histogram, **labels: str) -> None:
        """`labels` are those of the histogram, without `outcome`."""
        self._seconds = seconds
        self._labels = labels
        self._span = span(name, **labels)
        self._started = 0.0

    def __enter__(self) -> None:
        self._started = time.perf_counter()
        self._span.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        outcome = kind.__name__ if kind else "ok"
        self._seconds.labels(**self._labels, outcome=outcome).observe(time.perf_counter() - self._started)
        self._span.__exit__(kind, error, where)


def inject() -> dict[str, str]:
    """The trace at hand in W3C form, to travel in headers or in a model. Empty when there is none."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier


@contextmanager
def extracted(carrier: Mapping[str, str]) -> Generator[None]:
    """Within, spans continue the trace that travelled in `carrier`. Rubbish in it starts a new trace."""
    token = attach(_PROPAGATOR.extract(dict(carrier)))
    try:
        yield
    finally:
        detach(token)


# --- traces ---------------------------------------------------------------------------------------------------


def start_traces(settings: Telemetry, *, service: str) -> TracerProvider | None:
    """Send the spans of this process where the settings say. None when they say nowhere."""
    if settings.traces == "none":
        return None
    provider = provider_of(service)
    if settings.traces == "console":
        provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stderr)))
    else:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exporter = OTLPSpanExporter(settings.otlp_endpoint, timeout=EXPORT_TIMEOUT_S)
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def tracing() -> bool:
    """Whether spans of this process go anywhere: what nobody sees need not be made."""
    return isinstance(trace.get_tracer_provider(), TracerProvider)


def stop_traces(provider: TracerProvider | None) -> None:
    """Send what is left, within bounds: a collector that is away must not hold up the end of a process."""
    if provider is not None:
        provider.force_flush(FLUSH_MS)
        provider.shutdown()


def provider_of(service: str) -> TracerProvider:
    # OpenTelemetry lets a process set its provider once; whoever comes second adds to the first.
    known = trace.get_tracer_provider()
    if isinstance(known, TracerProvider):
        return known
    made = TracerProvider(resource=Resource.create({"service.name": service}))
    trace.set_tracer_provider(made)
    return made


# --- logs -----------------------------------------------------------------------------------------------------


class JsonLines(logging.Formatter):
    """One event, one line, one JSON object, in which no terminal finds anything to obey."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "event": _cut(record.getMessage()),
            **_FIELDS.get(),
            **{key: value for key, value in vars(record).items() if key not in _STANDARD},
        }
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            line["trace"] = trace.format_trace_id(context.trace_id)
            line["span"] = trace.format_span_id(context.span_id)
        if record.exc_info:
            line["error"] = _cut(self.formatException(record.exc_info))
        return visible_in_json(json.dumps(line, ensure_ascii=False, default=_text))


def start_logs(level: str, *, stream: TextIO | None = None) -> logging.Handler:
    """JSON lines on standard error (or `stream`), instead of whatever was there."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    return handler


def _cut(text: str) -> str:
    return text if len(text) <= LINE_LIMIT else f"{text[:LINE_LIMIT]}… ({len(text)} characters)"


def _text(value: object) -> str:
    return _cut(str(value))


# --- metrics --------------------------------------------------------------------------------------------------

_STAGE_BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_CALL_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


@dataclass(frozen=True, slots=True)
class DurationSample:
    """Durations as a dispatcher counted them."""

    count: int = 0
    seconds: float = 0.0
    bounds_s: tuple[float, ...] = ()
    buckets: tuple[int, ...] = ()
    """How many were not longer than the bound at the same place."""

    def cumulative(self) -> list[tuple[str, float]]:
        rows = [(str(round(bound, 3)), float(n)) for bound, n in zip(self.bounds_s, self.buckets, strict=True)]
        return [*rows, ("+Inf", float(self.count))]


@dataclass(frozen=True, slots=True)
class TypeStatsSample:
    """What a dispatcher counted of one task type."""

    type: str
    outcomes: Mapping[str, int]
    """completed, failed, retried, cancelled → how many attempts."""
    run: DurationSample
    wait: DurationSample


class PoolStatsCollector(Collector):
    """Counters that are kept by dispatchers, which outlive processes, and only shown here."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Nothing is known yet."""
        self._pools: dict[str, tuple[TypeStatsSample, ...]] = {}
        registry.register(self)

    def show(self, pool: str, stats: Iterable[TypeStatsSample]) -> None:
        """From now on this is what `pool` counted."""
        self._pools[pool] = tuple(stats)

    @override
    def collect(self) -> Iterator[Metric]:
        kind = ["pool", "type"]
        attempts = CounterMetricFamily("droidherd_attempts", "attempts that ended", labels=[*kind, "outcome"])
        runs = HistogramMetricFamily("droidherd_run_seconds", "attempts that ended by themselves", labels=kind)
        waits = HistogramMetricFamily("droidherd_wait_seconds", "admission to emulator, of the same", labels=kind)
        for pool, stats in self._pools.items():
            for one in stats:
                for outcome, count in one.outcomes.items():
                    attempts.add_metric([pool, one.type, outcome], count)
                runs.add_metric([pool, one.type], one.run.cumulative(), one.run.seconds)
                waits.add_metric([pool, one.type], one.wait.cumulative(), one.wait.seconds)
        yield from (attempts, runs, waits)


class Metrics:
    """Every metric droidherd exposes. Ids of tasks, accounts and emulators are never labels: they have no bound.

    Each process registers all of them. What only some processes know has a label, and so no series in the others: a
    worker that never asked for it must not say that Temporal is away.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Into `registry`."""
        self.registry = registry
        r = registry
        self.pool_stats = PoolStatsCollector(r)
        self.process = ProcessStats(r)
        self.effects = Counter("droidherd_effects", "acts on emulators", ["outcome"], registry=r)
        self.queue = Gauge("droidherd_queue_length", "tasks that wait", ["pool", "lane"], registry=r)
        self.oldest = Gauge("droidherd_queue_oldest_seconds", "age of the head", ["pool", "lane"], registry=r)
        self.running = Gauge("droidherd_running", "tasks that hold a lease", ["pool", "lane"], registry=r)
        self.capacity = Gauge("droidherd_lane_capacity", "leases a lane may hold", ["pool", "lane"], registry=r)
        self.paused = Gauge("droidherd_lane_paused", "1 while a lane is paused", ["pool", "lane"], registry=r)
        self.emulators = Gauge("droidherd_emulators", "emulators by state", ["pool", "state"], registry=r)
        self.stuck = Gauge(
            "droidherd_subscriptions_stuck", "subscriptions whose task waits for too long", ["region"], registry=r
        )
        self.engine_up = Gauge("droidherd_engine_up", "1 while Temporal answers", ["pool"], registry=r)
        self.adb_up = Gauge("droidherd_adb_server_up", "1 while the adb server answers", ["host"], registry=r)
        self.disk_free = Gauge("droidherd_disk_free_bytes", "free disk space of this machine", ["place"], registry=r)
        self.frames = Counter("droidherd_frames", "frames of emulators", ["camera", "outcome"], registry=r)
        self.cameras = Gauge("droidherd_cameras", "emulators by the camera they are seen with", ["camera"], registry=r)
        self.unplayable = Gauge(
            "droidherd_unplayable_workflows", "runs whose workflow tasks fail here", ["state"], registry=r
        )
        self.replaced = Counter("droidherd_workflows_replaced", "runs that cannot be played", ["workflow"], registry=r)
        self.frame_buffer = Gauge(
            "droidherd_frame_buffer_bytes", "the last frames of all emulators, kept", ["state"], registry=r
        )
        self.stage_seconds = Histogram(
            "droidherd_stage_seconds", "stages", ["type", "outcome"], buckets=_STAGE_BUCKETS, registry=r
        )
        self.adb_seconds = Histogram(
            "droidherd_adb_seconds", "calls to emulators", ["operation", "outcome"], buckets=_CALL_BUCKETS, registry=r
        )
        self.http_seconds = Histogram(
            "droidherd_http_seconds", "requests", ["method", "route", "status"], buckets=_CALL_BUCKETS, registry=r
        )


metrics: Final = Metrics(CollectorRegistry())
"""Of this process."""


def serve_metrics(port: int, *, host: str = "127.0.0.1") -> WSGIServer:
    """Answer `GET /metrics` on a thread of its own; the result has `shutdown()` and `server_close()`."""
    server, _ = start_http_server(port, addr=host, registry=metrics.registry)
    return server
