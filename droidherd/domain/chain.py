"""Whether the next link of a chain follows a task that ended."""

from droidherd.domain.lifecycle import TaskState

FAILURES = (TaskState.FAILED, TaskState.ROLLBACK_COMPLETED)
"""A failure that was taken back by policy leaves the emulator as it was, and is a failure all the same."""


def why_not(state: TaskState, *, critical: bool, by_policy: bool) -> str:
    """Why nothing follows; empty when the next one may. `by_policy`: no person asked for the rollback there was."""
    if state is TaskState.COMPLETED:
        return ""
    if state in FAILURES and (state is TaskState.FAILED or by_policy):
        return "it is critical, and failed" if critical else ""
    return f"it is {state}"
