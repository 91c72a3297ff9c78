"""The composition root of a worker process: settings → adapters → activities → workers.

python worker_main.py run       serve this host's emulators, and workflows
python worker_main.py verify    replay every recorded history against the workflows of this tree
"""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import sys
from collections.abc import Awaitable
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError

from droidherd import telemetry
from droidherd.adb.server import AdbServer, AdbServerLimits
from droidherd.credentials import CredentialStore
from droidherd.domain.errors import BadParametersError
from droidherd.domain.fleet.disk_space import Need
from droidherd.domain.replay import ReplayRecord
from droidherd.engine.accounts import AccountsClient
from droidherd.engine.archive import TaskArchive
from droidherd.engine.connection import EngineConfig, connect, converter_of, log_through_python
from droidherd.engine.encryption import EncryptionKeys
from droidherd.engine.errors import EngineError, ScheduleError, UnavailableError
from droidherd.engine.maintenance import keep_schedule
from droidherd.engine.queue import LaneControl, handing_over_settings
from droidherd.engine.replacement import ForeignRuns, RunReplacement
from droidherd.engine.tasks import TasksClient
from droidherd.flows.catalogue import catalogue_of
from droidherd.processes import children
from droidherd.settings import Settings, Temporal, load
from droidherd.worker.activities import HostActivities, SharedActivities, artifact_store
from droidherd.worker.host_workers import HostWorkers, WorkerRefusedError, clear_predecessor
from droidherd.worker.resource_monitor import (
    AccountMonitor,
    DiskMonitor,
    EndMonitor,
    ForeignMonitor,
    HolderMonitor,
    JournalMonitor,
    MemoryMonitor,
    ReplayMonitor,
    run_monitor,
)
from droidherd.worker.shutdown import ShutdownRequest
from droidherd.worker.workflow_workers import WORKFLOWS, workflow_workers

REFUSED = 3
"""Exit code: another machine serves this host id, or Temporal refuses our settings."""
AGAIN = 75
"""Exit code: drained, and to be started again."""
MEMORY_CHECK_S = 1.0
REPLAY_CHECK_S = 1.0
FOREIGN_CHECK_S = 3.0
ACCOUNTS_CHECK_S = 10.0
HOLDERS_CHECK_S = 15.0
"""Between two looks whether holders of leases are closed. A lease is looked at from the second look on."""
JOURNALS_CHECK_S = 300.0

log = logging.getLogger("droidherd.worker")


async def run(settings: Settings, roles: set[str]) -> int:
    """Serve until SIGTERM or SIGINT, or until the memory limit is reached; then drain."""
    try:
        catalogue_of(settings).check_policies()
        keys = EncryptionKeys.of(settings)
    except BadParametersError as error:
        raise WorkerRefusedError(str(error)) from error
    stop = ShutdownRequest.by_signal()
    environment = children.adb_environment(os.environ)
    server = AdbServer(
        settings.adb.port,
        settings.data / "adb",
        settings.adb.program,
        environment=environment,
        limits=AdbServerLimits(memory_bytes=settings.limits.adb_server_bytes),
    )
    memory = MemoryMonitor(settings.limits.worker_rss_bytes, stop.asked)
    async with contextlib.AsyncExitStack() as stack:
        starting: list[Awaitable[object]] = []
        client = await connect(settings.temporal, keys)
        store = artifact_store(settings)
        shared = SharedActivities.build(settings, client, store)
        if "host" in roles:
            stack.callback(server.stop)
            starting.append(asyncio.create_task(asyncio.to_thread(server.start)))
            # First of all that asks Temporal: whatever is sent to the cache of a dead worker waits there.
            await clear_predecessor(settings, shared.hosts)
        # Not waited for: a dispatcher that takes no more messages is replaced by what begins below.
        await stack.enter_async_context(handing_over_settings(shared.queue))
        await stack.enter_async_context(run_monitor(MEMORY_CHECK_S, memory.check, stop.asked))
        if "workflow" in roles:
            starting.append(_keep_schedule(settings, client))
            record = ReplayRecord(settings.limits.replay_failures)
            for worker in workflow_workers(settings, client, shared, record):
                await stack.enter_async_context(worker)
            replays = ReplayMonitor(record, RunReplacement(client, EngineConfig.of(settings), shared.queue))
            await stack.enter_async_context(run_monitor(REPLAY_CHECK_S, replays.check, stop.asked))
            foreign = ForeignMonitor(ForeignRuns(client, EngineConfig.of(settings), shared.queue))
            await stack.enter_async_context(run_monitor(FOREIGN_CHECK_S, foreign.check, stop.asked))
            accounts = AccountMonitor(AccountsClient(client, EngineConfig.of(settings)))
            await stack.enter_async_context(run_monitor(ACCOUNTS_CHECK_S, accounts.check, stop.asked))
            ends = EndMonitor(TasksClient(client, EngineConfig.of(settings), shared.queue))
            await stack.enter_async_context(run_monitor(HOLDERS_CHECK_S, ends.check, stop.asked))
        await asyncio.gather(*starting)
        holders = HolderMonitor(shared.queue, settings.host.id)
        await stack.enter_async_context(run_monitor(HOLDERS_CHECK_S, holders.check, stop.asked))
        gc.freeze()  # what stands now stays: no collection has to look at it, and each of them stops every emulator
        if "host" in roles:
            limits = settings.limits
            need = Need(settings.host.id, limits.disk_free_bytes, limits.disk_margin)
            disks = DiskMonitor(need, settings.places, LaneControl(shared.queue), settings.host.pool)
            await stack.enter_async_context(run_monitor(limits.disk_check_s, disks.check, stop.asked))
            credentials = CredentialStore(shared.accounts, os.environ, settings.allowed_references)
            activities = HostActivities.build(settings, client, server, store, credentials)
            journals = JournalMonitor(activities.journals, activities.inventory, TaskArchive(client))
            await stack.enter_async_context(run_monitor(JOURNALS_CHECK_S, journals.check, stop.asked, at_once=False))
            await HostWorkers(settings, client, activities, shared).serve(stop)
        await stop.asked.wait()
    return AGAIN if memory.exceeded else 0


