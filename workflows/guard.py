"""What workers run workflows in: no sandbox, and a guard against commands in an order that no replay repeats.

Production and most tests run workflows without the SDK's sandbox, which costs a third of a worker's time. What the
sandbox checks is checked elsewhere: tests/architecture/banned.py refuses forbidden calls in the source, and every
recorded history is replayed in the SDK's own sandbox (`worker_main.py verify --strict`, ADR 44).

This is the one file that stands on SDK internals: on `WorkflowInstance`, on the activations it is given, and on the
time that one may take. That is why `temporalio` has an upper bound in pyproject.toml. The guard refuses two kinds of
workflow tasks, once each; a refused task empties the cache of its run, and the engine gives it again to be played from
its history, in one step:

- AHEAD (ADR 30): a query brought history that no workflow task had begun for, and the SDK kept what it played.
- LATE (ADR 40): the answer of a local activity comes behind signals and updates that a replay hears after it.

Both come from how the SDK's core cuts a history into activations (docs/upstream/cold-update.md). Open faults:

- https://github.com/temporalio/sdk-python/issues/1591: an update on a worker without the run in its cache writes a
  history that no worker can replay
- https://github.com/temporalio/sdk-rust/issues/1606: two workflow tasks are merged when the first gives no command
- https://github.com/temporalio/sdk-rust/pull/1597: a fix of the merging, not merged yet
- https://github.com/temporalio/sdk-python/issues/1578: local activities end in another order than a replay's

One loop that issues all commands of a workflow does not make the guard unnecessary where the workflow has updates: the
SDK itself gives the command that accepts one, before or behind those of the loop (tests/workflows/test_guard.py shows
it without the guard). Workflows with signals alone and one loop gave the same commands either way.

It also ends what was reset in Temporal, before anything else hears of it (ADR 52).

The guard can go when the issues are closed in the tested version and that test no longer finds a history that cannot
be replayed.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from temporalio.api.failure.v1 import Failure
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import SerializationContext, StorageDriverStoreContext
from temporalio.worker import (
    UnsandboxedWorkflowRunner,
    Worker,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowRunner,
)
from temporalio.workflow import Info

from droidherd.contracts.inbound import MISSING, MissingKeys
from droidherd.contracts.names import Workflow
from workflows.inbound import RESET_NOW, SENDERS, LockedValueError

AHEAD = "a query ran ahead of this workflow task; it is played anew"
LATE = "a local answer came late, since a query was answered first; this workflow task is played anew"
TOO_LATE = "Temporal no longer waited for its workflow task: a time-out, or too many messages at once"
DEADLOCK_S = 30
"""The SDK interrupts an activation that takes longer; usually after two seconds. What it interrupts may never leave the
cache, since a coroutine was lost, and then this worker plays that run no more. 10,000 messages take some four seconds.
"""
MISSING_KEY = ("MissingKeyError", LockedValueError.__name__)
"""By their names: the first is raised by the data converter."""
COARSE_NS = 1_000_000
ERROR_MAX = 500
"""Characters of the error for which a run is replaced: it is shown as the task's reason."""
RESET = "ResetError"
RESET_TEXT = "this workflow was reset in Temporal: it does not go on from an earlier point; see docs/contract.md"


class Witness(Protocol):
    """Hears of runs that fail again and again. Called from the threads that play workflows."""

    def on_failed(self, run_id: str, workflow_id: str, kind: str, error: str) -> object: ...
    def on_late(self, run_id: str, workflow_id: str, kind: str, error: str) -> object: ...
    def on_advanced(self, run_id: str, kind: str, *, replayed: bool) -> object: ...


