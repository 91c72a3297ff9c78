import gzip
import io
import json
import logging
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest
from typing_extensions import override

from droidherd import telemetry
from droidherd.settings import Telemetry
from tests.support.spans import remember_spans


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return remember_spans()


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    stream = io.StringIO()
    telemetry.start_logs("DEBUG", stream=stream)
    yield stream
    root.handlers[:] = before
    root.setLevel(level)


def test_a_line_of_the_log_holds_nothing_that_a_terminal_obeys(lines: io.StringIO):
    quoted = "\x1b[2J\x9b31m\u202e\u2028é"
    logging.getLogger("x").warning("it quoted %s", quoted, extra={"path": quoted})
    written = lines.getvalue()
    assert written.removesuffix("\n").isprintable()
    assert (f"it quoted {quoted}", quoted) == (json.loads(written)["event"], json.loads(written)["path"])


def test_a_span_carries_what_is_bound_around_it(spans: InMemorySpanExporter):
    with telemetry.bound(task="t1", emulator="e1"), telemetry.span("adb shell", command="echo"):
        pass
    (one,) = spans.get_finished_spans()
    assert {"droidherd.task": "t1", "droidherd.emulator": "e1", "droidherd.command": "echo"} == dict(
        one.attributes or {}
    )


def test_an_exception_marks_its_span_as_failed_and_goes_on(spans: InMemorySpanExporter):
    with pytest.raises(ValueError, match="no"), telemetry.span("x"):
        raise ValueError("no")
    (one,) = spans.get_finished_spans()
    assert trace.StatusCode.ERROR == one.status.status_code


def ids(context: trace.SpanContext | None) -> tuple[int, int]:
    return (context.trace_id, context.span_id) if context else (0, 0)


def test_a_trace_continues_on_the_other_side_of_a_wire(spans: InMemorySpanExporter):
    with telemetry.span("near"):
        carrier = telemetry.inject()
    with telemetry.extracted(json.loads(json.dumps(carrier))), telemetry.span("far"):
        pass
    near, far = spans.get_finished_spans()
    assert near.context is not None
    assert (near.context.trace_id, near.context.span_id) == ids(far.parent)


@pytest.mark.parametrize(
    "carrier", [{}, {"traceparent": "rubbish"}, {"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-01"}]
)
def test_rubbish_in_a_carrier_starts_a_new_trace(spans: InMemorySpanExporter, carrier: dict[str, str]):
    with telemetry.extracted(carrier), telemetry.span("far"):
        pass
    (far,) = spans.get_finished_spans()
    assert far.parent is None


def test_nothing_travels_when_no_trace_is_at_hand():
    assert {} == telemetry.inject()


def test_a_log_line_is_one_json_object_with_the_bound_fields(lines: io.StringIO):
    with telemetry.bound(task="t1", attempt=2, lane="account"):
        logging.getLogger("droidherd.test").info("stage ended\nwell", extra={"duration_s": 1.5, "odd": {1, 2} - {2}})
    (line,) = lines.getvalue().splitlines()
    entry = json.loads(line)
    expected = {
        "level": "info",
        "from": "droidherd.test",
        "event": "stage ended\nwell",
        "task": "t1",
        "attempt": 2,
        "lane": "account",
        "duration_s": 1.5,
        "odd": "{1}",
    }
    assert expected == {key: entry[key] for key in expected}


def test_fields_end_with_their_block(lines: io.StringIO):
    with telemetry.bound(task="t1"):
        with telemetry.bound(task="t2", token=7):
            assert {"task": "t2", "token": 7} == dict(telemetry.fields())
        assert {"task": "t1"} == dict(telemetry.fields())
    logging.getLogger().info("after")
    assert "task" not in json.loads(lines.getvalue())


def test_a_log_line_names_its_trace_and_its_error(lines: io.StringIO, spans: InMemorySpanExporter):
    with telemetry.span("x") as one:
        try:
            raise ValueError("why")
        except ValueError:
            logging.getLogger().exception("failed")
    entry = json.loads(lines.getvalue())
    assert trace.format_trace_id(one.get_span_context().trace_id) == entry["trace"]
    assert "ValueError: why" in entry["error"]


def test_a_line_has_a_limit(lines: io.StringIO):
    logging.getLogger().info("x" * 100_000)
    assert len(lines.getvalue()) < telemetry.LINE_LIMIT + 500


