"""Which failures of a run the guard reports, so that a worker replaces it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.bridge.proto.workflow_activation import (
    QueryWorkflow,
    RemoveFromCache,
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.worker import WorkflowInstance, WorkflowRunner

from workflows.guard import ERROR_MAX, MISSING_KEY, GuardedRunner
from workflows.inbound import locked_value, note_dropped

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
    """Drops a message for a missing key, needs one and swallows the error, or fails with an error of this type."""

    def __init__(self, *, drops: bool, needs: bool, fails: str) -> None:
        self._drops, self._needs, self._fails = drops, needs, fails

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        if self._drops:
            note_dropped("k9")
        if self._needs:
            locked_value("the result of look", "k9")
        done = WorkflowActivationCompletion()
        if self._fails:
            done.failed.failure.application_failure_info.type = self._fails
            done.failed.failure.message = "line\n" * 1_000
        return done


class Runner:
    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    def create_instance(self, _: object) -> Instance:
        return self._instance


@pytest.mark.parametrize(
    ("lacks", "fails", "reason", "reported"),
    [
        ("", "OverflowError", REASONS.LANG_FAIL, True),
        ("drops", "OverflowError", REASONS.LANG_FAIL, True),
        ("", MISSING_KEY[0], REASONS.LANG_FAIL, False),
        ("", MISSING_KEY[1], REASONS.LANG_FAIL, False),
        ("needs", "AttributeError", REASONS.LANG_FAIL, False),
        ("needs", "", REASONS.LANG_FAIL, False),
        ("", "", REASONS.NONDETERMINISM, True),
        ("drops", "", REASONS.NONDETERMINISM, False),
    ],
)
def test_a_run_that_waits_for_a_key_is_left_alone(lacks: str, fails: str, reason: Any, *, reported: bool):
    witness = Witness()
    instance = Instance(drops=lacks == "drops", needs=lacks == "needs", fails=fails)
    runner = GuardedRunner(cast("WorkflowRunner", Runner(instance)), witness)
    info = SimpleNamespace(run_id="r", workflow_id="w", workflow_type="TaskWorkflow")
    guarded = runner.create_instance(cast("Any", SimpleNamespace(info=info)))
    done = guarded.activate(WorkflowActivation(history_length=3, jobs=[WorkflowActivationJob()]))
    assert ("the key 'k9'" in done.failed.failure.message) is (lacks == "needs"), "it says so itself, or nobody knows"
    left = WorkflowActivationJob(remove_from_cache=RemoveFromCache(message="why", reason=reason))
    guarded.activate(WorkflowActivation(jobs=[left]))
    assert reported is bool(witness.failed)
    for why in witness.failed:
        # In one line, not as the core dumps it.
        assert why.startswith(f"{fails}: line line" if fails else "why")
        assert len(why) <= ERROR_MAX


def test_a_key_that_a_query_lacks_is_not_noted_for_the_run_played_before():
    witness = Witness()
    info = SimpleNamespace(run_id="r", workflow_id="w", workflow_type="TaskWorkflow")

    def run(*, drops: bool) -> WorkflowInstance:
        instance = Instance(drops=drops, needs=False, fails="")
        runner = GuardedRunner(cast("WorkflowRunner", Runner(instance)), witness)
        return runner.create_instance(cast("Any", SimpleNamespace(info=info)))

    before, asked = run(drops=False), run(drops=True)
    before.activate(WorkflowActivation(history_length=3, jobs=[WorkflowActivationJob()]))
    asked.activate(WorkflowActivation(jobs=[WorkflowActivationJob(query_workflow=QueryWorkflow(query_id="q"))]))
    diverged = RemoveFromCache(message="why", reason=REASONS.NONDETERMINISM)
    before.activate(WorkflowActivation(jobs=[WorkflowActivationJob(remove_from_cache=diverged)]))
    assert ["why"] == witness.failed


def test_a_run_whose_workflow_task_timed_out_is_reported():
    witness = Witness()
    runner = GuardedRunner(cast("WorkflowRunner", Runner(Instance(drops=False, needs=False, fails=""))), witness)
    info = SimpleNamespace(run_id="r", workflow_id="w", workflow_type="TaskWorkflow")
    guarded = runner.create_instance(cast("Any", SimpleNamespace(info=info)))
    left = WorkflowActivationJob(remove_from_cache=RemoveFromCache(reason=REASONS.TASK_NOT_FOUND))
    guarded.activate(WorkflowActivation(jobs=[left]))
    assert ([], ["w"]) == (witness.failed, witness.late)
