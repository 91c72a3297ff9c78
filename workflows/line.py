"""Waiting in line for an emulator: what a task wishes for, and how it waits for the dispatcher's word."""

from collections.abc import Callable

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts import names
    from droidherd.contracts.plan import Plan
    from droidherd.domain import messages as m
    from droidherd.domain.claim import Claim
    from droidherd.domain.messages import OnBusy
    from workflows.intake import until_s
    from workflows.ledger import Ledger

REPEAT_S = 300.0


def wish(ledger: Ledger, plan: Plan, ticket: int, avoid: str, *, known: bool) -> m.Enqueue:
    """For an emulator. `known`: only who comes for the first time can be a duplicate."""
    spec, physics = ledger.spec, ledger.physics
    bound = ledger.bound_to() or spec.emulator or plan.emulator
    # Who takes something back wants the emulator that was changed, whatever it is called by now.
    labels = () if ledger.rollback is not None else (*plan.requires, *spec.requires)
    requires = {*labels, *((f"emulator_id={bound}",) if bound else ())}
    return m.Enqueue(
        key=ledger.key(),
        seq=0,
        lane=names.lane_of(spec.lane, spec.account),
        task_type=spec.type,
        requires=tuple(sorted(requires)),
        account=spec.account,
        mutex=spec.mutex,
        priority=ledger.priority,
        on_busy=OnBusy.QUEUE if known else spec.on_busy,
        ticket=ticket,
        hold_s=plan.policy.time_limit_s + physics.cleanup_s + physics.lease_margin_s,
        single=ledger.errands_left() == 1,
        avoid="" if bound else avoid,
    )


async def spoken(claim: Claim, condition: Callable[[], bool], limit_s: float = REPEAT_S) -> bool:
    """Wait, at most so long. The request is repeated when the dispatcher takes too long."""
    admitted = claim.admitted
    repeat_s = (admitted.repeat_after_s if admitted else REPEAT_S) * (1 + workflow.random().random() / 10)
    try:
        await workflow.wait_condition(condition, timeout=min(repeat_s, limit_s))
    except TimeoutError:
        if repeat_s <= limit_s:
            claim.repeat()
        return False
    return True


def patience_s(ledger: Ledger) -> float:
    """How long a task that has not started yet may wait; `expires_at` says so."""
    if ledger.attempts:
        return float("inf")
    return max(until_s(ledger.spec.expires_at, far=float("inf")), 0.01)
