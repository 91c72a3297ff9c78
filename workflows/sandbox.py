"""What workflows run in: the SDK's sandbox, without its detour per payload."""

from dataclasses import dataclass
from typing import Any, Self

from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import SerializationContext, StorageDriverStoreContext
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions
from temporalio.workflow import Info

PASSED_THROUGH = ("droidherd", "workflows", "pydantic", "pydantic_core", "annotated_types", "typing_extensions")
"""Modules that are imported once per process and not once per run."""

AHEAD = "a query ran ahead of this workflow task; it is played anew"
LATE = "a local answer came late, since a query was answered first; this workflow task is played anew"
COARSE_NS = 1_000_000


class _Instance(WorkflowInstance):
    """A workflow in its sandbox. Our data converter and codecs do not look at which command a payload belongs to."""

    def __init__(self, inner: WorkflowInstance) -> None:
        self._inner = inner
        self._reached: tuple[int, int] = (0, 0)
        """How much history was played, and the time of its last workflow task."""
        self._ahead = False
        """History was played that no workflow task had begun for."""
        self._open: set[str] = set()
        """Updates that were accepted and have no answer yet."""

    def activate(self, act: Any) -> Any:
        if all(job.HasField("query_workflow") or job.HasField("remove_from_cache") for job in act.jobs):
            return self._inner.activate(act)
        if self._ahead or self._is_late(act):
            refused = WorkflowActivationCompletion()
            refused.failed.failure.message = AHEAD if self._ahead else LATE
            return refused
        self._ahead = self._is_early(act)
        self._reached = (act.history_length, act.timestamp.ToNanoseconds())
        done = self._inner.activate(act)
        self._follow(done)
        return done

    def _follow(self, done: Any) -> None:
        for command in done.successful.commands:
            if command.HasField("update_response"):
                update = command.update_response
                (self._open.add if update.HasField("accepted") else self._open.discard)(update.protocol_instance_id)

    def _is_late(self, act: Any) -> bool:
        """Whether the answer of a local activity comes with what a later workflow task brings.

        Its place is in a step of its own. But if it comes just while a query is answered, the workflow task ends with
        that, and already holds the answer; the workflow hears it in its next one, behind signals and updates. A replay
        gives it before them, where it stands in the history.

        Not while an update waits: if the answer lets it end, the core loses its word of that in a replay, at every try.
        """
        answers = [job.HasField("resolve_activity") and job.resolve_activity.is_local for job in act.jobs]
        late = any(answers) and not all(answers) and not act.is_replaying and act.history_length > self._reached[0]
        return late and not self._open

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

    def get_serialization_context(self, command_info: Any) -> SerializationContext | None:  # noqa: ARG002
        return None

    def get_external_store_context(self, command_info: Any) -> StorageDriverStoreContext:  # noqa: ARG002
        return StorageDriverStoreContext(target=None)

    def get_info(self) -> Info:
        return self._inner.get_info()

    def get_thread_id(self) -> int | None:
        return self._inner.get_thread_id()


@dataclass(frozen=True)
class LeanSandbox(WorkflowRunner):
    """The SDK's sandbox, but for one thing: it enters the sandbox for each payload, to ask what it belongs to."""

    sandbox: SandboxedWorkflowRunner

    @classmethod
    def passing(cls, *modules: str) -> Self:
        """These modules are imported once per process."""
        return cls(SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*modules)))

    def prepare_workflow(self, defn: Any) -> None:
        self.sandbox.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _Instance(self.sandbox.create_instance(det))

    def set_worker_level_failure_exception_types(self, types: Any) -> None:
        self.sandbox.set_worker_level_failure_exception_types(types)