class _Guarded(WorkflowInstance):
    """A workflow run whose activations are looked at before it hears them."""

    def __init__(self, inner: WorkflowInstance, info: Info, witness: Witness | None = None) -> None:
        self._inner = inner
        self._info, self._witness = info, witness
        self._refused = False
        """The guard itself refused the last activation."""
        self._replayed = False
        """This life of the run began with history."""
        self._reached: tuple[int, int] = (0, 0)
        """How much history was played, and the time of its last workflow task."""
        self._ahead = False
        """History was played that no workflow task had begun for."""
        self._missing = MissingKeys()
        self._lacks_key = False
        """The last activation failed for a key that is missing here: it waits for it, and nobody may replace it."""
        self._error = ""
        """Why the last activation failed, if it did."""
        self._open_updates: set[str] = set()
        """Updates that were accepted and have no answer yet."""
        self._ended = False
        """It was reset, and ends with that."""

    def activate(self, act: Any) -> Any:
        MISSING.set(self._missing)  # also of a query, which would note its key for the run that was played before
        # Only a reset gives a run another seed.
        is_reset = any(job.HasField("update_random_seed") for job in act.jobs)
        RESET_NOW.set(is_reset)
        if is_reset and self._info.workflow_type != Workflow.TASK:
            self._ended = True
            return _failed_by_reset()
        if self._ended and not any(job.HasField("remove_from_cache") for job in act.jobs):
            return _nothing_to_say(act)
        if all(job.HasField("query_workflow") or job.HasField("remove_from_cache") for job in act.jobs):
            self._note_eviction(act)
            return _with_types_of_errors(self._inner.activate(act))
        self._replayed = self._replayed or act.is_replaying
        if self._ahead or self._is_late(act):
            self._refused = True
            refused = WorkflowActivationCompletion()
            refused.failed.failure.message = AHEAD if self._ahead else LATE
            return refused
        self._ahead = self._is_early(act)
        signals = [job.signal_workflow for job in act.jobs if job.HasField("signal_workflow")]
        SENDERS.set({signal.signal_name: signal.identity for signal in signals})
        self._reached = (act.history_length, act.timestamp.ToNanoseconds())
        done = self._inner.activate(act)
        if self._missing.needed:
            # Whatever else went wrong, or did not: what it decided without knowing that does not count.
            done = _failed_for_key(self._missing.needed)
        self._lacks_key = _lacks_key(done.failed.failure)
        self._error = _in_short(done.failed.failure) if done.HasField("failed") else ""
        self._note_updates(done)
        if self._witness is not None and not act.is_replaying and done.HasField("successful"):
            self._witness.on_advanced(self._info.run_id, self._info.workflow_type, replayed=self._replayed)
        return done

    def _note_eviction(self, act: Any) -> None:
        """A run leaves the cache after each failure: an exception, a deadlock, or a replay that diverged."""
        for job in act.jobs:
            if self._witness is None or self._refused or self._lacks_key or not job.HasField("remove_from_cache"):
                continue
            removed = job.remove_from_cache
            # Without a key that was there before, a message is dropped that was heard then.
            diverged = removed.reason == removed.NONDETERMINISM and not self._missing.dropped
            # Fatal: the SDK's core itself cannot go on, say with a result of two payloads that somebody forged.
            if diverged or removed.reason in {removed.LANG_FAIL, removed.FATAL}:
                info = self._info
                # What the core says of an error is a dump of the whole failure, encrypted parts included.
                error = self._error or _cut(removed.message)
                self._witness.on_failed(info.run_id, info.workflow_id, info.workflow_type, error)
            elif removed.reason == removed.TASK_NOT_FOUND:
                info = self._info
                self._witness.on_late(info.run_id, info.workflow_id, info.workflow_type, TOO_LATE)

    def _note_updates(self, done: Any) -> None:
        for command in done.successful.commands:
            if command.HasField("update_response"):
                update = command.update_response
                change = self._open_updates.add if update.HasField("accepted") else self._open_updates.discard
                change(update.protocol_instance_id)

    def _is_late(self, act: Any) -> bool:
        """Whether the answer of a local activity comes with what a later workflow task brings.

        Its place is in a step of its own. But if it comes just while a query is answered, the workflow task ends with
        that, and already holds the answer; the workflow hears it in its next one, behind signals and updates. A replay
        gives it before them, where it stands in the history.

        Not while an update waits: if the answer lets it end, the core loses its word of that in a replay, at every try.
        """
        answers = [job.HasField("resolve_activity") and job.resolve_activity.is_local for job in act.jobs]
        late = any(answers) and not all(answers) and not act.is_replaying and act.history_length > self._reached[0]
        return late and not self._open_updates

    def _is_early(self, act: Any) -> bool:
        """Whether this is history that no workflow task has begun for.

        A query that was on its way while nobody served brings with it what came in since. The commands of that would
        stand before those of whatever comes until the next workflow task begins; a replay plays all of it at once, in
        another order, and diverges. So that task is refused once: the cache of this run is emptied, and it is played
        anew from its history.
        """
        length, time_ns = self._reached
        news = act.history_length > length > 0 and not act.is_replaying
        # Each workflow task has a time of its own, where times are exact. Those of the time-skipping server are not.
        return news and act.timestamp.ToNanoseconds() == time_ns and time_ns % COARSE_NS != 0

    def get_serialization_context(self, command_info: Any) -> SerializationContext | None:
        return self._inner.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> StorageDriverStoreContext:
        return self._inner.get_external_store_context(command_info)

    def get_info(self) -> Info:
        return self._inner.get_info()

    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()


def _failed_by_reset() -> WorkflowActivationCompletion:
    """One command, whatever else came in: what a reset gives a run once more comes in another order in a replay."""
    done = WorkflowActivationCompletion()
    failure = done.successful.commands.add().fail_workflow_execution.failure
    failure.message, failure.source = RESET_TEXT, "droidherd"
    failure.application_failure_info.type, failure.application_failure_info.non_retryable = RESET, True
    return done


