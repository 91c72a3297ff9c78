"""What nobody should send to a workflow, and what becomes of the workflow: every handler, found by looking for them.

.venv/bin/python -m tests.workflows.garbage     play all of it on a server of its own, and print the table (or --json)
"""

import asyncio
import itertools
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.client import (
    Client,
    Interceptor,
    OutboundInterceptor,
    QueryWorkflowInput,
    SignalWorkflowInput,
    StartWorkflowInput,
    StartWorkflowUpdateInput,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowHistory,
    WorkflowUpdateHandle,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import RawValue
from temporalio.exceptions import TemporalError
from temporalio.service import RPCError, RPCStatusCode
from typing_extensions import override

from droidherd.cli.local.embedded import EmbeddedTemporal
from droidherd.contracts import names
from droidherd.contracts.accounts import AccountInput
from droidherd.contracts.fleet import EmulatorInput, HostInput
from droidherd.contracts.maintenance import CleanupInput
from droidherd.contracts.queue import DispatcherInput
from droidherd.contracts.subscriptions import Subscription
from droidherd.contracts.tasks import TaskInput, TaskSpec
from droidherd.domain.replay import LASTING
from droidherd.domain.schedule.catchup import CatchUp
from droidherd.engine.connection import CONVERTER
from droidherd.engine.tracing import TracingInterceptor
from droidherd.worker.workflow_workers import WORKFLOWS
from tests.support.temporal import NEW_NAMESPACES
from tests.workflows.world import World, until, world
from workflows.guard import AHEAD, LATE
from workflows.inbound import parameter_of

ANSWER_S = 15.0
NAIVE = "2026-11-20T08:00:00"
MOMENT = "2026-11-20T08:00:00Z"
EXTREMES = (2**53, -(2**53), 2**70, 10**400, -(10**400), -1, 0, 1e300, -1e300)
LARGE_BYTES = 1_950_000
Payloads = Sequence[Payload]


def payload(data: bytes, encoding: bytes = b"json/plain") -> Payload:
    return Payload(metadata={"encoding": encoding}, data=data)


def as_json(value: object) -> Payload:
    return payload(json.dumps(value).encode())


def rubbish(kind: Any, *, large: bool = True) -> Iterator[tuple[str, Payloads]]:
    """By the name of its sort: what is sent instead of this kind of argument."""
    yield "none", []
    yield "too many", [as_json({}), payload(b"\xff\x00{"), payload(b"?", b"binary/secret")]
    yield "too many", [as_json({"pool": "default"}), as_json({})]
    yield "null", [payload(b"", b"binary/null")]
    yield "null", [payload(b"null")]
    for value in (17, "text", [1, "x"], {"actor": {"x": []}, "spec": 5, "key": 1, "lane": 7, "emulator_id": 1}):
        yield "wrong type", [as_json(value)]
    yield "garbage bytes", [payload(b"\xff\xfe\x00{")]
    yield "unknown encoding", [payload(b"{}", b"binary/secret")]
    yield "unknown encoding", [payload(b"{}", b"\xff\xfe")]
    yield "unknown encoding", [Payload(metadata={}, data=b"{}")]
    yield "unknown encoding", [Payload(metadata={"encoding": b"json/protobuf"}, data=b"{")]
    for encoding in (b"json/external-storage-reference", b"json/plain"):
        marked = {"encoding": encoding, "__temporal_external_storage_reference": b"true"}
        yield "unknown encoding", [Payload(metadata=marked, data=b'{"driver_name": "s3"}')]
    for data in (b"", b"x" * 40):
        yield (
            "unknown encoding",
            [Payload(metadata={"encoding": b"binary/encrypted", "encryption-key-id": b"k9"}, data=data)],
        )
    if large:
        yield "2 MB", [as_json({"actor": "x" * LARGE_BYTES, "spec": {"type": "x"}})]
    yield "naive time", [as_json({"not_before": NAIVE, "spec": {"type": "sample", "not_before": NAIVE}})]
    yield "400 levels", [payload(b"[" * 400 + b"]" * 400)]
    yield "400 levels", [payload(b'{"spec": {"type": "sample", "params": {"x": ' + b"[" * 400 + b"]" * 400 + b"}}}")]
    yield "lone surrogate", [payload(b'{"actor": "\\ud800", "spec": {"type": "\\udfff"}}')]
    yield "lone surrogate", [payload(b'{"actor": "\xed\xa0\x80"}')]
    if kind is None:
        return
    schema = TypeAdapter(kind).json_schema()
    for number in EXTREMES:
        yield "extreme numbers", [as_json(sample(schema, number=number))]
    whole = json.dumps(sample(schema, number=12_345_678))
    for number in ("NaN", "Infinity", "-Infinity", "1e999"):
        yield "extreme numbers", [payload(whole.replace("12345678", number).encode())]
    yield "long texts", [as_json(sample(schema, text="x" * 30_000))]
    yield "naive time", [as_json(sample(schema, moment=NAIVE))]


TRACE = "_tracer-data"
"""The header in which OpenTelemetry's plugin looks for a trace."""
HEADER: ContextVar[Payload | None] = ContextVar("HEADER", default=None)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def headers(*, large: bool = True) -> Iterator[Payload]:
    """What is sent as the trace of a message. Of a small play a few that raised, each in another way."""
    yield payload(b"\xff\xfe\x00{")
    yield payload(b"{}", b"binary/secret")
    for value in ([1, "x"], {"traceparent": 5}):
        yield as_json(value)
    yield as_json({"traceparent": PARENT, "tracestate": "\ud800=\ud800", "baggage": "a=\ud800"})
    if not large:
        return
    yield Payload(metadata={}, data=b"{}")
    yield payload(b"", b"binary/null")
    yield payload(b"[" * 400 + b"]" * 400)
    for value in (None, 17, "text", {"traceparent": {"x": 1}}, {"traceparent": []}):
        yield as_json(value)
    yield as_json({"traceparent": PARENT, "tracestate": [5], "baggage": 7})
    yield as_json({"traceparent": "x" * 30_000})
    yield as_json({"traceparent": "x" * LARGE_BYTES})


class SendsHeaders(Interceptor):
    """Sends `HEADER` with each message."""

    @override
    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _SendsHeaders(next)


class _SendsHeaders(OutboundInterceptor):
    @override
    async def start_workflow(self, input: StartWorkflowInput) -> "WorkflowHandle[Any, Any]":
        input.headers = _with_header(input.headers)
        return await super().start_workflow(input)

    @override
    async def signal_workflow(self, input: SignalWorkflowInput) -> None:
        input.headers = _with_header(input.headers)
        await super().signal_workflow(input)

    @override
    async def query_workflow(self, input: QueryWorkflowInput) -> Any:
        input.headers = _with_header(input.headers)
        return await super().query_workflow(input)

    @override
    async def start_workflow_update(self, input: StartWorkflowUpdateInput) -> "WorkflowUpdateHandle[Any]":
        input.headers = _with_header(input.headers)
        return await super().start_workflow_update(input)


def _with_header(given: Mapping[str, Payload]) -> Mapping[str, Payload]:
    header = HEADER.get()
    return given if header is None else {**given, TRACE: header}


@contextmanager
def sending(header: Payload) -> Generator[None]:
    token = HEADER.set(header)
    try:
        yield
    finally:
        HEADER.reset(token)


def with_interceptors(client: Client, *interceptors: Interceptor) -> Client:
    config = client.config()
    config["interceptors"] = interceptors
    return Client(**config)


@dataclass
class Sampler:
    """Makes a document that fits a schema, every field of it given, with these values where they fit."""

    definitions: Mapping[str, Any]
    number: float = 1
    text: str = "x"
    moment: str = MOMENT
    depth: int = 0

    def fill(self, part: Any) -> Any:
        if "$ref" in part:
            self.depth += 1
            name = part["$ref"].rpartition("/")[2]
            value = self.fill(self.definitions[name]) if self.depth < 6 else None
            self.depth -= 1
            return value
        if branches := part.get("anyOf") or part.get("oneOf") or part.get("allOf"):
            return self.fill(next((one for one in branches if one.get("type") != "null"), {}))
        if "const" in part or "enum" in part:
            return part.get("const", (part.get("enum") or [None])[0])
        return self._plain(part, part.get("type"))

    def _plain(self, part: Any, kind: Any) -> Any:
        if kind == "object":
            extra = part.get("additionalProperties")
            value = {name: self.fill(one) for name, one in part.get("properties", {}).items()}
            return value | ({"x": self.fill(extra)} if isinstance(extra, dict) else {})
        if kind == "string":
            return self._text(part)
        if kind == "array":
            return [self.fill(part.get("items", {}))]
        return kind == "boolean" or self.number

    def _text(self, part: Any) -> str:
        if part.get("format") == "date-time":
            return self.moment
        return "a=b" if "=" in part.get("pattern", "") else self.text


def sample(schema: Any, **values: Any) -> Any:
    return Sampler(schema.get("$defs", {}), **values).fill(schema)


@dataclass
class Table:
    """What became of the workflows: workflow, message and sort → how often, and what was wrong."""

    cells: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    wedged: list[str] = field(default_factory=list)

    def add(self, workflow_type: str, message: str, sort: str) -> None:
        self.cells[workflow_type, message.partition(" ")[0], sort] += 1

    def text(self) -> str:
        sorts = list(dict.fromkeys(sort for _, _, sort in self.cells))
        rows = list(dict.fromkeys((kind, message) for kind, message, _ in self.cells))
        lines = [f"| workflow | message | {' | '.join(sorts)} |", "|---" * (len(sorts) + 2) + "|"]
        for kind, message in rows:
            counts = " | ".join(str(self.cells[kind, message, sort]) for sort in sorts)
            lines.append(f"| {kind} | {message} | {counts} |")
        return "\n".join([*lines, "", f"sent: {self.cells.total()}, wedged: {len(self.wedged)}", *self.wedged])

    def figures(self) -> dict[str, Any]:
        """The same for programs: how many of each sort, and what was wrong."""
        sorts: Counter[str] = Counter()
        for (_, _, sort), count in self.cells.items():
            sorts[sort] += count
        return {"sent": self.cells.total(), "wedged": len(self.wedged), "sorts": sorts, "problems": self.wedged}


@dataclass
class Target:
    """A workflow that is there, and everything it understands. One that ended is started anew."""

    client: Client
    name: str
    definition: Any
    table: Table
    handle: "WorkflowHandle[Any, Any]"
    started: int = 0

    @classmethod
    async def begin(cls, client: Client, workflow_class: type, table: Table) -> "Target":
        definition: Any = workflow._Definition.must_from_class(workflow_class)
        one = cls(client, str(definition.name), definition, table, client.get_workflow_handle("none"))
        await one.renew()
        return one

    async def renew(self) -> None:
        self.started += 1
        name = f"{ID_OF.get(self.name, '')}garbage{self.started}"
        queue = names.QUEUE if self.name in TASKS else names.FLEET_QUEUE
        self.handle = await self.client.start_workflow(self.name, VALID[self.name], id=name, task_queue=queue)

    async def play(self, *, large: bool = True) -> None:
        """Everything to every handler. After each handler the workflow has to answer."""
        for name, one in self.definition.signals.items():
            parameter = parameter_of(one) if name else None
            for sort, given in rubbish(parameter.kind if parameter else None, large=large):
                await self._outcome(self.handle.signal(name or "nobody_knows_this", args=raw(given)))
                self.table.add(self.name, "signal", sort)
            for header in headers(large=large):
                with sending(header):
                    await self._outcome(self.handle.signal(name or "nobody_knows_this", args=raw(TWO)))
                self.table.add(self.name, "signal", HEADERS)
            await self.check(f"signal {name}")
        for name in (*self.definition.updates, "nobody_knows_this"):
            await self._ask("update", name, self.definition.updates.get(name), large=large)
        for name in (*self.definition.queries, "nobody_knows_this"):
            await self._ask("query", name, self.definition.queries.get(name), large=large)

    async def _ask(self, message: str, name: str, one: Any, *, large: bool) -> None:
        parameter = parameter_of(one) if one else None
        send = self.handle.execute_update if message == "update" else self.handle.query
        for sort, given in rubbish(parameter.kind if parameter else None, large=large):
            if not given and one is not None and parameter is None:
                continue  # as it should be: the answer may take its time
            answer = await self._outcome(send(name, args=raw(given)))
            self.table.add(self.name, message, sort)
            if answer == "silence" and sort not in MAY_BE_VALID:
                self.table.wedged.append(f"{self.name}: {message} {name}, {sort}")
        for header in headers(large=large):
            with sending(header):
                answer = await self._outcome(send(name, args=raw(TWO)))
            self.table.add(self.name, message, HEADERS)
            if answer == "silence":
                self.table.wedged.append(f"{self.name}: {message} {name}, {HEADERS}")
        await self.check(f"{message} {name}")

    async def _outcome(self, sending: Any) -> str:
        try:
            await asyncio.wait_for(sending, ANSWER_S)
        except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError):
            return "silence"
        except (TemporalError, RPCError) as error:
            return type(error).__name__
        return "answered"

    async def check(self, after: str) -> None:
        """It completes a further workflow task, answers a query, and failed no workflow task."""
        try:
            await self.hears()
        except (TimeoutError, AssertionError) as error:
            self.table.wedged.append(f"{self.name}: stands still after {after}: {error}")
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
        self.table.wedged += [f"{self.name}: {after}: {one}" for one in failed_tasks(await self._history())]
        if (await self.handle.describe()).status is not WorkflowExecutionStatus.RUNNING:
            await self.renew()

    async def hears(self) -> None:
        await self.handle.signal("are_you_there")
        await asyncio.wait_for(until(self._has_heard, "a further workflow task"), ANSWER_S)
        await asyncio.wait_for(self.handle.query("__temporal_workflow_metadata"), ANSWER_S)

    async def _has_heard(self) -> bool | None:
        events = (await self._history()).events
        signals = [e.event_id for e in events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED]
        done = [e.event_id for e in events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]
        return True if done and done[-1] > max(signals, default=0) else None

    async def _history(self) -> WorkflowHistory:
        return await self.handle.fetch_history()


