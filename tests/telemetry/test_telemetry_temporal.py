"""One trace follows a task through the engine, with the workflow in its sandbox."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from opentelemetry.sdk.trace import ReadableSpan
    from temporalio.contrib.pydantic import pydantic_data_converter

    from droidherd import telemetry
    from droidherd.cli.local.embedded import EmbeddedTemporal
    from droidherd.engine.tracing import TracingInterceptor
    from tests.support.spans import remember_spans

QUEUE = "traced"


@dataclass(frozen=True)
class Order:
    text: str


@activity.defn(name="traced-stage")
def stage(order: Order) -> str:
    with telemetry.span("adb shell", command=order.text):
        return order.text


@workflow.defn(name="Traced")
class Traced:
    @workflow.run
    async def run(self, order: Order) -> str:
        limit = timedelta(seconds=10)
        return await workflow.execute_activity(stage, order, start_to_close_timeout=limit)


async def test_one_trace_leads_from_the_request_to_the_adb_call(
    temporal_server: EmbeddedTemporal, temporal_namespace: str
):
    spans = remember_spans()
    client = await Client.connect(
        temporal_server.address,
        namespace=temporal_namespace,
        data_converter=pydantic_data_converter,
        interceptors=[TracingInterceptor()],
    )
    with ThreadPoolExecutor(2) as threads:
        async with Worker(client, task_queue=QUEUE, workflows=[Traced], activities=[stage], activity_executor=threads):
            with telemetry.span("POST /api/tasks") as root:
                started = client.execute_workflow("Traced", Order("echo"), id="traced", task_queue=QUEUE)
                assert "echo" == await asyncio.wait_for(started, 20)
    found = [one for one in spans.get_finished_spans() if ids(one)[0] == root.get_span_context().trace_id]
    assert [
        "adb shell",
        "RunActivity:traced-stage",
        "StartActivity:traced-stage",
        "StartWorkflow:Traced",
        "POST /api/tasks",
    ] == path_to_root("adb shell", found)


def path_to_root(name: str, spans: list[ReadableSpan]) -> list[str]:
    by_id = {ids(one)[1]: one for one in spans}
    one: ReadableSpan | None = next(span for span in spans if span.name == name)
    names: list[str] = []
    while one is not None:
        names.append(one.name)
        one = by_id.get(one.parent.span_id) if one.parent else None
    return names


def ids(span: ReadableSpan) -> tuple[int, int]:
    return (span.context.trace_id, span.context.span_id) if span.context else (0, 0)
