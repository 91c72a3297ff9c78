"""Which failures of a run the guard reports, so that a worker replaces it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.bridge.proto.workflow_activation import RemoveFromCache, WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import WorkflowRunner

from workflows.guard import MISSING_KEY, GuardedRunner
from workflows.inbound import LOCKED

REASONS = RemoveFromCache.EvictionReason


class Witness:
    def __init__(self) -> None:
        self.failed: list[str] = []
        self.late: list[str] = []

    def on_failed(self, run_id: str, workflow_id: str, kind: str, error: str) -> None:
        self.failed.append(error)

    def on_late(self, run_id: str, workflow_id: str, kind: str, error: str) -> None:
        self.late.append(workflow_id)

    def on_advanced(self, run_id: str, kind: str, *, replayed: bool) -> None:
        """Not asked here."""


class Instance:
    """Drops a message for a missing key, or fails with an error of this type."""

    def __init__(self, *, drops: bool, fails: str) -> None:
        self._drops, self._fails = drops, fails

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        missing = LOCKED.get()
        if self._drops and missing is not None:
            missing.add("k9")
        done = WorkflowActivationCompletion()
        if self._fails:
            done.failed.failure.application_failure_info.type = self._fails
        return done


class Runner:
    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def create_instance(self, _: object) -> Instance:
        return self._instance


@pytest.mark.parametrize(
    ("drops", "fails", "reason", "reported"),
    [
        (False, "OverflowError", REASONS.LANG_FAIL, True),
        (True, "OverflowError", REASONS.LANG_FAIL, True),
        (False, MISSING_KEY[0], REASONS.LANG_FAIL, False),
        (False, MISSING_KEY[1], REASONS.LANG_FAIL, False),
        (False, "", REASONS.NONDETERMINISM, True),
        (True, "", REASONS.NONDETERMINISM, False),
    ],
)
def test_a_run_that_waits_for_a_key_is_left_alone(*, drops: bool, fails: str, reason: Any, reported: bool):
    witness = Witness()
    runner = GuardedRunner(cast("WorkflowRunner", Runner(Instance(drops=drops, fails=fails))), witness)
    info = SimpleNamespace(run_id="r", workflow_id="w", workflow_type="TaskWorkflow")
    guarded = runner.create_instance(cast("Any", SimpleNamespace(info=info)))
    guarded.activate(WorkflowActivation(history_length=3, jobs=[WorkflowActivationJob()]))
    left = WorkflowActivationJob(remove_from_cache=RemoveFromCache(message="why", reason=reason))
    guarded.activate(WorkflowActivation(jobs=[left]))
    assert (["why"] if reported else []) == witness.failed


def test_a_run_whose_workflow_task_timed_out_is_reported():
    witness = Witness()
    runner = GuardedRunner(cast("WorkflowRunner", Runner(Instance(drops=False, fails=""))), witness)
    info = SimpleNamespace(run_id="r", workflow_id="w", workflow_type="TaskWorkflow")
    guarded = runner.create_instance(cast("Any", SimpleNamespace(info=info)))
    left = WorkflowActivationJob(remove_from_cache=RemoveFromCache(reason=REASONS.TASK_NOT_FOUND))
    guarded.activate(WorkflowActivation(jobs=[left]))
    assert ([], ["w"]) == (witness.failed, witness.late)