def _nothing_to_say(act: Any) -> WorkflowActivationCompletion:
    """To queries of a run that was reset: it never heard what happened since."""
    done = WorkflowActivationCompletion()
    done.successful.SetInParent()
    for job in act.jobs:
        if job.HasField("query_workflow"):
            answer = done.successful.commands.add().respond_to_query
            answer.query_id, answer.failed.message = job.query_workflow.query_id, RESET_TEXT
    return done


def _failed_for_key(needed: str) -> WorkflowActivationCompletion:
    """A failed workflow task, which Temporal tries again. In plain words: they name the key, and hold nothing else."""
    done = WorkflowActivationCompletion()
    done.failed.failure.message, done.failed.failure.source = needed, "droidherd"
    done.failed.failure.application_failure_info.type = LockedValueError.__name__
    return done


def _in_short(failure: Failure) -> str:
    """An error in one line."""
    return _cut(f"{failure.application_failure_info.type or 'Error'}: {message_of(failure)}")


def _with_types_of_errors(done: WorkflowActivationCompletion) -> WorkflowActivationCompletion:
    """Of a query that failed, Temporal passes on the message alone. Where that is encrypted, nobody could read it."""
    for command in done.successful.commands:
        failure = command.respond_to_query.failed
        if command.HasField("respond_to_query") and failure.HasField("encoded_attributes"):
            failure.message = f"{failure.application_failure_info.type or 'Error'} (the rest of it is encrypted)"
    return done


def message_of(failure: Failure) -> str:
    """What it says. The SDK has moved that to where it is encrypted, which happens after the guard has seen it."""
    with suppress(ValueError, KeyError, TypeError):
        if failure.HasField("encoded_attributes"):
            return str(json.loads(failure.encoded_attributes.data)["message"])
    return failure.message


def _cut(text: str) -> str:
    return " ".join(text.split())[:ERROR_MAX]


def _lacks_key(failure: Failure) -> bool:
    """Whether something could not be decrypted, by the error or by what caused it."""
    while failure.application_failure_info.type not in MISSING_KEY:
        if not failure.HasField("cause"):
            return False
        failure = failure.cause
    return True


class _Observed(WorkflowInstance):
    """A workflow run whose failed workflow tasks are noted."""

    def __init__(self, inner: WorkflowInstance, note: Callable[[str], None]) -> None:
        self._inner, self._note = inner, note

    def activate(self, act: Any) -> Any:
        done = self._inner.activate(act)
        if done.HasField("failed") and done.failed.failure.message not in (AHEAD, LATE):
            failure = done.failed.failure
            self._note(f"{failure.application_failure_info.type or 'Error'}: {message_of(failure)}")
        return done

    def get_serialization_context(self, command_info: Any) -> SerializationContext | None:
        return self._inner.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> StorageDriverStoreContext:
        return self._inner.get_external_store_context(command_info)

    def get_info(self) -> Info:
        return self._inner.get_info()

    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()


class ObservedRunner(WorkflowRunner):
    """Notes which runs failed a workflow task: of one that has not ended, a replay has no commands to compare."""

    def __init__(self, inner: WorkflowRunner) -> None:
        self._inner = inner
        self.failed: dict[str, str] = {}
        """Run → the first error it raised."""

    def prepare_workflow(self, defn: Any) -> None:
        self._inner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        run = det.info.run_id
        return _Observed(self._inner.create_instance(det), lambda error: _first(self.failed, run, error))

    def set_worker_level_failure_exception_types(self, types: Any) -> None:
        self._inner.set_worker_level_failure_exception_types(types)


def _first(noted: dict[str, str], run: str, error: str) -> None:
    noted.setdefault(run, error)


def give_time(worker: Worker) -> Worker:
    """Let its activations take `DEADLOCK_S`."""
    worker._workflow_worker._deadlock_timeout_seconds = DEADLOCK_S  # type: ignore[union-attr,assignment] # noqa: SLF001
    return worker


class GuardedRunner(WorkflowRunner):
    """Runs workflows without a sandbox, behind the guard."""

    def __init__(self, inner: WorkflowRunner | None = None, witness: Witness | None = None) -> None:
        """`witness` hears of the runs that this worker cannot play."""
        self._inner = inner or UnsandboxedWorkflowRunner()
        self._witness = witness

    def prepare_workflow(self, defn: Any) -> None:
        self._inner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _Guarded(self._inner.create_instance(det), det.info, self._witness)

    def set_worker_level_failure_exception_types(self, types: Any) -> None:
        self._inner.set_worker_level_failure_exception_types(types)