def is_locked(given: Payloads) -> bool:
    """Whether it names a key that nobody has here: what must be read is waited for (docs/security.md)."""
    return any(one.metadata.get("encoding") == b"binary/encrypted" for one in given)


def raw(given: Payloads) -> list[RawValue]:
    return [RawValue(one) for one in given]


def failed_tasks(history: WorkflowHistory) -> list[str]:
    """Why workflow tasks failed, but for those that the guard refused."""
    failed = [
        e.workflow_task_failed_event_attributes
        for e in history.events
        if e.HasField("workflow_task_failed_event_attributes")
    ]
    ours = {AHEAD, LATE}
    pushed = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND
    return [one.failure.message for one in failed if one.failure.message not in ours and one.cause != pushed]


async def play_starts(here: World, table: Table, *, large: bool = True) -> None:
    """Every workflow, started with everything. It has to end, or to answer."""
    numbers = itertools.count(1)

    async def play_one(definition: Any, sort: str, given: Payloads) -> None:
        name = str(definition.name)
        queue = names.QUEUE if name in TASKS else names.FLEET_QUEUE
        handle = await here.client.start_workflow(
            name, args=raw(given), id=f"{ID_OF.get(name, '')}s{next(numbers)}", task_queue=queue
        )
        table.add(name, "start", sort)
        if not await _ends_or_answers(handle):
            table.wedged.append(f"{name}: start, {sort}")
        table.wedged += [f"{name}: start, {sort}: {one}" for one in failed_tasks(await handle.fetch_history())]

    for cls in WORKFLOWS:
        definition: Any = workflow._Definition.must_from_class(cls)
        kind = TaskInput if definition.name == names.Workflow.TASK else parameter_of_start(definition)
        waits = definition.name not in LASTING
        starts = [one for one in rubbish(kind, large=large) if not (waits and is_locked(one[1]))]
        await asyncio.gather(*(play_one(definition, *one) for one in starts))
        valid = here.client.data_converter.payload_converter.to_payloads([VALID[str(definition.name)]])
        for header in headers(large=large):
            with sending(header):
                await play_one(definition, HEADERS, valid)