def test_traces_none_sends_nothing():
    assert telemetry.start_traces(Telemetry(), service="x") is None
    telemetry.stop_traces(None)


def test_a_duration_is_counted_under_its_outcome():
    metrics = telemetry.Metrics(CollectorRegistry())
    with telemetry.measured("adb", metrics.adb_seconds, operation="shell"):
        pass
    with pytest.raises(TimeoutError), telemetry.measured("adb", metrics.adb_seconds, operation="shell"):
        raise TimeoutError
    text = generate_latest(metrics.registry).decode()
    assert 'droidherd_adb_seconds_count{operation="shell",outcome="ok"} 1.0' in text
    assert 'droidherd_adb_seconds_count{operation="shell",outcome="TimeoutError"} 1.0' in text


def test_a_process_says_nothing_of_what_it_does_not_know():
    """A worker that said `engine_up 0` because it never asks would raise the alarm for ever."""
    text = generate_latest(telemetry.Metrics(CollectorRegistry()).registry).decode()
    assert [] == [line for line in text.splitlines() if not line.startswith("#")]


def test_what_a_dispatcher_counted_is_shown_as_counters_and_histograms():
    metrics = telemetry.Metrics(CollectorRegistry())
    run = telemetry.DurationSample(count=4, seconds=9.5, bounds_s=(0.5, 2.0), buckets=(1, 3))
    tallied = telemetry.TypeStatsSample("t", {"completed": 3, "retried": 1}, run, telemetry.DurationSample())
    metrics.pool_stats.show("p", [tallied])
    lines = generate_latest(metrics.registry).decode().splitlines()
    expected = {
        'droidherd_attempts_total{outcome="completed",pool="p",type="t"} 3.0',
        'droidherd_attempts_total{outcome="retried",pool="p",type="t"} 1.0',
        'droidherd_run_seconds_bucket{le="0.5",pool="p",type="t"} 1.0',
        'droidherd_run_seconds_bucket{le="2.0",pool="p",type="t"} 3.0',
        'droidherd_run_seconds_bucket{le="+Inf",pool="p",type="t"} 4.0',
        'droidherd_run_seconds_count{pool="p",type="t"} 4.0',
        'droidherd_run_seconds_sum{pool="p",type="t"} 9.5',
        'droidherd_wait_seconds_count{pool="p",type="t"} 0.0',
        "# TYPE droidherd_run_seconds histogram",
    }
    assert set() == expected - set(lines)


def test_every_metric_is_set_by_somebody():
    product = Path(__file__).parents[2]
    sources = [*(product / "droidherd").rglob("*.py"), *(product / "api").rglob("*.py")]
    sources += [*(product / "activities").glob("*.py"), product / "worker_main.py"]
    source = "".join(file.read_text(encoding="utf-8") for file in sources)
    names = vars(telemetry.Metrics(CollectorRegistry())).keys() - {"registry"}
    assert set() == {name for name in names if f"metrics.{name}" not in source}


def test_metrics_are_served_on_loopback():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = telemetry.serve_metrics(port)
    try:
        telemetry.metrics.engine_up.labels(pool="p").set(1)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            assert 'droidherd_engine_up{pool="p"} 1.0' in answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()


class Collector(BaseHTTPRequestHandler):
    """Stands where an OTLP collector would."""

    bodies: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        self.bodies.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


def run_with_traces(**settings: str) -> str:
    code = (
        "from droidherd import telemetry; from droidherd.settings import Telemetry;"
        f"p = telemetry.start_traces(Telemetry(**{settings!r}), service='s1')\n"
        "with telemetry.span('a-span'): pass\n"
        "telemetry.stop_traces(p)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stderr


def test_traces_console_prints_spans():
    assert '"name": "a-span"' in run_with_traces(traces="console")


def test_traces_otlp_sends_spans_to_the_collector():
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        run_with_traces(traces="otlp", otlp_endpoint=f"http://127.0.0.1:{server.server_port}/v1/traces")
        server.shutdown()
    assert ["/v1/traces"] == [path for path, _ in Collector.bodies]
    assert b"a-span" in gzip_or_plain(Collector.bodies[0][1])


def gzip_or_plain(body: bytes) -> bytes:
    return gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body