async def _keep_schedule(settings: Settings, client: Client) -> None:
    try:
        await keep_schedule(client, settings.retention.at, settings.retention.time_zone, settings.host.pool)
    except ScheduleError as error:
        raise WorkerRefusedError(f"{error}: see `retention.at` and `retention.time_zone`") from error


def _roles(text: str) -> set[str]:
    roles = set(text.split(","))
    if not roles <= {"workflow", "host"}:
        raise argparse.ArgumentTypeError(f"{text!r}: workflow, host, or both with a comma between")
    return roles


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="worker_main.py", description=__doc__)
    modes = parser.add_subparsers(dest="mode", required=True)
    serve = modes.add_parser("run", help="serve until SIGTERM")
    serve.add_argument("--roles", type=_roles, default="workflow,host", help="workflow, host, or both (default)")
    serve.add_argument(children.STANDBY, action="store_true", help="begin when a line arrives at standard input")
    verify = modes.add_parser("verify", help="replay histories against the workflows of this tree")
    verify.add_argument("paths", nargs="*", type=Path, default=[Path("tests/replay/histories")])
    verify.add_argument("--running", action="store_true", help="the runs under way: is a drain needed?")
    verify.add_argument("--strict", action="store_true", help="in the SDK's sandbox, where forbidden calls fail")
    verify.add_argument("--json", action="store_true", help="print one JSON document")
    return parser.parse_args(argv)


def _reachable(temporal: Temporal) -> Temporal:
    """An address of a server that runs: port 0 is chosen by `droidherd up`, and means nothing to a client."""
    if temporal.address.endswith(":0"):
        setting = "DROIDHERD_TEMPORAL__ADDRESS"
        raise UnavailableError(
            f"`temporal.address` is {temporal.address}, and port 0 is no address to connect to: set {setting} to the "
            "address that `droidherd status` shows"
        )
    return temporal


async def _verify(options: argparse.Namespace) -> int:
    """1: a history diverged. 2: there is nothing to replay, or it cannot be read."""
    from droidherd.testing import replay

    try:
        settings = load()
        keys = EncryptionKeys.of(settings)
        if options.running:
            client = await connect(_reachable(settings.temporal), keys)
            recorded = await replay.fetch(client, "ExecutionStatus = 'Running'")
        else:
            recorded = [replay.read(path) for path in replay.find(options.paths)]
    except (replay.UnreadableHistoryError, EngineError, BadParametersError, ValueError) as error:
        log.error("%s", error)  # noqa: TRY400 - the message says it all
        return 2
    if not recorded and not options.running:
        log.error("no history under %s", ", ".join(map(str, options.paths)))
        return 2
    diverged = await replay.verify(
        recorded, WORKFLOWS, strict=options.strict, as_json=options.json, converter=converter_of(keys)
    )
    if diverged and options.running:
        log.error("drain first: runs under way cannot go on under this code (docs/operations.md)")
    return diverged


def main(argv: list[str] | None = None) -> int:
    options = _options(argv)
    if options.mode == "verify":
        return asyncio.run(_verify(options))
    children.keep_private()
    if options.standby:
        children.stand_by()
    try:
        settings = load()
    except ValueError as error:
        sys.stderr.write(f"the settings do not make sense: {error}\n")
        return REFUSED
    children.drop_encryption_keys(os.environ)
    children.enter_data_directory(settings.data)
    telemetry.start_logs(settings.telemetry.log_level)
    log_through_python()
    telemetry.metrics.process.watch("worker", settings.host.id, settings.data)
    traces = telemetry.start_traces(settings.telemetry, service="worker")
    if settings.telemetry.worker_metrics_port:
        telemetry.serve_metrics(settings.telemetry.worker_metrics_port, host=settings.telemetry.worker_metrics_host)
    try:
        return asyncio.run(run(settings, options.roles))
    except WorkerRefusedError as error:
        log.error("refused: %s", error)  # noqa: TRY400 - a refusal needs no stack
        return REFUSED
    except EngineError as error:
        log.error("%s", error)  # noqa: TRY400
        return 1
    except RPCError as error:
        log.error("Temporal at %s does not answer: %s", settings.temporal.address, error)  # noqa: TRY400
        return 1
    finally:
        telemetry.stop_traces(traces)


if __name__ == "__main__":
    children.end_process(main())
