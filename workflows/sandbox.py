"""What workflows run in: the SDK's sandbox, without its detour per payload."""

from dataclasses import dataclass
from typing import Any, Self

from temporalio.converter import SerializationContext, StorageDriverStoreContext
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions
from temporalio.workflow import Info

PASSED_THROUGH = ("droidherd", "workflows", "pydantic", "pydantic_core", "annotated_types", "typing_extensions")
"""Modules that are imported once per process and not once per run."""


class _Instance(WorkflowInstance):
    """A workflow in its sandbox. Our data converter and codecs do not look at which command a payload belongs to."""

    def __init__(self, inner: WorkflowInstance) -> None:
        self._inner = inner

    def activate(self, act: Any) -> Any:
        return self._inner.activate(act)

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
