"""What follows a task: the next link of its chain, for the same account on the same emulator."""

from temporalio import workflow
from temporalio.exceptions import WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts.tasks import Chain, TaskSpec
    from droidherd.domain.chain import why_not
    from droidherd.domain.messages import OnBusy
    from workflows.children import start_task
    from workflows.ledger import Ledger

MARK = 6
"""Characters of the run id that tell a link from a stranger of its name."""


async def follow(ledger: Ledger, *, by_policy: bool) -> None:
    """Start what comes next, or note why nothing does. What followed before does not follow again."""
    if not ledger.spec.then or ledger.following:
        return
    ledger.chain_ends = why_not(ledger.state, critical=ledger.spec.critical, by_policy=by_policy)
    if ledger.chain_ends:
        return
    first, spec = _next(ledger)
    whom = f" for {spec.account}" if spec.account else ""
    for task_id in (first, f"{first}-{workflow.info().run_id[:MARK]}"):
        try:
            await start_task(task_id, spec, f"{spec.type}{whom}, after {workflow.info().workflow_id}")
        except WorkflowAlreadyStartedError:
            continue  # somebody else's: what followed this task once is known, and does not come here
        ledger.following = task_id
        return
    ledger.chain_ends = f"{first} is the name of another task"


def _next(ledger: Ledger) -> tuple[str, TaskSpec]:
    """Its id tells its place; what the links do not say stays as it was."""
    spec, me = ledger.spec, workflow.info().workflow_id
    chain = Chain(head=me, place=2, previous=me)
    if spec.chain is not None:
        chain = Chain(head=spec.chain.head, place=spec.chain.place + 1, previous=me)
    link, *rest = spec.then
    last = ledger.attempts[-1].emulator if ledger.attempts else ""
    changes = {
        **dict(link),
        "then": tuple(rest),
        "chain": chain,
        "emulator": last or spec.emulator,
        "on_busy": OnBusy.QUEUE,
        "not_before": None,
    }
    return f"{chain.head}.{chain.place}", spec.model_copy(update=changes)