def parameter_of_start(definition: Any) -> Any:
    parameter = parameter_of(type("", (), {"fn": staticmethod(definition.run_fn)}))
    return parameter.kind if parameter else None


TASKS = (names.Workflow.TASK, names.Workflow.SUBSCRIPTION_RUN)
ID_OF = {
    "DispatcherWorkflow": "dispatcher/",
    "EmulatorWorkflow": "emulator/",
    "HostWorkflow": "host/",
    "AccountWorkflow": "account/",
    "MaintenanceWorkflow": "maintenance/cleanup/",
    "SubscriptionRunWorkflow": "subscription-run/",
}


async def _ends_or_answers(handle: "WorkflowHandle[Any, Any]") -> bool:
    ending = asyncio.ensure_future(handle.result())
    try:
        async with asyncio.timeout(ANSWER_S):
            answer = asyncio.ensure_future(handle.query("__temporal_workflow_metadata"))
            await asyncio.wait([ending, answer], return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                await answer
                return answer.exception() is None
            answer.cancel()
            return True
    except (TimeoutError, RPCError):
        return False
    finally:
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)


HEADERS = "tracing header"
TWO = (payload(b"{}"), payload(b"{}"))
"""Arguments that every handler refuses at once."""
MAY_BE_VALID = ("extreme numbers", "long texts", "naive time")
"""What fits the model after all is obeyed: an answer may take its time."""
VALID: Mapping[str, Any] = {
    "TaskWorkflow": TaskInput(spec=TaskSpec(type="sample", not_before=datetime(2100, 1, 1, tzinfo=UTC))),
    "DispatcherWorkflow": DispatcherInput(pool="garbage"),
    "EmulatorWorkflow": EmulatorInput(emulator_id="garbage"),
    "HostWorkflow": HostInput(host_id="garbage"),
    "AccountWorkflow": AccountInput(),
    "MaintenanceWorkflow": CleanupInput(dry_run=True),
    "SubscriptionRunWorkflow": Subscription(
        id="garbage",
        task=TaskSpec(type="sample", not_before=datetime(2100, 1, 1, tzinfo=UTC)),
        every_s=3600,
        created_at=datetime(2026, 11, 1, tzinfo=UTC),
        catch_up=CatchUp(until=datetime(2026, 11, 1, tzinfo=UTC)),
    ),
}


async def play(client: Client, *, large: bool = True) -> Table:
    """The whole table, on workers that trace."""
    table = Table()
    sender = with_interceptors(client, SendsHeaders())
    async with world(with_interceptors(client, TracingInterceptor()), "e1") as here:
        await play_starts(replace(here, client=sender), table, large=large)
        found = await asyncio.gather(*(Target.begin(sender, cls, table) for cls in WORKFLOWS))
        await asyncio.gather(*(target.play(large=large) for target in found))
    return table


async def play_alone(play: Callable[[Client], Awaitable[Table]]) -> int:
    """On a server of its own, and printed. The exit code: 1, something was wedged."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedTemporal.start(Path(folder), in_memory=True, dynamic_config=NEW_NAMESPACES) as server,
    ):
        server.add_namespace("table")
        client = await Client.connect(server.address, namespace="table", data_converter=CONVERTER)
        table = await play(client)
    sys.stdout.write((json.dumps(table.figures()) if "--json" in sys.argv else table.text()) + "\n")
    return 1 if table.wedged else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(play_alone(play)))
